//! [`Client`], the handle that locks share. It keeps one ZooKeeper session, and opens a new one
//! when that session is lost.

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

/// A client of one ensemble. Clones are handles of the same client. Locks and leases keep their
/// client alive. The client closes in the background when its last handle is dropped.
///
/// ```no_run
/// # async fn example() -> zklock::Result<()> {
/// use zklock::{Client, ClientOptions};
///
/// let client = Client::connect("127.0.0.1:2181").await?;
/// println!("session {:#x}", client.session_id());
/// client.close().await?;
///
/// // Or with options. This client connects when it is first used.
/// let client = Client::new(ClientOptions::new(Some("zk1,zk2,zk3/app"))?);
/// client.ready().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Client(Arc<Inner>);

/// The state that all handles of a client share.
struct Inner {
    options: ClientOptions,
    mailbox: Arc<Mailbox>,
    /// The receiving end of the mailbox, which belongs to the driver. It is stored here until the
    /// first command starts the driver.
    parked: Mutex<Option<Inbox>>,
    next_join: AtomicU64,
    directories: Mutex<Directories>,
}

/// The lock directories in use, each with its hold table. Lock objects with the same path share an
/// entry, so they act as one lock.
#[derive(Default)]
struct Directories {
    used: HashMap<LockPath, Weak<HoldTable>>,
    /// Directories of locks with the option `linger`, which keep a node after its lock is released.
    /// These entries outlive the lock objects, so that a later lock object can reuse the node.
    lasting: HashMap<LockPath, Arc<HoldTable>>,
    prune_at: usize,
}

impl Directories {
    /// Returns the hold table of a directory. `lasts` is `true` if the table must outlive the lock
    /// objects (see `lasting`).
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
        // Remove the entries of dropped locks only when the map has doubled in size, so that the
        // average cost for each lock stays constant.
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

/// The process's shared clients, one for each set of options.
type Shared = Mutex<HashMap<ClientOptions, Client>>;
static SHARED: PerProcess<Shared> = PerProcess::new();

/// Locks a mutex and ignores poisoning. Every change under these mutexes is a single insertion or
/// removal, so a panic leaves the data consistent.
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
    /// Creates a client that connects when it is first used. Sends no request and starts no thread.
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
    /// Same as [`ready`](Self::ready), and [`BadArgument`](crate::ErrorKind::BadArgument) for
    /// malformed hosts.
    pub async fn connect(hosts: &str) -> Result<Self> {
        Self::connect_with(ClientOptions::new(Some(hosts))?).await
    }

    /// Connects with options. Cancel safe like [`connect`](Self::connect).
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
    /// Same as [`ready`](Self::ready).
    pub async fn connect_with(options: ClientOptions) -> Result<Self> {
        let client = Self::new(options);
        client.ready().await?;
        Ok(client)
    }

    /// Returns the process's shared client with `options`. Sends no request. [`shutdown`] closes
    /// this client.
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

    /// Waits until the client has a session. Starts connecting if the client has not tried yet.
    ///
    /// Cancel safe: if the future is dropped, the client keeps connecting.
    ///
    /// # Errors
    /// - [`ConnectionFailed`](crate::ErrorKind::ConnectionFailed) if the client gets no session
    ///   within the connect timeout.
    /// - [`AuthFailed`](crate::ErrorKind::AuthFailed).
    /// - [`ClientClosed`](crate::ErrorKind::ClientClosed).
    /// - [`Forked`](crate::ErrorKind::Forked).
    pub async fn ready(&self) -> Result<()> {
        let (reply, outcome) = oneshot::channel();
        self.send(Command::Connect { reply })?;
        outcome.await.unwrap_or_else(|_| Err(Error::client_closed()))
    }

    /// Returns the state of the client's connection to the ensemble.
    #[must_use]
    pub fn state(&self) -> ClientState {
        if self.mailbox().origin.is_here() { self.mailbox().status.get() } else { ClientState::Forked }
    }

    /// Returns a stream of every future change of [`state`](Self::state). The stream does not keep
    /// the client alive. In a process that inherited this handle through fork, the stream ends
    /// immediately.
    #[must_use]
    pub fn states(&self) -> States {
        if self.mailbox().origin.is_here() {
            self.mailbox().status.listen()
        } else {
            // The inherited state is unsafe to use: at the fork, the parent's thread might have
            // been halfway through a change of it.
            States::ended()
        }
    }

    /// Returns the id of the current ZooKeeper session, or 0 before the first session.
    #[must_use]
    pub fn session_id(&self) -> i64 {
        self.mailbox().status.session()
    }

    /// Returns the session timeout that the server granted, or the requested one before the first
    /// session. The server frees the client's locks if it receives nothing from the client for this
    /// long.
    #[must_use]
    pub fn session_timeout(&self) -> Duration {
        self.mailbox().status.session_timeout().unwrap_or(self.0.options.session_timeout)
    }

    /// Returns the client's servers, each with its port, and its chroot, as a connect string.
    #[must_use]
    pub fn hosts(&self) -> String {
        self.address().to_string()
    }

