//! Sessions: ids, passwords and expiry.

use std::collections::{BTreeMap, BTreeSet};

use crate::connections::ConnectionId;
use crate::settings::{Settings, Time};

/// The time at which a session expires unless its client sends a message, on the clock of
/// [`Time::elapsed`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(test), derive(PartialOrd, Ord))]
struct Deadline(u64);

/// A client's session.
#[derive(Debug)]
struct Session {
    deadline: Deadline,
    connection: Option<ConnectionId>,
}

/// All live sessions.
#[derive(Debug)]
pub(crate) struct Sessions {
    living: BTreeMap<i64, Session>,
    /// The sessions of `living` in the order of their deadlines. A search for expired sessions
    /// therefore reads only expired ones.
    by_deadline: BTreeSet<(Deadline, i64)>,
    next: i64,
    tick: u64,
    seed: u64,
}

impl Sessions {
    pub(crate) fn new(settings: &Settings, now: Time) -> Self {
        // The upper bits are the time in milliseconds, so the ids differ from those of an earlier
        // server on the same port. The top byte must be 0, because it marks containers and TTL
        // nodes.
        let next = (now.wall << 16) & 0x00ff_ffff_ffff_ffff;
        Sessions {
            living: BTreeMap::new(),
            by_deadline: BTreeSet::new(),
            next: next.max(1),
            tick: settings.tick.max(1),
            seed: settings.seed,
        }
    }

    /// Creates a session on a connection.
    pub(crate) fn create(&mut self, timeout: u64, connection: ConnectionId, now: Time) -> i64 {
        let id = self.next;
        self.next += 1;
        let deadline = self.deadline(timeout, now);
        self.living.insert(id, Session { deadline, connection: Some(connection) });
        self.by_deadline.insert((deadline, id));
        id
    }

    /// Returns the deadline of a session that is renewed now. Sessions expire on a tick, never
    /// before their timeout.
    fn deadline(&self, timeout: u64, now: Time) -> Deadline {
        Deadline(((now.elapsed + timeout) / self.tick + 1) * self.tick)
    }

    /// Moves a session to a connection if the session is live and the password is correct.
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
        self.touch(id, timeout, now);
        let Some(session) = self.living.get_mut(&id) else { return false };
        session.connection = Some(connection);
        true
    }

    /// Renews the session's deadline, because a message from its client arrived.
    pub(crate) fn touch(&mut self, id: i64, timeout: u64, now: Time) {
        let deadline = self.deadline(timeout, now);
        let Some(session) = self.living.get_mut(&id) else { return };
        // Usually the deadline is unchanged, because several messages arrive within one tick.
        if session.deadline != deadline {
            self.by_deadline.remove(&(session.deadline, id));
            self.by_deadline.insert((deadline, id));
            session.deadline = deadline;
        }
    }

    /// Returns the session's connection.
    pub(crate) fn connection(&self, id: i64) -> Option<ConnectionId> {
        self.living.get(&id)?.connection
    }

    /// Removes the connection from its session. The session continues until its deadline.
    pub(crate) fn detach(&mut self, id: i64, connection: ConnectionId) {
        if let Some(session) = self.living.get_mut(&id) {
            if session.connection == Some(connection) {
                session.connection = None;
            }
        }
    }

    /// Ends a session. Returns whether it was live.
    pub(crate) fn remove(&mut self, id: i64) -> bool {
        let Some(session) = self.living.remove(&id) else { return false };
        self.by_deadline.remove(&(session.deadline, id))
    }

    /// Returns the expired sessions in order of their deadlines.
    pub(crate) fn expired(&self, now: Time) -> Vec<i64> {
        let over = self.by_deadline.range(..=(Deadline(now.elapsed), i64::MAX));
        over.map(|(_, id)| *id).collect()
    }

    pub(crate) fn next_deadline(&self) -> Option<u64> {
        self.by_deadline.first().map(|(deadline, _)| deadline.0)
    }

    pub(crate) fn len(&self) -> usize {
        self.living.len()
    }

    /// Returns the password with which a client resumes the session. It is computed from the id and
    /// the seed, so it is not stored.
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
    use std::cell::Cell;
    use std::cmp::Ordering;

    use super::*;

    thread_local! {
        /// Number of comparisons between two deadlines, as a measure of the cost of a search.
        static COMPARISONS: Cell<u64> = const { Cell::new(0) };
    }

    impl Ord for Deadline {
        fn cmp(&self, other: &Self) -> Ordering {
            COMPARISONS.set(COMPARISONS.get() + 1);
            self.0.cmp(&other.0)
        }
    }

    impl PartialOrd for Deadline {
        fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
            Some(self.cmp(other))
        }
    }

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

    /// Maximum number of comparisons that a search among 10,000 deadlines needs. The set has four
    /// levels of at most 11 keys, and the search compares a key at most twice.
    const SEARCH: u64 = 4 * 11 * 2;

    #[test]
    fn a_tick_looks_only_at_the_sessions_that_are_over() {
        let mut sessions = Sessions::new(&Settings::default(), at(0));
        let ids: Vec<i64> = (0..10_000).map(|i| sessions.create(1000 + i, A, at(0))).collect();
        let mut steps = |what: &mut dyn FnMut(&mut Sessions)| {
            let before = COMPARISONS.get();
            what(&mut sessions);
            COMPARISONS.get() - before
        };
        assert!(steps(&mut |all| assert!(all.expired(at(1099)).is_empty())) <= 2 * SEARCH);
        assert!(steps(&mut |all| assert_eq!(all.expired(at(1100)), ids[..100])) <= 2 * SEARCH);
        assert!(steps(&mut |all| assert_eq!(all.next_deadline(), Some(1100))) == 0);
        assert!(steps(&mut |all| all.touch(ids[5000], 6000, at(50))) <= 2 * SEARCH);
        assert!(steps(&mut |all| all.touch(ids[5000], 6000, at(51))) == 0);
        assert!(steps(&mut |all| assert!(all.remove(ids[5000]))) <= SEARCH);
    }

    #[test]
    fn a_session_that_was_heard_of_or_ended_does_not_end_again() {
        let mut sessions = Sessions::new(&Settings::default(), at(0));
        let [first, second, third] = [300, 200, 100].map(|timeout| sessions.create(timeout, A, at(0)));
        assert_eq!(sessions.expired(at(1000)), [third, second, first]);
        sessions.touch(third, 500, at(0));
        assert_eq!(sessions.expired(at(500)), [second, first]);
        assert!(sessions.remove(second) && !sessions.remove(second));
        let password = sessions.password(first);
        assert!(sessions.resume(first, &password, 900, B, at(0)));
        assert_eq!((sessions.expired(at(999)), sessions.next_deadline()), (vec![third], Some(600)));
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
