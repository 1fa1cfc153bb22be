//! A client: one ZooKeeper session after another, shared by the locks made on it.

mod closing;
pub(crate) mod dump;
pub(crate) mod dump_signal;
pub(crate) mod health;
pub(crate) mod node_data;
pub(crate) mod per_process;
mod registry;
pub(crate) mod signals;
pub(crate) mod source;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use self::health::Health;
use crate::config::ClientOptions;
use crate::config::hosts::Hosts;
use crate::config::lock_path::{LockPath, check_path};
use crate::config::timeout::{Deadline, Timeout};
use crate::driver;
use crate::driver::mailbox::{Command, Inbox, Mailbox, NodeAction, Query, Reply};
use crate::driver::status::{ClientState, States};
use crate::error::timeout_reason::TimeoutReason;
use crate::error::{Error, ErrorKind, Result};
use crate::lease::hold::{HoldTable, Report};
use crate::metrics::{Stats, Transport};
use crate::queue::{JoinId, NodeName};
use crate::runtime::fork::PerProcess;

/// A client of one ensemble. Clones are the same client. Locks and leases keep alive the client that they were created
/// on; when the last handle is gone it closes in the background.
///
/// ```no_run
/// # async fn example() -> zklock::Result<()> {
/// use zklock::{Client, ClientOptions};
///
/// let client = Client::connect("127.0.0.1:2181").await?;
/// println!("session {:#x}", client.session_id());
/// client.close().await?;
///
/// // Or with options; it connects when it is first used.
/// let client = Client::new(ClientOptions::new(Some("zk1,zk2,zk3/app"))?);
/// client.ready().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Client(Arc<Inner>);

/// What the handles of a client share.
struct Inner {
    options: ClientOptions,
    mailbox: Arc<Mailbox>,
    /// The driver's end of the mailbox, until there is a driver: it is started with the first command.
    parked: Mutex<Option<Inbox>>,
    next_join: AtomicU64,
    directories: Mutex<Directories>,
}

/// The lock directories in use, so that two lock objects on one path are one lock.
#[derive(Default)]
struct Directories {
    used: HashMap<LockPath, Weak<HoldTable>>,
    /// The directories in which nodes may be kept, also for lock objects that are created later.
    lasting: HashMap<LockPath, Arc<HoldTable>>,
    prune_at: usize,
}

impl Directories {
    /// `lasts`: whether it may keep nodes.
    fn get(
        &mut self,
        place: &LockPath,
        lasts: bool,
        new: impl FnOnce(LockPath) -> HoldTable,
    ) -> Arc<HoldTable> {
        let used = self.used.get(place).and_then(Weak::upgrade);
        let holds = used.unwrap_or_else(|| self.add(place, new));
        if lasts && !self.lasting.contains_key(place) {
            self.lasting.insert(place.clone(), Arc::clone(&holds));
        }
        holds
    }

    fn add(&mut self, place: &LockPath, new: impl FnOnce(LockPath) -> HoldTable) -> Arc<HoldTable> {
        // Entries of dropped locks are removed when the map has doubled, so that this costs nothing on average.
        if self.used.len() >= self.prune_at {
            self.lasting.retain(|_, holds| holds.keeps_any());
            self.used.retain(|_, holds| holds.strong_count() > 0);
            self.prune_at = 2 * self.used.len() + 64;
        }
        let holds = Arc::new(new(place.clone()));
        self.used.insert(place.clone(), Arc::downgrade(&holds));
        holds
    }
}

/// The process's one client with these options.
type Shared = Mutex<HashMap<ClientOptions, Client>>;
static SHARED: PerProcess<Shared> = PerProcess::new();

/// A panic while it was locked leaves any of these usable: every change is a single insertion or removal.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("hosts", &self.hosts())
            .field("state", &self.state())
            .finish_non_exhaustive()
    }
}

impl Client {
    /// A client that connects when it is first used. Sends nothing and starts no thread.
    #[must_use]
    pub fn new(options: ClientOptions) -> Self {
        let (mailbox, inbox) = Mailbox::new();
        Self(Arc::new(Inner {
            options,
            mailbox: Arc::new(mailbox),
            parked: Mutex::new(Some(inbox)),
            next_join: AtomicU64::new(1),
            directories: Mutex::default(),
        }))
    }

    /// Connects to `hosts` (see [`ClientOptions::new`]) with default options.
    ///
    /// Cancel safe: dropping the future closes the client.
    ///
    /// # Errors
    /// As [`ready`](Self::ready), and [`BadArgument`](crate::ErrorKind::BadArgument) for malformed hosts.
    pub async fn connect(hosts: &str) -> Result<Self> {
        Self::connect_with(ClientOptions::new(Some(hosts))?).await
    }

    /// Connects with options; cancel safe as [`connect`](Self::connect).
    ///
    /// ```no_run
    /// # async fn example() -> zklock::Result<()> {
    /// use std::time::Duration;
    /// use zklock::{Client, ClientOptions};
    ///
    /// let options = ClientOptions::new(Some("zk1,zk2,zk3"))?.session_timeout(Duration::from_secs(6))?;
    /// let client = Client::connect_with(options).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`ready`](Self::ready).
    pub async fn connect_with(options: ClientOptions) -> Result<Self> {
        let client = Self::new(options);
        client.ready().await?;
        Ok(client)
    }

