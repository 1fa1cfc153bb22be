//! [`Urgency`]: how urgently a connection is needed, and the longest pauses for each case.

use std::time::Duration;

/// Longest pause for one server while no caller waits for a connection.
const IDLE: Duration = Duration::from_secs(5);
/// Longest pause for one server while a caller waits for a connection.
const WANTED: Duration = Duration::from_secs(1);
/// Longest pause for one server while the session is needed. If an eighth of the session timeout is
/// shorter, that time applies instead.
const URGENT: Duration = Duration::from_millis(1500);
/// Minimum time between two attempts to connect to servers that have rejected the client, even if
/// the second attempt is to another server. While the session is needed, `URGENT_GAP` applies.
const GAP: Duration = Duration::from_millis(250);
const URGENT_GAP: Duration = Duration::from_millis(50);

/// Maximum time to wait for a server's reply to the status request, which shows why the server
/// closes connections.
const QUESTION: Duration = Duration::from_millis(500);

/// How urgently a connection is needed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Urgency {
    /// No caller waits for a connection.
    Idle,
    /// A caller waits for a connection.
    #[default]
    Wanted,
    /// A lease, or a position near the head of a queue, is lost unless a server serves the session
    /// again in time. The value is the session timeout.
    Session(Duration),
}

impl Urgency {
    /// Returns the longest pause for one server, measured from the start of one attempt to the
    /// start of the next.
    ///
    /// `docs/safety.md` promises an upper bound for reconnection. If a session is needed, the pause
    /// is seven eighths of this bound. The last eighth is for two round trips: a status request and
    /// the first heartbeat.
    pub(super) fn longest(self) -> Duration {
        match self {
            Self::Idle => IDLE,
            Self::Wanted => WANTED,
            Self::Session(timeout) => URGENT.min(timeout / 8) * 7 / 8,
        }
    }

    /// Returns the minimum time between two attempts, even to different servers, when all `servers`
    /// servers have rejected the client. If a session is needed, the client can still try all
    /// servers within the longest pause.
    pub(super) fn gap(self, servers: u32) -> Duration {
        match self {
            Self::Idle | Self::Wanted => GAP,
            Self::Session(_) => (self.longest() * 3 / 4 / servers.max(1)).clamp(URGENT_GAP, GAP),
        }
    }

    /// Returns the maximum time to wait for the reply to a status request. The time is short
    /// because a status request delays the next attempt.
    pub(crate) fn question(self) -> Duration {
        match self {
            Self::Idle | Self::Wanted => QUESTION,
            Self::Session(_) => self.longest() / 8,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_for_a_session_are_below_the_promised_bound_and_all_servers_have_their_turn() {
        for (seconds, bound) in [(4, 500), (10, 1_250), (12, 1_500), (40, 1_500)] {
            let urgency = Urgency::Session(Duration::from_secs(seconds));
            assert_eq!(urgency.longest(), Duration::from_millis(bound) * 7 / 8);
            assert!(urgency.longest() + urgency.question() <= Duration::from_millis(bound));
            for servers in 1..=8 {
                assert!(urgency.gap(servers) * servers <= urgency.longest());
            }
        }
    }
}
