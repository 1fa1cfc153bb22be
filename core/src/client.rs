//! A client: one ZooKeeper session after another, shared by the locks made on it.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use crate::driver::{self, Command, Input, Touch};
use crate::error::{Error, Result};
use crate::hosts::Hosts;
use crate::lease::LockPath;
use crate::meter::Meter;
use crate::options::ClientOptions;
use crate::path::{Place, check_path};
use crate::queue::{JoinId, NodeName};
use crate::runtime;
use crate::state::{ClientState, States, Status};
use crate::stats::{Stats, Transport};

/// A client of one ensemble. Clones are the same client. Locks and leases keep the client that they were made
/// on alive; when the last handle is gone it closes in the background.
#[derive(Clone)]
pub struct Client {
    shared: Arc<Shared>,
}

/// What the handles of a client share. The driver does not keep it alive, so that its end is the handles' end.
pub(crate) struct Shared {
    pub(crate) options: ClientOptions,
    generation: u64,
    driver: OnceLock<mpsc::UnboundedSender<Input>>,
    status: Arc<Status>,
    closed: AtomicBool,
    next_join: AtomicU64,
    paths: Mutex<Paths>,
}

/// The lock directories in use, so that two lock objects on one path are one lock.
#[derive(Default)]
struct Paths {
    locks: HashMap<Place, Weak<LockPath>>,
    prune_at: usize,
}

impl Paths {
    fn get(&mut self, client: &Arc<Shared>, place: &Place) -> Arc<LockPath> {
        if let Some(lock) = self.locks.get(place).and_then(Weak::upgrade) {
            return lock;
        }
        // Entries of dropped locks are swept when the map has doubled, so that sweeping costs nothing on average.
        if self.locks.len() >= self.prune_at {
            self.locks.retain(|_, lock| lock.strong_count() > 0);
            self.prune_at = 2 * self.locks.len() + 64;
        }
        let lock = Arc::new(LockPath::new(Arc::clone(client), place.clone()));
        self.locks.insert(place.clone(), Arc::downgrade(&lock));
        lock
    }
}

/// What hangs on the process: the shared clients, and every client's driver, to be closed at exit.
#[derive(Default)]
pub(crate) struct Registry {
    shared: HashMap<ClientOptions, Client>,
    drivers: Vec<Running>,
}

/// A driver that has not ended yet. A client that nobody has any more may still be closing.
struct Running {
    input: mpsc::WeakUnboundedSender<Input>,
    task: JoinHandle<()>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("hosts", &self.shared.options.hosts)
            .field("state", &self.state())
            .finish_non_exhaustive()
    }
}

