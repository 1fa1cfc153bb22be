//! [`Settings`]: the settings and records that the connections of one client share.

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
    /// The settings of the client that the current task works for.
    static CURRENT: Settings;
}

/// The settings and records that the connections of one client share. Clones share the same data.
#[derive(Clone, Debug)]
pub struct Settings(Arc<Inner>, LastContact);

#[derive(Debug)]
struct Inner {
    limits: Limits,
    /// Encryption of the next connection, if any.
    encryption: Mutex<Option<Encryption>>,
    throttle: ConnectThrottle,
    connect_log: ConnectLog,
    /// Reads the clock for the times in `LastContact`.
    clock: fn() -> u64,
    /// Time of the last reply from any server, on any connection; 0 if there was none.
    last_answer: AtomicU64,
    /// `true` if this is only a probe, which makes no connection.
    is_probe: bool,
    /// `true` if a connection has used these settings.
    followed: AtomicBool,
    /// `true` if a server has granted a session without a password.
    without_password: AtomicBool,
    /// Number of the client crate's pauses that were skipped.
    skipped: AtomicU64,
}

impl Settings {
    /// Creates settings with these limits. `random` returns a number between 0 and 1. `clock`
    /// returns a time in nanoseconds. The clock must be monotonic and continue while the machine is
    /// suspended.
    #[must_use]
    pub fn new(limits: Limits, random: fn() -> f64, clock: fn() -> u64) -> Self {
        Self::make(limits, random, clock, false)
    }

    /// Creates a probe, which checks whether settings reach the connection code. If they do, a
    /// connection attempt inside the probe's [`scope`](Self::scope) fails immediately, and
    /// [`followed`](Self::followed) then returns `true`.
    #[must_use]
    pub fn probe() -> Self {
        Self::make(Limits::default(), || 0.0, || 0, true)
    }

    fn make(limits: Limits, random: fn() -> f64, clock: fn() -> u64, is_probe: bool) -> Self {
        let inner = Arc::new(Inner {
            limits,
            encryption: Mutex::default(),
            throttle: ConnectThrottle::new(random),
            connect_log: ConnectLog::default(),
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

    /// Returns `true` if a connection attempt has used these settings.
    #[must_use]
    pub fn followed(&self) -> bool {
        self.0.followed.load(Ordering::Relaxed)
    }

    /// Ends all pauses between connection attempts. A closing client calls this, because it might
    /// wait for a connection.
    pub fn hurry(&self) {
        self.0.throttle.hurry();
    }

    /// Sets the number of servers. If there are several, a server that does not reply is abandoned
    /// sooner.
    pub fn set_servers(&self, count: usize) {
        self.0.throttle.servers(count);
    }

    /// Sets how urgently a connection is needed.
    pub fn set_urgency(&self, urgency: Urgency) {
        self.0.throttle.set_urgency(urgency);
    }

    /// Returns how many pauses of the client crate were skipped because this crate has its own
    /// pauses between attempts.
    #[must_use]
    pub fn skipped_pauses(&self) -> u64 {
        self.0.skipped.load(Ordering::Relaxed)
    }

    pub(crate) fn skip_pause(&self) {
        self.0.skipped.fetch_add(1, Ordering::Relaxed);
    }

    /// Waits until a connection attempt fails.
    pub async fn attempt_failed(&self) {
        self.0.connect_log.failed().await;
    }

    /// For each server, returns the last connection attempt that has failed since `since`.
    #[must_use]
    pub fn failures_since(&self, since: Instant) -> Vec<ServerAttempt> {
        self.0.connect_log.failures_since(since)
    }

    /// Returns the outcome of the last attempt to connect to each server.
    #[must_use]
    pub fn entries(&self) -> Vec<ServerAttempt> {
        self.0.connect_log.entries()
    }

    /// Returns the host and port of the currently connected server, as the client names it.
    #[must_use]
    pub fn connected(&self) -> Option<(String, u16)> {
        self.0.connect_log.connected()
    }

    /// Returns the evidence of contact with the server of the current connection.
    #[must_use]
    pub fn heard(&self) -> LastContact {
        self.1.clone()
    }

    /// Returns the time of the last reply to a handshake or a request, including pings, on any
    /// connection of the client. `None` if there was no reply.
    #[must_use]
    pub fn last_answer(&self) -> Option<u64> {
        Some(self.0.last_answer.load(Ordering::Relaxed)).filter(|moment| *moment > 0)
    }

    /// Records that a server replies now.
    pub(crate) fn note_answer(&self) {
        self.0.last_answer.fetch_max(self.now(), Ordering::Relaxed);
    }

    /// Returns the same settings for connections of another session, with a separate
    /// [`LastContact`]. The old session can still get a connection after the new session has one,
    /// and must not change the new session's record.
    #[must_use]
    pub fn for_another_session(&self) -> Self {
        Self(Arc::clone(&self.0), LastContact::default())
    }

    /// Runs `future` so that its connections use these settings.
    pub fn scope<F: Future>(&self, future: F) -> impl Future<Output = F::Output> + use<F> {
        CURRENT.scope(self.clone(), future)
    }

    /// Returns the settings of the current task, if any.
    pub(crate) fn current() -> Option<Self> {
        CURRENT.try_with(Self::clone).ok()
    }

    /// Records that a connection uses these settings. Returns `false` if this is a probe, which
    /// makes no connection.
    pub(crate) fn follow(&self) -> bool {
        self.0.followed.store(true, Ordering::Relaxed);
        !self.0.is_probe
    }

    /// Records that a server granted a session without a password. Returns `true` the first time.
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

    pub(crate) fn throttle(&self) -> &ConnectThrottle {
        &self.0.throttle
    }

    pub(crate) fn connect_log(&self) -> &ConnectLog {
        &self.0.connect_log
    }
}

/// Wraps `future`, so that it uses the settings of the current task even if it is spawned as
/// another task.
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
