//! The locks that a contender can request, and the ways in which it waits for them.

use std::time::Duration;

use zklock::Timeout;

use crate::chance::Chance;
use crate::locks::{CROWD, CROWDED, MOST, MUTEXES, READ_WRITE, SEMAPHORES, SHARED, SINGLE};
use crate::setting::Setting;

/// A member of a multi-lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Member {
    Mutex(usize),
    Read,
    Write,
    Permit,
}

impl Member {
    pub fn path(self) -> &'static str {
        match self {
            Self::Mutex(which) => MUTEXES[which],
            Self::Read | Self::Write => READ_WRITE,
            Self::Permit => SEMAPHORES[0].path,
        }
    }
}

/// The requested lock.
#[derive(Clone, Debug, PartialEq)]
pub enum Want {
    Mutex(usize),
    Read,
    Write,
    /// The write lock, followed by a downgrade to the read lock.
    Downgrade,
    /// Leadership of the election.
    Lead,
    /// A semaphore, and a number of its permits.
    Permits(usize, u32),
    /// Several locks, in the order in which they are passed to the library. If the flag is true,
    /// the contender's other client acquires the lock.
    Several(Vec<(Member, bool)>),
}

impl Want {
    /// Returns the number of locks that are acquired in sequence.
    pub fn members(&self) -> u64 {
        match self {
            Self::Several(members) => members.len() as u64,
            _ => 1,
        }
    }

    /// Returns a random lock. `number_known` is true if the number of permits of the semaphore
    /// `SHARED` has been set. Otherwise that semaphore is not used.
    pub fn any(chance: &mut Chance, setting: &Setting, number_known: bool) -> Self {
        // Request very many permits only from a single fast server. In the model, a server of an
        // ensemble executes the next write of a connection only after the previous one was decided.
        // A thousand writes would take too long there and delay heartbeats.
        let bears_crowds = setting.servers == 1 && 100 * setting.latency <= setting.timeout / 2;
        if bears_crowds && chance.index(200) == 0 {
            return Self::Permits(CROWDED, chance.number(130..=u64::from(CROWD)).try_into().unwrap_or(CROWD));
        }
        match chance.index(22) {
            0..=4 => Self::Mutex(0),
            5 => Self::Mutex(1),
            6..=8 => Self::Read,
            9 => Self::Write,
            10 => Self::Downgrade,
            11 => Self::Permits(0, 1),
            12 => Self::Permits(0, 2),
            13 => Self::Permits(0, 3),
            14 | 15 => Self::Permits(SINGLE, 1),
            16 if number_known => {
                Self::Permits(SHARED, chance.number(1..=MOST.into()).try_into().unwrap_or(1))
            }
            17 | 18 => Self::Lead,
            _ => Self::several(chance, setting),
        }
    }

    fn several(chance: &mut Chance, setting: &Setting) -> Self {
        let half = chance.pick(&[Member::Read, Member::Write]);
        let mut members = vec![Member::Mutex(0), Member::Mutex(1), half, Member::Permit];
        let count = chance.number(2..=3);
        let mut wanted = Vec::new();
        for _ in 0..count {
            let member = members.swap_remove(chance.index(members.len()));
            wanted.push((member, setting.clients > 1 && chance.percent(30)));
        }
        Self::Several(wanted)
    }
}

/// The way to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitStyle {
    Wait,
    Within(u64),
    Try,
    /// Drop the future after this time.
    GiveUp(u64),
}

impl WaitStyle {
    /// Returns a random way to wait for this lock. `limited` is true if the attempt has a hold
    /// limit.
    pub fn any(chance: &mut Chance, setting: &Setting, want: &Want, limited: bool) -> Self {
        let time = chance.skewed(1..=2 * setting.timeout);
        // True if the attempt might wait forever and therefore needs a timeout: it requests more
        // permits than there will ever be, or the hold limits of its first members expire again and
        // again before the last members are granted.
        let in_vain = match want {
            Want::Permits(SHARED, 2..) => true,
            Want::Permits(_, 2..) | Want::Several(_) => limited,
            _ => false,
        };
        match chance.index(10) {
            0..=3 if in_vain => Self::Within(time),
            0..=3 => Self::Wait,
            4 | 5 => Self::Within(time),
            6 | 7 => Self::Try,
            _ => Self::GiveUp(time),
        }
    }

    /// Returns the timeout that is passed to the library. A contender that gives up drops the
    /// future, so it passes no timeout.
    pub fn wait_limit(self) -> Timeout {
        match self {
            Self::Wait | Self::GiveUp(_) => Timeout::Forever,
            Self::Within(time) => Timeout::For(Duration::from_millis(time)),
            Self::Try => Timeout::Try,
        }
    }

    pub fn is_try(self) -> bool {
        self == Self::Try
    }
}

/// Returns a random hold limit, or `None`. The limit can be so short that it expires while the
/// attempt acquires another lock.
pub fn limit(chance: &mut Chance, setting: &Setting) -> Option<Duration> {
    let most = match chance.index(8) {
        0 => 4 * setting.latency,
        1 => setting.timeout / 2,
        _ => return None,
    };
    Some(Duration::from_millis(chance.number(1..=most)))
}
