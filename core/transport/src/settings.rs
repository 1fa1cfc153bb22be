//! What the connections of one client have in common.

use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::time::Instant;

use crate::connect_log::{ConnectLog, ServerAttempt};
use crate::connect_throttle::{ConnectThrottle, Urgency};
use crate::frame_validator::Limits;
use crate::server_contact::LastContact;
use crate::tls::Encryption;

tokio::task_local! {
    /// The settings of the client for which the current task works.
    static CURRENT: Settings;
}

/// What the connections of one client have in common. Clones share everything.
#[derive(Clone, Debug)]
pub struct Settings(Arc<Inner>, LastContact);

#[derive(Debug)]
struct Inner {
    limits: Limits,
    /// What the next connection is encrypted with, if it is.
    encryption: Mutex<Option<Encryption>>,
    pace: ConnectThrottle,
    diary: ConnectLog,
    /// Reads the clock of the moments in `heard`.
    clock: fn() -> u64,
    /// When a server last answered anything, on any connection; 0 if none has.
    last_answer: AtomicU64,
    /// Whether they are a question, not settings: no connection is made.
    is_probe: bool,
    /// Whether a connection has followed them.
    followed: AtomicBool,
    /// Whether a server has given a session without a password.
    without_password: AtomicBool,
    /// How many pauses of the client crate were over at once.
    skipped: AtomicU64,
}

impl Settings {
    /// Settings with these limits. `random` draws a number between 0 and 1; `clock` reads, in nanoseconds, a clock that
    /// no one sets and that goes on while the machine is suspended.
    #[must_use]
    pub fn new(limits: Limits, random: fn() -> f64, clock: fn() -> u64) -> Self {
        Self::make(limits, random, clock, false)
    }

    /// No settings, but a question: who tries to connect in their [`scope`](Self::scope) fails at once if there is a
    /// way from these settings to the connection, and they are [`followed`](Self::followed) then.
    #[must_use]
    pub fn probe() -> Self {
        Self::make(Limits::default(), || 0.0, || 0, true)
    }

    fn make(limits: Limits, random: fn() -> f64, clock: fn() -> u64, is_probe: bool) -> Self {
        let inner = Arc::new(Inner {
            limits,
            encryption: Mutex::default(),
            pace: ConnectThrottle::new(random),
            diary: ConnectLog::default(),
            clock,
            last_answer: AtomicU64::new(0),
            is_probe,
            followed: AtomicBool::new(false),
            without_password: AtomicBool::new(false),
            skipped: AtomicU64::new(0),
        });
        Self(inner, LastContact::default())
    }

    /// Encrypts all further connections.
    pub fn encrypt(&self, encryption: Encryption) {
        *self.0.encryption.lock().unwrap_or_else(PoisonError::into_inner) = Some(encryption);
    }

    /// Whether anything has followed them.
    #[must_use]
    pub fn followed(&self) -> bool {
        self.0.followed.load(Ordering::Relaxed)
    }

    /// Ends the pauses before further connections, once: the client is about to close, and waits for it.
    pub fn hurry(&self) {
        self.0.pace.hurry();
    }

    /// Sets how many servers there are: one that does not answer is given up sooner if there are others.
    pub fn set_servers(&self, count: usize) {
        self.0.pace.servers(count);
    }

    /// Sets how urgent a connection is.
    pub fn set_urgency(&self, urgency: Urgency) {
        self.0.pace.set_urgency(urgency);
    }

    /// How many pauses of the client crate between its attempts at servers were over at once, in favour of ours.
    #[must_use]
    pub fn skipped_pauses(&self) -> u64 {
        self.0.skipped.load(Ordering::Relaxed)
    }

    pub(crate) fn skip_pause(&self) {
        self.0.skipped.fetch_add(1, Ordering::Relaxed);
    }

    /// Waits until an attempt to connect fails.
    pub async fn attempt_failed(&self) {
        self.0.diary.failed().await;
    }

