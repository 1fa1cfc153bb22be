//! How soon a server is connected to again.
//!
//! A server may turn a client away in many ways: refuse the connection, close it after the handshake or after each
//! request, send what is no reply, or say what makes the client give its session up. All of them show in one thing: the
//! attempt did not last. Whatever ended it, the server is left in peace for a while, and for longer each time.
//!
//! The pauses between rounds in search of a session are core's; both run at the same time, and the longer one counts.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

/// The first pause; they double up to the longest. Short, for one lost connection is no storm.
const FIRST: Duration = Duration::from_millis(10);
/// The longest for one server.
const LONGEST: Duration = Duration::from_secs(1);
/// The longest between two attempts at any servers: they do not make a storm in turns.
const GAP: Duration = Duration::from_millis(250);
/// An attempt that lasted for as long as this was a success, however it ended.
const LASTING: Duration = Duration::from_secs(2);
/// After so much peace a pause is the first again.
const FORGOTTEN: Duration = Duration::from_secs(10);

/// A server, as the client names it.
pub(crate) type Server = (String, u16);

/// The pauses of one client, server by server.
#[derive(Debug)]
pub(crate) struct Pace {
    /// A random number between 0 and 1.
    random: fn() -> f64,
    past: Mutex<Past>,
    /// Wakes those who wait for their turn.
    hurry: Notify,
}

#[derive(Debug, Default)]
struct Past {
    /// When the last attempt began, at any server.
    last: Option<Instant>,
    /// The servers that have turned us away since an attempt at them lasted.
    rests: HashMap<Server, Rest>,
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
        let gap = self.last.map(|last| last + GAP.min(2 * pause.saturating_mul(servers)));
        Some(gap.map_or(until, |gap| gap.max(until)))
    }
}

impl Pace {
    pub(crate) fn new(random: fn() -> f64) -> Self {
        Self { random, past: Mutex::default(), hurry: Notify::new() }
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
    pub(crate) fn ended(&self, server: &Server, began: Instant) {
        let now = Instant::now();
        let mut past = self.past();
        if now.duration_since(began) >= LASTING {
            past.rests.remove(server);
            return;
        }
        let pause = match past.rests.get(server) {
            Some(rest) if now.saturating_duration_since(rest.until) < FORGOTTEN => {
                LONGEST.min(rest.pause * 2)
            }
            _ => FIRST,
        };
        // Jitter keeps clients that were turned away together from returning together.
        let until = now + pause.mul_f64(0.5 + (self.random)() / 2.0);
        past.rests.insert(server.clone(), Rest { pause, until });
    }

    fn past(&self) -> MutexGuard<'_, Past> {
        // A panic while it was locked leaves it usable: every change is a single assignment, insertion or removal.
        self.past.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many attempts were made in each second, if each lasts for `lasts`; servers take turns.
    async fn attempts(servers: u16, lasts: Duration, seconds: usize) -> Vec<usize> {
        let pace = Pace::new(|| 0.0);
        let start = Instant::now();
        let mut counts = vec![0; seconds];
        for port in (0..servers).cycle().take(1000) {
            let server = ("a".to_owned(), port);
            let began = pace.turn(&server).await;
            let second = usize::try_from(began.duration_since(start).as_secs()).unwrap();
            let Some(count) = counts.get_mut(second) else { break };
            *count += 1;
            tokio::time::sleep(lasts).await;
            pace.ended(&server, began);
        }
        counts
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_turns_us_away_gets_few_attempts_after_the_first_second() {
        for servers in [1, 2, 3, 5, 9] {
            for lasts in [0, 1, 30, 700] {
                let counts = attempts(servers, Duration::from_millis(lasts), 12).await;
                // With the shortest pauses that jitter makes.
                assert!(counts[1..].iter().all(|count| *count <= 5), "{servers} {lasts} {counts:?}");
                let lately: usize = counts[9..].iter().sum();
                assert!(lately > 0, "it is tried for ever: {servers} {lasts} {counts:?}");
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_lasted_costs_no_pause() {
        let pace = Pace::new(|| 1.0);
        let server = ("a".to_owned(), 1);
        let waited = async || {
            let start = Instant::now();
            pace.turn(&server).await;
            start.elapsed()
        };
        for _ in 0..10 {
            pace.ended(&server, Instant::now());
        }
        assert!(waited().await >= LONGEST);
        let began = Instant::now();
        tokio::time::sleep(LASTING).await;
        pace.ended(&server, began);
        assert_eq!(waited().await, Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn another_server_does_not_wait() {
        let pace = Pace::new(|| 1.0);
        pace.ended(&("a".to_owned(), 1), Instant::now());
        let start = Instant::now();
        pace.turn(&("a".to_owned(), 2)).await;
        assert_eq!(start.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn a_pause_is_forgotten_after_a_while() {
        let pace = Pace::new(|| 1.0);
        let server = ("a".to_owned(), 1);
        for _ in 0..10 {
            pace.ended(&server, Instant::now());
        }
        tokio::time::sleep(LONGEST + FORGOTTEN + FIRST).await;
        let start = Instant::now();
        pace.ended(&server, start);
        pace.turn(&server).await;
        assert!(start.elapsed() <= 2 * FIRST);
    }

    #[tokio::test(start_paused = true)]
    async fn who_gives_up_waiting_has_not_shortened_the_pause() {
        let pace = Pace::new(|| 1.0);
        let server = ("a".to_owned(), 1);
        for _ in 0..10 {
            pace.ended(&server, Instant::now());
        }
        let start = Instant::now();
        while tokio::time::timeout(LONGEST / 4, pace.turn(&server)).await.is_err() {}
        assert!((LONGEST..LONGEST * 2).contains(&start.elapsed()));
    }

    #[tokio::test(start_paused = true)]
    async fn in_a_hurry_the_pauses_begin_anew() {
        let pace = Pace::new(|| 1.0);
        let server = ("a".to_owned(), 1);
        for _ in 0..10 {
            pace.ended(&server, Instant::now());
        }
        let start = Instant::now();
        let hurry = async {
            tokio::task::yield_now().await;
            pace.hurry();
        };
        tokio::join!(pace.turn(&server), hurry);
        assert_eq!(start.elapsed(), Duration::ZERO);
        pace.ended(&server, start);
        pace.turn(&server).await;
        assert!((FIRST / 2..FIRST * 3).contains(&start.elapsed()), "{:?}", start.elapsed());
    }
}