impl Client {
    /// A client that connects when it is first used. Sends nothing and starts no thread.
    #[must_use]
    pub fn new(options: ClientOptions) -> Self {
        let shared = Shared {
            options,
            generation: runtime::generation(),
            driver: OnceLock::new(),
            status: Arc::default(),
            closed: AtomicBool::new(false),
            next_join: AtomicU64::new(1),
            paths: Mutex::default(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Connects to `hosts` (see [`ClientOptions::new`]) with default options.
    ///
    /// Cancel safe: dropping the future closes the client.
    ///
    /// # Errors
    /// As [`ready`](Self::ready), and [`BadArgument`](crate::ErrorKind::BadArgument) for malformed hosts.
    pub async fn connect(hosts: &str) -> Result<Self> {
        let client = Self::new(ClientOptions::new(Some(hosts))?);
        client.ready().await?;
        Ok(client)
    }

    /// The process's one client with `options`. Sends nothing. Closed by [`shutdown`].
    ///
    /// # Errors
    /// [`ConnectionFailed`](crate::ErrorKind::ConnectionFailed) if the operating system refuses a thread.
    pub fn shared(options: &ClientOptions) -> Result<Self> {
        let mut registry = runtime::process()?.state();
        if let Some(client) = registry.shared.get(options)
            && client.shared.usable()
        {
            return Ok(client.clone());
        }
        let client = Self::new(options.clone());
        registry.shared.insert(options.clone(), client.clone());
        Ok(client)
    }

    /// Waits until the client has a session; connects if it never tried.
    ///
    /// Cancel safe: dropping the future leaves the client connecting.
    ///
    /// # Errors
    /// [`ConnectionFailed`](crate::ErrorKind::ConnectionFailed) if there is none within the connect time-out,
    /// [`AuthFailed`](crate::ErrorKind::AuthFailed), [`ClientClosed`](crate::ErrorKind::ClientClosed),
    /// [`Forked`](crate::ErrorKind::Forked).
    pub async fn ready(&self) -> Result<()> {
        self.shared.ready().await
    }

    /// Whether the client is in touch with the ensemble.
    #[must_use]
    pub fn state(&self) -> ClientState {
        self.shared.status.get()
    }

    /// Every change of [`state`](Self::state) from now on. Does not keep the client alive. Ends at once in a process
    /// that inherited this handle through fork.
    #[must_use]
    pub fn states(&self) -> States {
        match self.shared.check_process() {
            Ok(()) => self.shared.status.listen(),
            // The thread that changes the state may have been amid it when the process forked.
            Err(_) => States::ended(),
        }
    }

    /// The current ZooKeeper session, 0 if there was none yet.
    #[must_use]
    pub fn session_id(&self) -> i64 {
        self.shared.status.session()
    }

    /// What the client did since it was made. Sends nothing, and answers for a closed client too.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let transport = (self.session_id() != 0).then(Transport::in_use);
        self.shared.status.meter.snapshot(transport)
    }

    /// Asks a contender to give its lock up, as Curator's `Revoker` does: writes `__REVOKE__` into its node. `node` is a
    /// full path below the client's chroot, as [`Lease::node`](crate::Lease::node) gives it; a
    /// [`Contender::node`](crate::Contender::node) is its last part. The holder hears of it if it listens, and does as it likes.
    ///
    /// Not cancel safe: the request may have been made.
    ///
    /// # Errors
    /// [`NotHeld`](crate::ErrorKind::NotHeld) if there is no such node; [`BadArgument`](crate::ErrorKind::BadArgument) if
    /// it is not a contender's; [`AuthFailed`](crate::ErrorKind::AuthFailed) if it may not be written; and those of
    /// [`ready`](Self::ready).
    pub async fn revoke(&self, node: &str) -> Result<()> {
        self.touch(node, Touch::Revoke).await
    }

    /// Takes a contender's lock, or its place in the queue, away: deletes its node. For operators, when a holder does not
    /// answer and cannot be killed. A holder that is in touch with the server learns of its loss within moments, but
    /// perhaps after the next one was granted the lock.
    ///
    /// Not cancel safe: the node may have been deleted.
    ///
    /// # Errors
    /// As [`revoke`](Self::revoke).
    pub async fn break_lock(&self, node: &str) -> Result<()> {
        self.touch(node, Touch::Break).await
    }

    async fn touch(&self, node: &str, touch: Touch) -> Result<()> {
        check_path("node", node)?;
        let (directory, name) = node.rsplit_once('/').unwrap_or_default();
        if directory.is_empty() || NodeName::parse(name).is_none() {
            let problem =
                format_args!("no contender has this node, for its name does not end in ten digits: {node:?}");
            return Err(Error::bad_argument("node", problem));
        }
        self.ready().await?;
        let node = format!("{}{node}", self.hosts().chroot).into();
        let (reply, done) = oneshot::channel();
        self.shared.send(Command::Touch { node, touch, reply })?;
        self.shared.answer(done).await
    }

    /// Closes the client: its leases are lost, its waiters fail, its session ends, and with it all its nodes.
    /// Waits until the server has acknowledged it, or for two seconds. Closing again does nothing.
    ///
    /// Cancel safe: the closing is on its way when this function returns its future.
    ///
    /// # Errors
    /// [`Forked`](crate::ErrorKind::Forked).
    pub fn close(&self) -> impl Future<Output = Result<()>> + Send + 'static {
        let closing = self.shared.start_closing();
        async move {
            if let Some(closed) = closing? {
                closed.await.ok();
            }
            Ok(())
        }
    }

    pub(crate) fn hosts(&self) -> &Hosts {
        &self.shared.options.hosts
    }

    /// Whether two handles are of one client.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// The lock at a place.
    pub(crate) fn lock_path(&self, place: &Place) -> Result<Arc<LockPath>> {
        self.shared.check_process()?;
        let mut paths = self.shared.paths.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(paths.get(&self.shared, place))
    }
}

impl Shared {
    /// Fails in a process that inherited this handle through fork.
    pub(crate) fn check_process(&self) -> Result<()> {
        if self.generation == runtime::generation() { Ok(()) } else { Err(Error::forked()) }
    }

