//! A client's connection state and its listeners.

use std::fmt;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::error::server_report::Servers;
use crate::lease::report::{DriverSnapshot, Inspector};
use crate::metrics::recorder::Recorder;
use crate::runtime::clock::BootInstant;
use crate::session::term::Term;

/// A client's connection to the ensemble.
///
/// ```
/// use zklock::{Client, ClientOptions, ClientState};
///
/// # fn main() -> zklock::Result<()> {
/// let client = Client::new(ClientOptions::new(None)?);
/// assert_eq!(client.state(), ClientState::Idle);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[non_exhaustive]
pub enum ClientState {
    /// The client has not contacted a server yet.
    Idle,
    /// The client has no session and is looking for a server.
    Connecting,
    /// The client is connected to a server.
    Connected,
    /// The client is disconnected, but the session can survive.
    Suspended,
    /// The client is closed for good. Its leases are lost.
    Closed,
    /// The client belongs to the parent of this forked process. It cannot be used in this process.
    Forked,
}

impl fmt::Display for ClientState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl ClientState {
    /// All states except `Forked`. The index is the state's number.
    const ALL: [Self; 5] = [Self::Idle, Self::Connecting, Self::Connected, Self::Suspended, Self::Closed];

    /// Returns the state's name. It is the same in all language bindings.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Connecting => "connecting",
            Self::Connected => "connected",
            Self::Suspended => "suspended",
            Self::Closed => "closed",
            Self::Forked => "forked",
        }
    }
}

/// Stream of all changes of a client's state, in order. It begins when
/// [`Client::states`](crate::Client::states) is called.
///
/// ```no_run
/// # async fn example(client: &zklock::Client) -> zklock::Result<()> {
/// let mut states = client.states();
/// while let Some(state) = states.next().await {
///     println!("the client is {}", state.as_str());
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct States {
    changes: mpsc::UnboundedReceiver<ClientState>,
}

impl States {
    /// Returns a list of changes that has already ended.
    pub(crate) fn ended() -> Self {
        Self { changes: mpsc::unbounded_channel().1 }
    }

    /// Waits for the next state. After the client is closed, returns [`ClientState::Closed`] and
    /// then `None`.
    ///
    /// Cancel safe: dropping the future loses no change.
    pub async fn next(&mut self) -> Option<ClientState> {
        poll_fn(|context| self.poll_next(context)).await
    }

    /// Polls for the next state, like [`next`](Self::next). Useful in an implementation of
    /// `Stream`.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<ClientState>> {
        self.changes.poll_recv(context)
    }
}

/// State that the driver shares with the handles.
#[derive(Default)]
pub(crate) struct Status {
    state: AtomicU8,
    /// `true` once the client accepts no more operations.
    refuses: AtomicBool,
    session_id: AtomicI64,
    /// The session timeout in milliseconds, or 0 before the first session.
    session_timeout: AtomicU64,
    listeners: Mutex<Vec<mpsc::UnboundedSender<ClientState>>>,
    pub(crate) recorder: Arc<Recorder>,
    /// The driver, once it has started.
    driver: OnceLock<Weak<dyn Inspector>>,
    /// The session's term, while there is one.
    term: Mutex<Option<Arc<Term>>>,
}

impl Status {
    pub(crate) fn set(&self, state: ClientState) {
        // Hold the mutex during both steps, so all listeners receive the changes in the same order.
        let mut listeners = self.listeners();
        if state == ClientState::Closed {
            self.refuse();
        }
        if self.state.swap(state as u8, Ordering::AcqRel) != state as u8 {
            listeners.retain(|listener| listener.send(state).is_ok());
        }
        if state == ClientState::Closed {
            listeners.clear();
        }
    }

    /// Makes the client refuse operations from now on. The state changes later, when the leases of
    /// the client are lost. Until then, an owner that learns of its loss must not use this client
    /// again: a lock on a hosts string gets another client.
    pub(crate) fn refuse(&self) {
        self.refuses.store(true, Ordering::Release);
    }

