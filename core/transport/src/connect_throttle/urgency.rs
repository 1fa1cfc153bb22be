//! How urgent a connection is, and how long pauses may be then.

use std::time::Duration;

/// The longest pause for one server while nobody waits for a connection.
const IDLE: Duration = Duration::from_secs(5);
/// The same while somebody does.
const WANTED: Duration = Duration::from_secs(1);
/// The same while something ends with the session: this, or an eighth of the session's time-out.
const URGENT: Duration = Duration::from_millis(1500);
/// The least time between two attempts at any servers that turned the client away, and the same if it is urgent.
const GAP: Duration = Duration::from_millis(250);
const URGENT_GAP: Duration = Duration::from_millis(50);

/// For how long a server is asked why it closes connections.
const QUESTION: Duration = Duration::from_millis(500);

/// How urgent a connection is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Urgency {
    /// Nobody waits for it.
    Idle,
    /// Somebody waits for it.
    #[default]
    Wanted,
    /// A lease, or a place near the head of a queue, is lost unless the session is served again in time. The session has
    /// this time-out.
    Session(Duration),
}

impl Urgency {
    /// The longest pause for one server, from the beginning of one attempt to that of the next.
    ///
    /// For a session, an eighth below the bound that is promised (`docs/safety.md`): the answer to the first heartbeat is
    /// one round trip later than the connection, and a server may be asked in between why it hangs up.
    pub(super) fn longest(self) -> Duration {
        match self {
            Self::Idle => IDLE,
            Self::Wanted => WANTED,
            Self::Session(timeout) => URGENT.min(timeout / 8) * 7 / 8,
        }
    }

    /// The least time between attempts at any of so many servers, which all turned the client away: these do not make a
    /// storm in turns. For a session all of them are tried within the longest pause.
    pub(super) fn gap(self, servers: u32) -> Duration {
        match self {
            Self::Idle | Self::Wanted => GAP,
            Self::Session(_) => (self.longest() * 3 / 4 / servers.max(1)).clamp(URGENT_GAP, GAP),
        }
    }

    /// For how long a server may be asked why it closes connections: in between two attempts, which are not to wait.
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
