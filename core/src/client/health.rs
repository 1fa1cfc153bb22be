//! [`Health`]: a client's condition, its waits and its holds, for health checks and for people who
//! debug a hang.

use std::time::Duration;

use crate::config::ClientOptions;
use crate::driver::status::{ClientState, Status};
use crate::lease::report::{DriverSnapshot, HoldReport, WaitReport};

/// The condition of a client at one moment: see [`Client::health`](crate::Client::health).
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
    /// Session timeout that the server granted, or the requested one before the first session.
    pub session_timeout: Duration,
    /// Time since the client sent the last write that the server acknowledged, which proves that
    /// the session exists. While the client holds a lock and the server replies in time, this is at
    /// most a sixth of the session timeout. A client that holds no lock and waits for none sends no
    /// such writes, so this value grows. `None` if there is no session, and before the server has
    /// acknowledged a write in it.
    pub last_proof: Option<Duration>,
    /// Remaining time of the session's term. The leases are lost when it ends. Zero if no term is
    /// running.
    pub remaining: Duration,
    /// `true` if the library's thread made its queues available to this report within 0.1 s. If
    /// `false`, the machine is badly overloaded or the library has a bug. `waits` and `holds` are
    /// then empty even if there are waits and holds.
    pub responsive: bool,
    /// Attempts that wait for a lock, ordered by path.
    pub waits: Vec<WaitReport>,
    /// Holds, ordered by path.
    pub holds: Vec<HoldReport>,
}

impl Health {
    /// Returns the health of a client that belongs to this process.
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

    /// Returns the health of a client that this process inherited through fork. Reads only data
    /// that is valid without the parent's threads.
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
