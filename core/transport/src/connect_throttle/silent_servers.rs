//! Servers that say nothing: how long they are waited for while there are others.

use std::collections::BTreeMap;
use std::time::Duration;

use super::urgency::Urgency;

/// For how long the first attempt at a server may go without an answer, if there are others to try.
const LIMIT: Duration = Duration::from_secs(1);

/// It doubles so often at most. The client crate gives up before.
const DOUBLINGS: u32 = 6;

/// A server, as the client names it.
pub(crate) type Server = (String, u16);

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AttemptEnd {
    /// The server did something: it refused, hung up, or spoke.
    Told,
    /// There was no connection when the attempt was given up.
    NotConnected,
    /// There was a connection, but no answer when the attempt was given up.
    NotAnswered,
    /// The server had answered, and then nothing was heard of it for too long.
    FellSilent,
}

/// The servers that do not answer.
#[derive(Debug, Default)]
pub(super) struct SilentServers {
    /// How many servers there are.
    pub(super) servers: usize,
    /// How often the limit was doubled for a server since it last did anything. Without that, servers that are all slow
    /// would be given up for ever.
    doublings: BTreeMap<Server, u32>,
    /// The server whose connection was given up because nothing came any more: the others come first.
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
            AttemptEnd::Told => drop(self.doublings.remove(server)),
            AttemptEnd::FellSilent => self.last_resort = Some(server.clone()),
            // More time is of no use to a host that drops packets: the next attempt sends one too.
            AttemptEnd::NotConnected if matches!(urgency, Urgency::Session(_)) => {}
            AttemptEnd::NotConnected | AttemptEnd::NotAnswered => {
                let doublings = self.doublings.entry(server.clone()).or_default();
                *doublings = DOUBLINGS.min(*doublings + 1);
            }
        }
    }
}
