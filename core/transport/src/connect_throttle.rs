//! How soon a server is connected to again.
//!
//! A server may turn a client away in many ways: refuse the connection, close it after the handshake or after each
//! request, send what is no reply, or say what makes the client give its session up. All of them show in one thing: the
//! attempt did not last. Whatever ended it, the server is left in peace for a while, and for longer each time.
//!
//! The client crate has pauses of its own between rounds, which double without a limit. `timer.rs` ends them at once, so
//! these are the only ones within a session. Between rounds in search of a new session core's run at the same time.

mod silent_servers;
mod urgency;

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use silent_servers::SilentServers;
pub(crate) use silent_servers::{AttemptEnd, Server};
pub use urgency::Urgency;

/// The first pause; they double up to the longest. Short, for one lost connection is no storm.
const FIRST: Duration = Duration::from_millis(10);
/// An attempt that lasted for as long as this was a success, however it ended.
const LASTING: Duration = Duration::from_secs(2);
/// After so much peace a pause is the first again.
const FORGOTTEN: Duration = Duration::from_secs(10);

/// The pauses of one client, server by server.
#[derive(Debug)]
pub(crate) struct ConnectThrottle {
    /// A random number between 0 and 1.
    random: fn() -> f64,
    past: Mutex<Past>,
    /// Wakes those who wait for their turn.
    hurry: Notify,
}

#[derive(Debug, Default)]
struct Past {
    urgency: Urgency,
    /// When the last attempt began, at any server.
    last: Option<Instant>,
    /// The servers that have turned us away since an attempt at them lasted.
    rests: BTreeMap<Server, Rest>,
    silent_servers: SilentServers,
}

#[derive(Clone, Copy, Debug)]
struct Rest {
    /// Its length before jitter.
    pause: Duration,
    until: Instant,
}

impl Past {
    /// When this server may be connected to, if not at once.
    fn turn(&self, server: &Server) -> Option<Instant> {
        let Rest { pause, until } = *self.rests.get(server)?;
        let servers = u32::try_from(self.rests.len()).unwrap_or(u32::MAX);
        let gap = self.urgency.gap(servers).min(2 * pause.saturating_mul(servers));
        Some(self.last.map_or(until, |last| until.max(last + gap)))
    }
}

impl ConnectThrottle {
    pub(crate) fn new(random: fn() -> f64) -> Self {
        Self { random, past: Mutex::default(), hurry: Notify::new() }
    }

    /// Notes how many servers there are.
    pub(crate) fn servers(&self, count: usize) {
        self.past().silent_servers.servers = count;
    }

    /// Sets how urgent a connection is. Pauses that are too long for that end sooner.
    pub(crate) fn set_urgency(&self, urgency: Urgency) {
        let mut past = self.past();
        let shortens = urgency.longest() < past.urgency.longest();
        past.urgency = urgency;
        if shortens {
            let (now, longest) = (Instant::now(), urgency.longest());
            for rest in past.rests.values_mut() {
                rest.pause = rest.pause.min(longest);
                rest.until = rest.until.min(now + self.jittered(longest));
            }
            drop(past);
            self.hurry.notify_waiters();
        }
    }

    /// How urgent a connection is.
    pub(crate) fn urgency(&self) -> Urgency {
        self.past().urgency
    }

    /// For how long an attempt at a server may go without an answer, if there are others to try.
    pub(crate) fn limit(&self, server: &Server) -> Option<Duration> {
        self.past().silent_servers.limit(server)
    }

    /// Whether the others are to be tried before this server. At most once, so that nothing depends on it.
    pub(crate) fn passes_over(&self, server: &Server) -> bool {
        self.past().silent_servers.passes_over(server)
    }

    /// Waits until the server may be connected to, and returns when that is. Whoever gives up waiting has not
    /// shortened the pause.
    pub(crate) async fn turn(&self, server: &Server) -> Instant {
        loop {
            let hurry = self.hurry.notified();
            let now = Instant::now();
            let turn = {
                let mut past = self.past();
                let turn = past.turn(server).filter(|turn| *turn > now);
                if turn.is_none() {
                    past.last = Some(now);
                }
                turn
            };
            match turn {
                None => return now,
                // Whatever ends the wait, how long it has to be is looked at again.
                Some(turn) => drop(timeout_at(turn, hurry).await),
            }
        }
    }

    /// Ends all pauses, and starts with the first again.
    pub(crate) fn hurry(&self) {
        self.past().rests.clear();
        self.hurry.notify_waiters();
    }

    /// Notes that an attempt has ended which began then.
    pub(crate) fn ended(&self, server: &Server, began: Instant, end: AttemptEnd) {
        let now = Instant::now();
        let mut past = self.past();
        let urgency = past.urgency;
        past.silent_servers.ended(server, end, urgency);
        // One that nobody answered was no success, however long it took.
        let lasted = matches!(end, AttemptEnd::Told | AttemptEnd::FellSilent);
        if lasted && now.duration_since(began) >= LASTING {
            past.rests.remove(server);
            return;
        }
        let pause = match past.rests.get(server) {
            Some(rest) if now.saturating_duration_since(rest.until) < FORGOTTEN => {
                urgency.longest().min(rest.pause * 2)
            }
            _ => FIRST,
        };
        // From beginning to beginning, so that the time that attempts take does not add up.
        let until = began + self.jittered(pause);
        past.rests.insert(server.clone(), Rest { pause, until });
    }

    /// In proportion to the pause, so that clients that were turned away together do not return together.
    fn jittered(&self, pause: Duration) -> Duration {
        pause.mul_f64(0.5 + (self.random)() / 2.0)
    }

    fn past(&self) -> MutexGuard<'_, Past> {
        // A panic while it was locked leaves it usable: every change is a single assignment, insertion or removal.
        self.past.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