    /// The process's one client with `options`. Sends nothing. Closed by [`shutdown`].
    #[must_use]
    pub fn shared(options: &ClientOptions) -> Self {
        let mut shared = locked(SHARED.get_or_init(Mutex::default));
        if let Some(client) = shared.get(options).filter(|client| client.mailbox().usable()) {
            return client.clone();
        }
        let client = Self::new(options.clone());
        shared.insert(options.clone(), client.clone());
        client
    }

    /// Waits until the client has a session; connects if it has never tried.
    ///
    /// Cancel safe: dropping the future leaves the client connecting.
    ///
    /// # Errors
    /// [`ConnectionFailed`](crate::ErrorKind::ConnectionFailed) if there is none within the connect time-out,
    /// [`AuthFailed`](crate::ErrorKind::AuthFailed), [`ClientClosed`](crate::ErrorKind::ClientClosed),
    /// [`Forked`](crate::ErrorKind::Forked).
    pub async fn ready(&self) -> Result<()> {
        let (reply, outcome) = oneshot::channel();
        self.send(Command::Connect { reply })?;
        outcome.await.unwrap_or_else(|_| Err(Error::client_closed()))
    }

    /// Whether the client is connected to the ensemble.
    #[must_use]
    pub fn state(&self) -> ClientState {
        if self.mailbox().origin.is_here() { self.mailbox().status.get() } else { ClientState::Forked }
    }

    /// Every change of [`state`](Self::state) from now on. Does not keep the client alive. Ends at once in a process
    /// that inherited this handle through fork.
    #[must_use]
    pub fn states(&self) -> States {
        if self.mailbox().origin.is_here() {
            self.mailbox().status.listen()
        } else {
            // The thread that changes the state may have been halfway through when the process forked.
            States::ended()
        }
    }

    /// The current ZooKeeper session, 0 if there has been none yet.
    #[must_use]
    pub fn session_id(&self) -> i64 {
        self.mailbox().status.session()
    }

    /// The session time-out that the server granted; before there is a session, the one that the client asks for. A
    /// server that has not heard from the client for so long frees its locks.
    #[must_use]
    pub fn session_timeout(&self) -> Duration {
        self.mailbox().status.session_timeout().unwrap_or(self.0.options.session_timeout)
    }

    /// The servers and the chroot of the client, as a connect string: every server with its port.
    #[must_use]
    pub fn hosts(&self) -> String {
        self.address().to_string()
    }