    /// Returns `false` if the client is closed, or will be closed in a moment.
    pub(crate) fn is_open(&self) -> bool {
        !self.refuses.load(Ordering::Acquire)
    }

    pub(crate) fn get(&self) -> ClientState {
        ClientState::ALL[usize::from(self.state.load(Ordering::Acquire))]
    }

    pub(crate) fn listen(&self) -> States {
        let (listener, changes) = mpsc::unbounded_channel();
        let mut listeners = self.listeners();
        if self.get() != ClientState::Closed {
            listeners.push(listener);
        }
        States { changes }
    }

    pub(crate) fn set_session(&self, session_id: i64, timeout: Duration) {
        let millis = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
        self.session_timeout.store(millis, Ordering::Release);
        self.session_id.store(session_id, Ordering::Release);
    }

    pub(crate) fn session(&self) -> i64 {
        self.session_id.load(Ordering::Acquire)
    }

    /// Returns the timeout that the server granted to the last session, or `None` before the first
    /// session.
    pub(crate) fn session_timeout(&self) -> Option<Duration> {
        let millis = self.session_timeout.load(Ordering::Acquire);
        (millis > 0).then(|| Duration::from_millis(millis))
    }

    pub(crate) fn set_driver(&self, driver: Weak<dyn Inspector>) {
        // A client has at most one driver.
        self.driver.set(driver).ok();
    }

    /// Returns a snapshot of the driver's state. It is empty if there is no driver.
    pub(crate) fn inspect(&self) -> DriverSnapshot {
        match self.driver.get().and_then(Weak::upgrade) {
            Some(driver) => driver.inspect(),
            None => DriverSnapshot { server: None, queues: Some((Vec::new(), Vec::new())) },
        }
    }

    pub(crate) fn servers(&self, hosts: &str) -> Servers {
        let driver = self.driver.get().and_then(Weak::upgrade);
        driver.map_or_else(|| Vec::new().into(), |driver| driver.servers(hosts))
    }

    /// Returns `true` if any server has sent a reply since `since`. An unpatched client crate does
    /// not record replies. With such a crate, returns `true` if the client has a session.
    pub(crate) fn heard_since(&self, since: Instant) -> bool {
        let last = self.driver.get().and_then(Weak::upgrade).and_then(|driver| driver.last_answer());
        match last {
            Some(last) => last >= BootInstant::now().before(since.elapsed()),
            None => matches!(self.get(), ClientState::Connected | ClientState::Suspended),
        }
    }

    pub(crate) fn set_term(&self, term: Option<Arc<Term>>) {
        *self.term.lock().unwrap_or_else(PoisonError::into_inner) = term;
    }

    pub(crate) fn term(&self) -> Option<Arc<Term>> {
        self.term.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn listeners(&self) -> MutexGuard<'_, Vec<mpsc::UnboundedSender<ClientState>>> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn every_change_is_told_once_and_in_order() {
        let status = Status::default();
        let mut changes = status.listen();
        for state in
            [ClientState::Connecting, ClientState::Connected, ClientState::Connected, ClientState::Closed]
        {
            status.set(state);
        }
        let mut told = Vec::new();
        while let Some(state) = changes.next().await {
            told.push(state);
        }
        assert_eq!(told, [ClientState::Connecting, ClientState::Connected, ClientState::Closed]);
    }

    #[tokio::test]
    async fn a_closed_client_has_nothing_more_to_tell() {
        let status = Status::default();
        status.set(ClientState::Closed);
        assert_eq!(status.listen().next().await, None);
    }

    #[test]
    fn who_does_not_listen_any_more_is_forgotten() {
        let status = Status::default();
        drop(status.listen());
        status.set(ClientState::Connected);
        assert_eq!(status.listeners().len(), 0);
    }
}
