//! How a client is, and what in it waits and holds: for health checks, and for people who look at a program that hangs.

use std::time::Duration;

use crate::config::ClientOptions;
use crate::driver::status::{ClientState, Status};
use crate::lease::report::{DriverSnapshot, HoldReport, WaitReport};

/// How a client is at this moment: see [`Client::health`](crate::Client::health).
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
    /// Whether the client is connected to the ensemble.
    pub state: ClientState,
    /// The last ZooKeeper session, 0 if there has been none.
    pub session_id: i64,
    /// The server of the current connection, with its port, as the connect string names it. `None` without a connection.
    pub server: Option<String>,
    /// The session time-out that the server granted; before there is a session, the one that the client asks for.
    pub session_timeout: Duration,
    /// How long ago the last proof of the session was sent, a write that the server acknowledged: while the client holds
    /// a lock, a third of half the session time-out at most as long as all is well. `None` without a session, and before
    /// its first proof. A client that holds nothing and waits for nothing proves nothing, and this grows.
    pub last_proof: Option<Duration>,
    /// What is left of the session's term, after which its leases are lost. Zero if it does not run.
    pub remaining: Duration,
    /// Whether the library's thread let go of its queues within a tenth of a second. If it is false the machine is badly
    /// overloaded, or there is a bug; `waits` and `holds` are empty then, whatever there is.
    pub responsive: bool,
    /// The attempts that wait for a lock, by path.
    pub waits: Vec<WaitReport>,
    /// The holds, by path.
    pub holds: Vec<HoldReport>,
}

impl Health {
    /// Of a client with these options that belongs to this process.
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

    /// Of a client that belongs to another process: what can be read without waiting for one of that process's threads.
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