    /// What the client has done since it was created. Sends nothing, and works for a closed client too.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let transport = (self.session_id() != 0).then(Transport::in_use);
        self.mailbox().status.recorder.snapshot(transport)
    }

    /// How the client is at this moment, and what in it waits and holds. Sends nothing, waits for no server, and works for
    /// a client that is closed, disconnected, not yet connected or inherited through fork: for health checks, and for
    /// finding out what a program that hangs waits for. It costs one lock, and time in proportion to what waits and
    /// holds; and while the library's own thread works, up to a tenth of a second (see [`Health::responsive`]).
    #[must_use]
    pub fn health(&self) -> Health {
        let of = if self.mailbox().origin.is_here() { Health::of } else { Health::forked };
        of(&self.0.options, &self.mailbox().status)
    }

    /// Asks a contender to give up its lock, as Curator's `Revoker` does: writes `__REVOKE__` into its node. `node` is
    /// a full path below the client's chroot, as [`Contender::node`](crate::Contender::node) and
    /// [`Lease::node`](crate::Lease::node) give it. The holder is notified if it listens, and may
    /// ignore it.
    ///
    /// Not cancel safe: the request may have been made.
    ///
    /// # Errors
    /// [`NotHeld`](crate::ErrorKind::NotHeld) if there is no such node; [`BadArgument`](crate::ErrorKind::BadArgument)
    /// if it is not a contender's, or is a candidate's in an [`Election`](crate::Election);
    /// [`AuthFailed`](crate::ErrorKind::AuthFailed) if it may not be written; and those of [`ready`](Self::ready).
    pub async fn revoke(&self, node: &str) -> Result<()> {
        self.touch(node, NodeAction::Revoke).await
    }

    /// Takes away a contender's lock, or its place in the queue, by deleting its node. For operators, when a holder
    /// does not answer and cannot be killed. A holder that is connected to the server learns of its loss within
    /// moments, but perhaps only after the lock was granted to the next contender.
    ///
    /// Not cancel safe: the node may have been deleted.
    ///
    /// # Errors
    /// As [`revoke`](Self::revoke).
    pub async fn break_lock(&self, node: &str) -> Result<()> {
        self.touch(node, NodeAction::Break).await
    }

    async fn touch(&self, node: &str, touch: NodeAction) -> Result<()> {
        check_path("node", node)?;
        let (directory, name) = node.rsplit_once('/').unwrap_or_default();
        let parsed = NodeName::parse(name).filter(|_| !directory.is_empty());
        let Some(name) = parsed else {
            let problem = format!("{node:?} is not a contender's node: its name does not end in ten digits");
            return Err(Error::bad_argument("node", problem));
        };
        // It would write over the id, and a LeaderLatch behind it would not see the node go any more.
        if matches!(touch, NodeAction::Revoke) && name.is_candidate() {
            let problem = format!(
                "{node:?} is a candidate's in an election, which cannot be asked to give up; break it instead"
            );
            return Err(Error::bad_argument("node", problem));
        }
        let node = format!("{}{node}", self.address().chroot).into();
        self.ask(|reply| Query::Touch { node, touch, reply }).await
    }

    pub(crate) fn options(&self) -> &ClientOptions {
        &self.0.options
    }

    pub(crate) fn address(&self) -> &Hosts {
        &self.0.options.hosts
    }

    pub(crate) fn mailbox(&self) -> &Mailbox {
        &self.0.mailbox
    }

    /// Whether there has ever been a session: from then on connection loss only lengthens waits.
    pub(crate) fn was_connected(&self) -> bool {
        self.session_id() != 0
    }

    pub(crate) fn next_join(&self) -> JoinId {
        JoinId(self.0.next_join.fetch_add(1, Ordering::Relaxed))
    }

    /// Whether two handles belong to one client.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The holds at a place; `lasts`: of a lock that may keep nodes.
    pub(crate) fn holds(&self, place: &LockPath, lasts: bool) -> Result<Arc<HoldTable>> {
        let Inner { mailbox, directories, .. } = &*self.0;
        mailbox.origin.check()?;
        let new = |place| {
            let driver: Arc<dyn Report> = Arc::clone(mailbox) as _;
            HoldTable::new(place, mailbox.origin, Arc::clone(&mailbox.status.recorder), driver)
        };
        Ok(locked(directories).get(place, lasts, new))
    }

    /// Gives the driver a command; the first command starts the driver.
    pub(crate) fn send(&self, command: Command) -> Result<()> {
        self.mailbox().origin.check()?;
        let mut parked = locked(&self.0.parked);
        if parked.is_some() {
            registry::start(&self.0.options, &mut parked)?;
        }
        drop(parked);
        self.mailbox().send(command)
    }

    /// The error of an attempt that began then and consists of several steps: one of them may say that nothing was heard,
    /// but knows of itself alone. Without an answer a try fails to connect.
    pub(crate) fn explain(&self, error: Error, since: Instant, timeout: Timeout) -> Error {
        let status = &self.mailbox().status;
        match (error.timeout_reason(), timeout.answer_within()) {
            (Some(TimeoutReason::Unreachable), within @ Some(_)) => {
                driver::unreachable(self.options(), within, status.servers(&self.address().servers))
            }
            (Some(TimeoutReason::Unreachable), None) if status.heard_since(since) => {
                error.with_timeout_reason(TimeoutReason::Unknown)
            }
            _ => error,
        }
    }

    /// Asks the server something, once there is a session.
    pub(crate) async fn ask<T>(&self, inquiry: impl FnOnce(Reply<T>) -> Query) -> Result<T> {
        self.ready().await?;
        let (reply, answer) = oneshot::channel();
        self.send(Command::Ask(inquiry(reply)))?;
        self.mailbox().answer(answer).await
    }

    /// Asks the server something about `path` that may be asked again if the connection is lost before it answers,
    /// within the connect time-out.
    pub(crate) async fn ask_again<T>(&self, path: &str, inquiry: impl Fn(Reply<T>) -> Query) -> Result<T> {
        let ask = || self.ask(&inquiry);
        let began = Instant::now();
        let unanswered = match ask().await {
            Err(error) if error.kind() == ErrorKind::ConnectionFailed => error,
            answer => return answer,
        };
        let left = self.options().connect_timeout.saturating_sub(began.elapsed());
        if left.is_zero() {
            return Err(unanswered);
        }
        match Deadline::after(Timeout::For(left)).ask_until_answered(path, || true, ask).await {
            Err(error) if error.kind() == ErrorKind::LockTimeout => Err(unanswered),
            answer => answer,
        }
    }
}

/// Closes every client of this process, and waits for the servers' acknowledgements for up to `limit`. Its locks are
/// free then, not only after the session time-out. Blocks; not to be called where that must not be.
///
/// A program that returns from `main`, panics there, or calls `std::process::exit` does not need it: an exit hook does
/// the same, with a limit of one second. It is for what ends a process without its exit hooks: before
/// `std::process::abort` or an `exec`, in a program that is compiled with `panic = "abort"`, and in a signal handler's
/// thread (see [`close_on_signals`](crate::close_on_signals)). What ends the process without any of its code running
/// leaves its locks taken until the session time-out: SIGKILL, a lack of memory, the loss of the machine.
///
/// ```no_run
/// use std::time::Duration;
///
/// zklock::shutdown(Duration::from_secs(2));
/// std::process::abort();
/// ```
pub fn shutdown(limit: Duration) {
    if let Some(shared) = SHARED.get() {
        let clients = std::mem::take(&mut *locked(shared));
        drop(clients);
    }
    registry::close_all(limit);
}
