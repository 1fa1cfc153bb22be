//! The leader's session table. It contains the time at which each session expires unless its client
//! sends something.

use std::collections::BTreeMap;

#[derive(Debug)]
struct Session {
    timeout: u64,
    deadline: u64,
    /// True if the leader has proposed to end the session. A ping then no longer extends it. If a
    /// new leader is elected that does not know the proposal, the session continues.
    ending: bool,
}

/// The session table. Times are in milliseconds.
#[derive(Debug)]
pub struct Sessions {
    tick: u64,
    living: BTreeMap<i64, Session>,
}

impl Sessions {
    /// Creates an empty table. Sessions expire at multiples of the tick.
    pub fn new(tick: u64) -> Self {
        Self { tick, living: BTreeMap::new() }
    }

    fn deadline(&self, timeout: u64, now: u64) -> u64 {
        ((now + timeout) / self.tick + 1) * self.tick
    }

    /// Starts a session, or restarts the timeout of an existing one.
    pub fn begin(&mut self, session: i64, timeout: u64, now: u64) {
        let deadline = self.deadline(timeout, now);
        self.living.insert(session, Session { timeout, deadline, ending: false });
    }

    /// Extends a session, because its client has sent something.
    pub fn touch(&mut self, session: i64, now: u64) {
        if let Some(timeout) = self.living.get(&session).filter(|one| !one.ending).map(|one| one.timeout) {
            self.begin(session, timeout, now);
        }
    }

    /// Restarts the timeout of every session after an election. This includes the sessions whose
    /// end was already proposed.
    pub fn touch_all(&mut self, now: u64) {
        let all: Vec<_> = self.living.iter().map(|(id, session)| (*id, session.timeout)).collect();
        for (session, timeout) in all {
            self.begin(session, timeout, now);
        }
    }

    /// Removes a session that has ended.
    pub fn end(&mut self, session: i64) {
        self.living.remove(&session);
    }

    /// Returns the sessions that have expired since the last call. They stay in the table until
    /// their end is decided.
    pub fn expired(&mut self, now: u64) -> Vec<i64> {
        let over = self.living.iter_mut().filter(|(_, session)| session.deadline <= now && !session.ending);
        over.map(|(id, session)| {
            session.ending = true;
            *id
        })
        .collect()
    }
}