    /// The outcome of the last attempt that has failed since then, for each server.
    #[must_use]
    pub fn failures_since(&self, since: Instant) -> Vec<ServerAttempt> {
        self.0.diary.failures_since(since)
    }

    /// What became of the last attempt to connect to each server.
    #[must_use]
    pub fn entries(&self) -> Vec<ServerAttempt> {
        self.0.diary.entries()
    }

    /// Host and port of the server with which there is a connection now, as the client names it.
    #[must_use]
    pub fn connected(&self) -> Option<(String, u16)> {
        self.0.diary.connected()
    }

    /// When the server of the current connection heard of the client.
    #[must_use]
    pub fn heard(&self) -> LastContact {
        self.1.clone()
    }

    /// When a server last answered a handshake or a request, pings included, on any connection of the client. `None` if
    /// none has.
    #[must_use]
    pub fn last_answer(&self) -> Option<u64> {
        Some(self.0.last_answer.load(Ordering::Relaxed)).filter(|moment| *moment > 0)
    }

    /// Notes that a server answers now.
    pub(crate) fn note_answer(&self) {
        self.0.last_answer.fetch_max(self.now(), Ordering::Relaxed);
    }

    /// The same, for connections of another session: what their server hears is noted apart. The connection of a session
    /// that is given up may come to stand after that of the next one.
    #[must_use]
    pub fn for_another_session(&self) -> Self {
        Self(Arc::clone(&self.0), LastContact::default())
    }

    /// Runs `future` so that the connections which it makes follow these settings.
    pub fn scope<F: Future>(&self, future: F) -> impl Future<Output = F::Output> + use<F> {
        CURRENT.scope(self.clone(), future)
    }

    /// Those of the current task, if it has any.
    pub(crate) fn current() -> Option<Self> {
        CURRENT.try_with(Self::clone).ok()
    }

    /// Notes that a connection follows them. Returns whether it is to be made.
    pub(crate) fn follow(&self) -> bool {
        self.0.followed.store(true, Ordering::Relaxed);
        !self.0.is_probe
    }

    /// Notes that a server gave a session without a password. Returns whether it is the first.
    pub(crate) fn is_first_without_password(&self) -> bool {
        !self.0.without_password.swap(true, Ordering::Relaxed)
    }

    pub(crate) fn limits(&self) -> Limits {
        self.0.limits
    }

    pub(crate) fn encryption(&self) -> Option<Encryption> {
        self.0.encryption.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn now(&self) -> u64 {
        (self.0.clock)()
    }

    pub(crate) fn pace(&self) -> &ConnectThrottle {
        &self.0.pace
    }

    pub(crate) fn diary(&self) -> &ConnectLog {
        &self.0.diary
    }
}

/// Lets `future`, which is about to become a task of its own, follow the settings of the task that spawns it.
pub fn inherit<F: Future>(future: F) -> impl Future<Output = F::Output> + use<F> {
    let settings = Settings::current();
    async move {
        match settings {
            Some(settings) => settings.scope(future).await,
            None => future.await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_task_inherits_the_settings_of_its_spawner_and_no_one_else_has_them() {
        let settings = Settings::new(Limits { max_frame: 7 }, || 0.0, || 0);
        let inherited = settings.scope(async {
            tokio::spawn(inherit(async { Settings::current().map(|settings| settings.limits()) })).await
        });
        assert_eq!(inherited.await.unwrap(), Some(Limits { max_frame: 7 }));
        assert!(Settings::current().is_none());
    }

    #[test]
    fn what_the_server_of_one_session_hears_is_not_told_of_another() {
        let settings = Settings::new(Limits::default(), || 0.0, || 0);
        let other = settings.for_another_session();
        drop(settings.heard().greeted(7, std::time::Duration::from_secs(1)));
        assert_eq!((settings.clone().heard().by(9), other.heard().by(9)), (Some(7), None));
        other.follow();
        assert!(settings.followed());
    }
}
