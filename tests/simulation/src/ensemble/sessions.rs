//! What the leader knows of sessions: until when each lives unless its client is heard of.

use std::collections::BTreeMap;

#[derive(Debug)]
struct Session {
    timeout: u64,
    deadline: u64,
}

/// The sessions, as their leader counts their time. Times are in milliseconds.
#[derive(Debug)]
pub struct Sessions {
    tick: u64,
    living: BTreeMap<i64, Session>,
}

impl Sessions {
    /// None yet; they end on multiples of the tick.
    pub fn new(tick: u64) -> Self {
        Self { tick, living: BTreeMap::new() }
    }

    fn deadline(&self, timeout: u64, now: u64) -> u64 {
        ((now + timeout) / self.tick + 1) * self.tick
    }

    /// A client has this session now.
    pub fn begin(&mut self, session: i64, timeout: u64, now: u64) {
        let deadline = self.deadline(timeout, now);
        self.living.insert(session, Session { timeout, deadline });
    }

    /// Its client was heard of.
    pub fn touch(&mut self, session: i64, now: u64) {
        if let Some(timeout) = self.living.get(&session).map(|session| session.timeout) {
            let deadline = self.deadline(timeout, now);
            self.living.entry(session).and_modify(|session| session.deadline = deadline);
        }
    }

    /// A new leader gives every session its whole time.
    pub fn touch_all(&mut self, now: u64) {
        let all: Vec<_> = self.living.keys().copied().collect();
        for session in all {
            self.touch(session, now);
        }
    }

    /// It is over.
    pub fn end(&mut self, session: i64) {
        self.living.remove(&session);
    }

    /// Those whose time is over; they are forgotten.
    pub fn expired(&mut self, now: u64) -> Vec<i64> {
        let over = |session: &Session| session.deadline <= now;
        let expired: Vec<_> =
            self.living.iter().filter(|(_, session)| over(session)).map(|(id, _)| *id).collect();
        self.living.retain(|_, session| !over(session));
        expired
    }
}