    /// Returns counters of the client's work since it was created. Sends no request. A closed
    /// client also returns them.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let transport = (self.session_id() != 0).then(Transport::in_use);
        self.mailbox().status.recorder.snapshot(transport)
    }

    /// Returns the client's condition with its waits and holds. Use it for health checks, and to
    /// find out why a program hangs. Sends no request and waits for no server. Also works if the
    /// client is closed, disconnected, not yet connected, or inherited through fork.
    ///
    /// The call locks one internal mutex and takes time proportional to the number of waits and
    /// holds. While the library's thread is busy, the call takes up to 0.1 s longer (see
    /// [`Health::responsive`]).
    #[must_use]
    pub fn health(&self) -> Health {
        let of = if self.mailbox().origin.is_here() { Health::of } else { Health::forked };
        of(&self.0.options, &self.mailbox().status)
    }

    /// Asks a contender to give up its lock. Like Curator's `Revoker`, writes `__REVOKE__` into the
    /// contender's node. `node` is a full path below the client's chroot, as
    /// [`Contender::node`](crate::Contender::node) and [`Lease::node`](crate::Lease::node) return
    /// it. The holder is notified if it listens for such requests, but it does not have to comply.
    ///
    /// Not cancel safe: the request might already be sent.
    ///
    /// # Errors
    /// - [`NotHeld`](crate::ErrorKind::NotHeld) if the node does not exist.
    /// - [`BadArgument`](crate::ErrorKind::BadArgument) if the node is not a contender's, or
    ///   belongs to a candidate of an [`Election`](crate::Election).
    /// - [`AuthFailed`](crate::ErrorKind::AuthFailed) if the client lacks the right to write the
    ///   node.
    /// - The errors of [`ready`](Self::ready).
    pub async fn revoke(&self, node: &str) -> Result<()> {
        self.act_on_node(node, NodeAction::Revoke).await
    }

    /// Deletes a contender's node, so the contender loses its lock or its position in the queue.
    /// Operators use this when a holder does not respond and cannot be killed. A connected holder
    /// is notified of the loss within moments, but the next contender might be granted the lock
    /// before that.
    ///
    /// Not cancel safe: the node might already be deleted.
    ///
    /// # Errors
    /// Same as [`revoke`](Self::revoke).
    pub async fn break_lock(&self, node: &str) -> Result<()> {
        self.act_on_node(node, NodeAction::Break).await
    }

    async fn act_on_node(&self, node: &str, action: NodeAction) -> Result<()> {
        check_path("node", node)?;
        let (directory, name) = node.rsplit_once('/').unwrap_or_default();
        let parsed = NodeName::parse(name).filter(|_| !directory.is_empty());
        let Some(name) = parsed else {
            let problem = format!("{node:?} is not a contender's node: its name does not end in ten digits");
            return Err(Error::bad_argument("node", problem));
        };
        // `__REVOKE__` would overwrite the candidate's id. In addition, the write would use up the
        // watch of a `LeaderLatch` behind this node, which would then miss the node's deletion.
        if matches!(action, NodeAction::Revoke) && name.is_candidate() {
            let problem = format!(
                "{node:?} is a candidate in an election, and candidates do not support revoke requests; break it \
                 instead"
            );
            return Err(Error::bad_argument("node", problem));
        }
        let node = format!("{}{node}", self.address().chroot).into();
        self.ask(|reply| Query::ActOnNode { node, action, reply }).await
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

    /// Returns `true` if the client ever had a session. If it had one, a connection loss only makes
    /// acquires wait longer. If it never had one, acquires fail after the connect timeout.
    pub(crate) fn was_connected(&self) -> bool {
        self.session_id() != 0
    }

    pub(crate) fn next_join(&self) -> JoinId {
        JoinId(self.0.next_join.fetch_add(1, Ordering::Relaxed))
    }

    /// Returns `true` if both handles belong to one client.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Returns the hold table of a lock path. `lasts` is `true` for a lock that can keep its node
    /// after a release.
    pub(crate) fn holds(&self, place: &LockPath, lasts: bool) -> Result<Arc<HoldTable>> {
        let Inner { mailbox, directories, .. } = &*self.0;
        // In a forked child, the holds and the kept nodes belong to the parent process.
        mailbox.origin.check()?;
        let new = |place| {
            let driver: Arc<dyn Report> = Arc::clone(mailbox) as _;
            HoldTable::new(place, mailbox.origin, Arc::clone(&mailbox.status.recorder), driver)
        };
        Ok(locked(directories).get(place, lasts, new))
    }

    /// Sends a command to the driver. The first command starts the driver.
    pub(crate) fn send(&self, command: Command) -> Result<()> {
        self.mailbox().origin.check()?;
        let mut parked = locked(&self.0.parked);
        if parked.is_some() {
            registry::start(&self.0.options, &mut parked)?;
        }
        drop(parked);
        self.mailbox().send(command)
    }

    /// Corrects the error of an acquire that began at `since` and had several steps. A step that
    /// receives no reply fails with `Unreachable`, although an earlier step might have received
    /// one. For an acquire that does not wait (a try), `Unreachable` becomes a connection error.
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

    /// Sends a query to the server, once the client has a session.
    pub(crate) async fn ask<T>(&self, inquiry: impl FnOnce(Reply<T>) -> Query) -> Result<T> {
        self.ready().await?;
        let (reply, answer) = oneshot::channel();
        self.send(Command::Ask(inquiry(reply)))?;
        self.mailbox().answer(answer).await
    }

    /// Sends a query about `path` that can safely be repeated. Repeats the query after a connection
    /// loss, within the connect timeout.
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

/// Closes every client of this process, and frees its locks before their session timeouts expire.
/// Blocks until the servers have acknowledged this, but for at most `limit`. Do not call it where
/// blocking is forbidden.
///
/// A program that returns from `main`, panics there, or calls `std::process::exit` does not need
/// this function: an exit hook does the same, with a limit of one second. Call it where the process
/// ends without running its exit hooks:
/// - before `std::process::abort` or an `exec`,
/// - in a program that is compiled with `panic = "abort"`,
/// - before `std::process::exit` on Windows, where that function runs no exit hook, and at the end of
///   a program on Windows that uses a Rust library of zklock's in a DLL,
/// - in a signal handler's thread (see [`close_on_signals`](crate::close_on_signals)).
///
/// SIGKILL, running out of memory, or the loss of the machine ends the process without running any
/// of its code. The locks then stay held until the session timeout.
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
