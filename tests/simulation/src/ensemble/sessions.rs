//! What the leader knows of sessions: until when each lives unless its client is heard of.

use std::collections::BTreeMap;

#[derive(Debug)]
struct Session {
    timeout: u64,
    deadline: u64,
    /// Its end is proposed: nobody's word saves it any more, but that of the next leader, who may not know of it.
    ending: bool,
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
        self.living.insert(session, Session { timeout, deadline, ending: false });
    }

    /// Its client was heard of.
    pub fn touch(&mut self, session: i64, now: u64) {
        if let Some(timeout) = self.living.get(&session).filter(|one| !one.ending).map(|one| one.timeout) {
            self.begin(session, timeout, now);
        }
    }

    /// A new leader gives every session its whole time: also to those whose end was proposed, and not decided.
    pub fn touch_all(&mut self, now: u64) {
        let all: Vec<_> = self.living.iter().map(|(id, session)| (*id, session.timeout)).collect();
        for (session, timeout) in all {
            self.begin(session, timeout, now);
        }
    }

    /// It is over.
    pub fn end(&mut self, session: i64) {
        self.living.remove(&session);
    }

    /// Those whose time is over since the last call. They are known until their end is decided.
    pub fn expired(&mut self, now: u64) -> Vec<i64> {
        let over = self.living.iter_mut().filter(|(_, session)| session.deadline <= now && !session.ending);
        over.map(|(id, session)| {
            session.ending = true;
            *id
        })
        .collect()
    }
}
