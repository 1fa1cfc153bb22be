//! The time limits for servers that do not reply, if there are other servers to try.

use std::collections::BTreeMap;
use std::time::Duration;

use super::urgency::Urgency;

/// Time within which a server must reply to the first attempt, if there are other servers to try.
const LIMIT: Duration = Duration::from_secs(1);

/// Maximum number of times that the time limit doubles. The resulting limit is longer than the
/// client crate's own time limit for an attempt.
const DOUBLINGS: u32 = 6;

/// A server, as the client names it.
pub(crate) type Server = (String, u16);

/// The end of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AttemptEnd {
    /// The server refused the connection, closed it or sent data.
    Replied,
    /// The attempt was abandoned before there was a connection.
    NotConnected,
    /// The attempt was abandoned after the connection was made, before the server replied.
    NotAnswered,
    /// The server had replied, and then sent nothing for too long.
    FellSilent,
}

/// The servers that do not reply.
#[derive(Debug, Default)]
pub(super) struct SilentServers {
    /// Number of servers.
    pub(super) servers: usize,
    /// Number of times that the time limit was doubled since the server last replied. Without this
    /// doubling, a client whose servers are all slow would abandon every attempt too early.
    doublings: BTreeMap<Server, u32>,
    /// The server whose connection was abandoned because it stopped sending data. The other servers
    /// are tried before it.
    last_resort: Option<Server>,
}

impl SilentServers {
    pub(super) fn limit(&self, server: &Server) -> Option<Duration> {
        let doublings = self.doublings.get(server).copied().unwrap_or(0);
        (self.servers > 1).then(|| LIMIT * 2_u32.pow(doublings))
    }

    pub(super) fn passes_over(&mut self, server: &Server) -> bool {
        self.servers > 1 && self.last_resort.take_if(|silent| silent == server).is_some()
    }

    pub(super) fn ended(&mut self, server: &Server, end: AttemptEnd, urgency: Urgency) {
        match end {
            AttemptEnd::Replied => drop(self.doublings.remove(server)),
            AttemptEnd::FellSilent => self.last_resort = Some(server.clone()),
            // Do not double the limit, because packets are probably dropped. A new attempt sends a
            // new packet, which helps more than a longer wait.
            AttemptEnd::NotConnected if matches!(urgency, Urgency::Session(_)) => {}
            AttemptEnd::NotConnected | AttemptEnd::NotAnswered => {
                let doublings = self.doublings.entry(server.clone()).or_default();
                *doublings = DOUBLINGS.min(*doublings + 1);
            }
        }
    }
}
