//! [`Health`]: a report on a client's connection, its waiting acquires and the locks that it holds.
//! Health checks use it, and it helps to debug programs that hang.

use std::time::Duration;

use crate::config::ClientOptions;
use crate::driver::status::{ClientState, Status};
use crate::lease::report::{DriverSnapshot, HoldReport, WaitReport};

/// A snapshot of a client's connection, waits and holds. See
/// [`Client::health`](crate::Client::health).
///
/// ```
/// use zklock::{Client, ClientOptions, ClientState};
///
/// # fn main() -> zklock::Result<()> {
/// let health = Client::new(ClientOptions::new(None)?).health();
/// assert_eq!(health.state, ClientState::Idle);
/// assert!(health.responsive && health.waits.is_empty() && health.holds.is_empty());
/// # Ok(())
/// # }
/// ```
///
/// ```
/// use zklock::{Client, ClientOptions, ClientState};
///
/// # fn main() -> zklock::Result<()> {
/// let health = Client::new(ClientOptions::new(None)?).health();
/// assert_eq!(health.state, ClientState::Idle);
/// assert!(health.responsive && health.waits.is_empty() && health.holds.is_empty());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Health {
    /// State of the client's connection to the ensemble.
    pub state: ClientState,
    /// Id of the last ZooKeeper session, or 0 before the first session.
    pub session_id: i64,
    /// Server of the current connection, with its port, as the connect string names it. `None`
    /// without a connection.
    pub server: Option<String>,
    /// Session timeout that the server granted. Before the first session, the requested timeout.
    pub session_timeout: Duration,
    /// Time since the client sent the last write that the server has acknowledged. The
    /// acknowledgement proves that the session existed at that time. While the client holds a lock
    /// and the server replies in time, this value is at most a sixth of the session timeout. A
    /// client that holds no lock and waits for none sends no such writes, so the value grows.
    /// `None` if the server has not acknowledged a write in the current session.
    pub last_proof: Option<Duration>,
    /// Time for which the session is still certain to exist (the rest of its *term*). The server's
    /// replies extend it. All leases are lost when the term ends. Zero if no term is running.
    pub remaining: Duration,
    /// `false` if this report could not read the client's queues within 0.1 s, because the machine
    /// is badly overloaded or the library has a bug. In this case, `waits` and `holds` are empty
    /// even if the client waits for locks or holds them.
    pub responsive: bool,
    /// Attempts that wait for a lock, ordered by path.
    pub waits: Vec<WaitReport>,
    /// Holds, ordered by path.
    pub holds: Vec<HoldReport>,
}

impl Health {
    pub(crate) fn of(options: &ClientOptions, status: &Status) -> Self {
        let DriverSnapshot { server, queues } = status.inspect();
        let (state, term) = (status.get(), status.term());
        let responsive = queues.is_some();
        let (waits, holds) = queues.unwrap_or_default();
        Self {
            server: server.filter(|_| state == ClientState::Connected),
            last_proof: term.as_ref().and_then(|term| term.proof_age()),
            remaining: term.map(|term| term.remaining()).unwrap_or_default(),
            responsive,
            waits,
            holds,
            ..Self::forked(options, status).with(state)
        }
    }

    /// Returns the health of a client that this process inherited through fork. Needs none of the
    /// client's threads, because they exist only in the parent process.
    pub(crate) fn forked(options: &ClientOptions, status: &Status) -> Self {
        Self {
            state: ClientState::Forked,
            session_id: status.session(),
            server: None,
            session_timeout: status.session_timeout().unwrap_or(options.session_timeout),
            last_proof: None,
            remaining: Duration::ZERO,
            responsive: true,
            waits: Vec::new(),
            holds: Vec::new(),
        }
    }

    fn with(self, state: ClientState) -> Self {
        Self { state, ..self }
    }
}
