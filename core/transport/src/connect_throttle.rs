//! The pauses before the client connects to the same server again.
//!
//! A server can reject a client in many ways. It can refuse the connection, close it after the
//! handshake or after each request, send an invalid reply, or send a reply that makes the client
//! give up its session. In all these cases, the attempt lasts only a short time. So after a short
//! attempt, for any reason, the client pauses before it connects to this server again. Each pause
//! is longer than the one before.
//!
//! The client crate tries all servers in a round, and then pauses. Its pauses double without a
//! limit, so `timer.rs` shortens them: within a session, only the pauses of this module apply.
//! Without a session, `core` also pauses between rounds, in parallel with this module.

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

/// Length of the first pause. Each further pause is twice as long, up to the limit in [`Urgency`].
/// The first pause is short, because one lost connection is harmless.
const FIRST: Duration = Duration::from_millis(10);
/// An attempt that lasts this long counts as a success if the server has replied at least once.
const LASTING: Duration = Duration::from_secs(2);
/// If no attempt fails within this time after a pause, the next pause is [`FIRST`] again.
const FORGOTTEN: Duration = Duration::from_secs(10);

/// The pauses of one client, server by server.
#[derive(Debug)]
pub(crate) struct ConnectThrottle {
    /// Returns a random number between 0 and 1.
    random: fn() -> f64,
    history: Mutex<AttemptHistory>,
    /// Wakes the attempts that wait for a pause to end.
    hurry: Notify,
}

#[derive(Debug, Default)]
struct AttemptHistory {
    urgency: Urgency,
    /// Start of the last attempt, at any server.
    last: Option<Instant>,
    /// The servers that have rejected the client since the last successful attempt to connect to
    /// them.
    pauses: BTreeMap<Server, PauseState>,
    silent_servers: SilentServers,
}

#[derive(Clone, Copy, Debug)]
struct PauseState {
    /// Length of the pause before jitter.
    pause: Duration,
    until: Instant,
}

impl AttemptHistory {
    /// Returns the time from which the client may connect to this server. `None` means immediately.
    fn allowed_at(&self, server: &Server) -> Option<Instant> {
        let PauseState { pause, until } = *self.pauses.get(server)?;
        let servers = u32::try_from(self.pauses.len()).unwrap_or(u32::MAX);
        let gap = self.urgency.gap(servers).min(2 * pause.saturating_mul(servers));
        Some(self.last.map_or(until, |last| until.max(last + gap)))
    }
}

impl ConnectThrottle {
    pub(crate) fn new(random: fn() -> f64) -> Self {
        Self { random, history: Mutex::default(), hurry: Notify::new() }
    }

    /// Records the number of servers.
    pub(crate) fn servers(&self, count: usize) {
        self.history().silent_servers.servers = count;
    }

    /// Sets how urgently a connection is needed. Pauses that are now too long are shortened.
    pub(crate) fn set_urgency(&self, urgency: Urgency) {
        let mut history = self.history();
        let shortens = urgency.longest() < history.urgency.longest();
        history.urgency = urgency;
        if shortens {
            let (now, longest) = (Instant::now(), urgency.longest());
            for state in history.pauses.values_mut() {
                state.pause = state.pause.min(longest);
                state.until = state.until.min(now + self.jittered(longest));
            }
            drop(history);
            self.hurry.notify_waiters();
        }
    }

    /// Returns how urgently a connection is needed.
    pub(crate) fn urgency(&self) -> Urgency {
        self.history().urgency
    }

    /// Returns the time within which this server must reply to a connection attempt. `None` if
    /// there are no other servers to try.
    pub(crate) fn limit(&self, server: &Server) -> Option<Duration> {
        self.history().silent_servers.limit(server)
    }

    /// Returns `true` if the other servers must be tried before this one, because it stopped
    /// sending data. Returns `true` only once for each such failure, so that the server is not
    /// excluded for long.
    pub(crate) fn passes_over(&self, server: &Server) -> bool {
        self.history().silent_servers.passes_over(server)
    }

    /// Waits until the client may connect to the server, and returns that time. Dropping the future
    /// does not shorten the pause.
    pub(crate) async fn wait_until_allowed(&self, server: &Server) -> Instant {
        loop {
            let hurry = self.hurry.notified();
            let now = Instant::now();
            let allowed_at = {
                let mut history = self.history();
                let allowed_at = history.allowed_at(server).filter(|allowed_at| *allowed_at > now);
                if allowed_at.is_none() {
                    history.last = Some(now);
                }
                allowed_at
            };
            match allowed_at {
                None => return now,
                Some(allowed_at) => drop(timeout_at(allowed_at, hurry).await),
            }
        }
    }

    /// Ends all pauses. The next pause is the first again.
    pub(crate) fn hurry(&self) {
        self.history().pauses.clear();
        self.hurry.notify_waiters();
    }

    /// Records the end of an attempt that began at `began`.
    pub(crate) fn ended(&self, server: &Server, began: Instant, end: AttemptEnd) {
        let now = Instant::now();
        let mut history = self.history();
        let urgency = history.urgency;
        history.silent_servers.ended(server, end, urgency);
        // An attempt without a reply was not a success, no matter how long it took.
        let lasted = matches!(end, AttemptEnd::Replied | AttemptEnd::FellSilent);
        if lasted && now.duration_since(began) >= LASTING {
            history.pauses.remove(server);
            return;
        }
        let pause = match history.pauses.get(server) {
            Some(state) if now.saturating_duration_since(state.until) < FORGOTTEN => {
                urgency.longest().min(state.pause * 2)
            }
            _ => FIRST,
        };
        // Measure the pause from the start of the attempt, so that the duration of the attempt is
        // not added to it.
        let until = began + self.jittered(pause);
        history.pauses.insert(server.clone(), PauseState { pause, until });
    }

    /// Adds jitter in proportion to the pause, so that clients that were rejected together do not
    /// return together.
    fn jittered(&self, pause: Duration) -> Duration {
        pause.mul_f64(0.5 + (self.random)() / 2.0)
    }

    fn history(&self) -> MutexGuard<'_, AttemptHistory> {
        // Every change is a single assignment, insertion or removal, so a panic under the lock
        // leaves the data consistent.
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
