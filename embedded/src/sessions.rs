//! Sessions: their ids, passwords and ends.

use std::collections::BTreeMap;

use crate::connection::ConnectionId;
use crate::settings::{Settings, Time};

/// A client's session.
#[derive(Debug)]
struct Session {
    deadline: u64,
    connection: Option<ConnectionId>,
}

/// All sessions that live.
#[derive(Debug)]
pub(crate) struct Sessions {
    living: BTreeMap<i64, Session>,
    next: i64,
    tick: u64,
    seed: u64,
}

impl Sessions {
    pub(crate) fn new(settings: &Settings, now: Time) -> Self {
        // Milliseconds above, so that ids of an earlier server on the same port mean nothing here. The top byte stays
        // 0: it marks containers and TTL nodes.
        let next = (now.wall << 16) & 0x00ff_ffff_ffff_ffff;
        Sessions {
            living: BTreeMap::new(),
            next: next.max(1),
            tick: settings.tick.max(1),
            seed: settings.seed,
        }
    }

    /// A new session on a connection.
    pub(crate) fn create(&mut self, timeout: u64, connection: ConnectionId, now: Time) -> i64 {
        let id = self.next;
        self.next += 1;
        let session = Session { deadline: self.deadline(timeout, now), connection: Some(connection) };
        self.living.insert(id, session);
        id
    }

    /// Sessions end on a tick, never before their time.
    fn deadline(&self, timeout: u64, now: Time) -> u64 {
        ((now.elapsed + timeout) / self.tick + 1) * self.tick
    }

    /// Moves a session to a connection, if it lives and the password is its own.
    pub(crate) fn resume(
        &mut self,
        id: i64,
        password: &[u8],
        timeout: u64,
        connection: ConnectionId,
        now: Time,
    ) -> bool {
        if self.password(id) != password {
            return false;
        }
        let deadline = self.deadline(timeout, now);
        let Some(session) = self.living.get_mut(&id) else { return false };
        *session = Session { deadline, connection: Some(connection) };
        true
    }

    /// Its client was heard of.
    pub(crate) fn touch(&mut self, id: i64, timeout: u64, now: Time) {
        let deadline = self.deadline(timeout, now);
        if let Some(session) = self.living.get_mut(&id) {
            session.deadline = deadline;
        }
    }

    /// The connection that a session is on.
    pub(crate) fn connection(&self, id: i64) -> Option<ConnectionId> {
        self.living.get(&id)?.connection
    }

    /// The session's connection ended; the session lives on until its deadline.
    pub(crate) fn detach(&mut self, id: i64, connection: ConnectionId) {
        if let Some(session) = self.living.get_mut(&id) {
            if session.connection == Some(connection) {
                session.connection = None;
            }
        }
    }

    /// Ends a session; tells whether it lived.
    pub(crate) fn remove(&mut self, id: i64) -> bool {
        self.living.remove(&id).is_some()
    }

    /// The sessions whose time is over, in the order of their deadlines.
    pub(crate) fn expired(&self, now: Time) -> Vec<i64> {
        let mut expired: Vec<(u64, i64)> = self
            .living
            .iter()
            .filter(|(_, session)| session.deadline <= now.elapsed)
            .map(|(id, session)| (session.deadline, *id))
            .collect();
        expired.sort_unstable();
        expired.into_iter().map(|(_, id)| id).collect()
    }

    /// When the next one will expire unless its client is heard of, on the clock of [`Time::elapsed`].
    pub(crate) fn next_deadline(&self) -> Option<u64> {
        self.living.values().map(|session| session.deadline).min()
    }

    pub(crate) fn len(&self) -> usize {
        self.living.len()
    }

    /// What proves that a client may resume a session. Follows from the id and the seed, so nothing has to be kept.
    pub(crate) fn password(&self, id: i64) -> [u8; 16] {
        let mut state = self.seed ^ u64::from_be_bytes(id.to_be_bytes());
        let mut password = [0; 16];
        for half in password.chunks_exact_mut(8) {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            half.copy_from_slice(&(mixed ^ (mixed >> 31)).to_be_bytes());
        }
        password
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: ConnectionId = ConnectionId(1);
    const B: ConnectionId = ConnectionId(2);

    fn at(elapsed: u64) -> Time {
        Time { wall: 1_800_000_000_000, elapsed }
    }

    #[test]
    fn a_session_expires_on_the_tick_after_its_time() {
        let mut sessions = Sessions::new(&Settings::default(), at(0));
        let id = sessions.create(250, A, at(10));
        assert_eq!(sessions.next_deadline(), Some(300));
        assert!(sessions.expired(at(299)).is_empty());
        assert_eq!(sessions.expired(at(300)), [id]);
        sessions.touch(id, 250, at(299));
        assert_eq!(sessions.next_deadline(), Some(600));
    }

    #[test]
    fn only_id_and_password_together_resume() {
        let mut sessions = Sessions::new(&Settings { seed: 42, ..Settings::default() }, at(0));
        let id = sessions.create(250, A, at(0));
        let password = sessions.password(id);
        assert!(!sessions.resume(id, &[0; 16], 250, B, at(1)));
        assert!(!sessions.resume(id + 1, &password, 250, B, at(1)));
        assert_eq!(sessions.connection(id), Some(A));
        assert!(sessions.resume(id, &password, 250, B, at(1)));
        assert_eq!(sessions.connection(id), Some(B));
        sessions.detach(id, A);
        assert_eq!(sessions.connection(id), Some(B));
    }

    #[test]
    fn ids_of_a_later_server_are_others() {
        let first = Sessions::new(&Settings::default(), at(0));
        let later = Sessions::new(&Settings::default(), Time { wall: at(0).wall + 1, elapsed: 0 });
        assert!(later.next >= first.next + 0x1_0000);
        assert_eq!(first.next >> 56, 0);
    }
}