    /// Whether new work can be given to this client in this process.
    pub(crate) fn usable(&self) -> bool {
        self.check_process().is_ok() && self.status.get() != ClientState::Closed
    }

    pub(crate) fn meter(&self) -> &Meter {
        &self.status.meter
    }

    pub(crate) fn next_join(&self) -> JoinId {
        JoinId(self.next_join.fetch_add(1, Ordering::Relaxed))
    }

    /// Gives the driver a command; starts it with the first.
    pub(crate) fn send(&self, command: Command) -> Result<()> {
        self.check_process()?;
        if self.status.get() == ClientState::Closed {
            return Err(Error::client_closed());
        }
        let process = runtime::process()?;
        let driver = self.driver.get_or_init(|| {
            let (sender, receiver) = mpsc::unbounded_channel();
            let status = Arc::clone(&self.status);
            let mut registry = process.state();
            let task = process.spawn(driver::drive(self.options.clone(), status, sender.clone(), receiver));
            registry.drivers.retain(|driver| !driver.task.is_finished());
            registry.drivers.push(Running { input: sender.downgrade(), task });
            sender
        });
        // Closed before there was a driver to tell.
        if self.closed.load(Ordering::Acquire) {
            drop(close(driver));
            return Err(Error::client_closed());
        }
        driver.send(Input::Command(command)).map_err(|_| Error::client_closed())
    }

    /// What a driver answers. It cannot once the session is over, for what it asked then has no answer.
    pub(crate) async fn answer<T>(&self, answer: oneshot::Receiver<Result<T>>) -> Result<T> {
        answer
            .await
            .unwrap_or_else(|_| Err(if self.usable() { Error::unanswered() } else { Error::client_closed() }))
    }

    /// Waits for a session.
    pub(crate) async fn ready(&self) -> Result<()> {
        let (reply, outcome) = oneshot::channel();
        self.send(Command::Connect { reply })?;
        outcome.await.unwrap_or_else(|_| Err(Error::client_closed()))
    }

    fn start_closing(&self) -> Result<Option<oneshot::Receiver<()>>> {
        self.check_process()?;
        self.closed.store(true, Ordering::Release);
        let Some(driver) = self.driver.get() else {
            self.status.set(ClientState::Closed);
            return Ok(None);
        };
        Ok(close(driver))
    }
}

/// Tells a driver to close; `None` if it has ended.
fn close(driver: &mpsc::UnboundedSender<Input>) -> Option<oneshot::Receiver<()>> {
    let (done, closed) = oneshot::channel();
    driver.send(Input::Command(Command::Close { done: Some(done) })).ok().map(|()| closed)
}

impl Drop for Shared {
    fn drop(&mut self) {
        // A forked child leaves the parent's driver alone.
        if self.check_process().is_ok()
            && let Some(driver) = self.driver.get()
        {
            driver.send(Input::Command(Command::Close { done: None })).ok();
        }
    }
}

/// Closes every client of this process, and waits for the servers' acknowledgements for up to `limit`. For use at
/// the end of a process: locks are then free at once, instead of after the session time-out.
pub fn shutdown(limit: Duration) {
    let Some(process) = runtime::existing() else {
        return;
    };
    let (shared, drivers) = {
        let mut registry = process.state();
        (std::mem::take(&mut registry.shared), std::mem::take(&mut registry.drivers))
    };
    drop(shared);
    for driver in drivers.iter().filter_map(|driver| driver.input.upgrade()) {
        drop(close(&driver));
    }
    let (done, finished) = std::sync::mpsc::channel();
    drop(process.spawn(async move {
        for driver in drivers {
            driver.task.await.ok();
        }
        done.send(()).ok();
    }));
    finished.recv_timeout(limit).ok();
}
