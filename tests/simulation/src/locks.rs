//! The locks of a simulation, by their absolute paths.

use zklock::Permits;

pub const MUTEXES: [&str; 2] = ["/locks/a", "/locks/b"];
pub const READ_WRITE: &str = "/locks/c";
pub const ELECTION: &str = "/locks/h";

/// The node with the number of permits of one semaphore.
pub const COUNT: &str = "/locks/count";
/// Largest number that is ever written to [`COUNT`].
pub const MOST: u32 = 4;

/// A semaphore, with the directories for its permits and for its mutex.
#[derive(Debug)]
pub struct Place {
    pub path: &'static str,
    pub permits: &'static str,
    pub turns: &'static str,
    /// Number of permits, or `None` if [`COUNT`] contains it.
    pub count: Option<u32>,
}

pub const SEMAPHORES: [Place; 4] = [
    Place { path: "/locks/d", permits: "/locks/d/leases", turns: "/locks/d/locks", count: Some(3) },
    Place { path: "/locks/e", permits: "/locks/e/leases", turns: "/locks/e/locks", count: Some(1) },
    Place { path: "/locks/f", permits: "/locks/f/leases", turns: "/locks/f/locks", count: None },
    Place { path: "/locks/g", permits: "/locks/g/leases", turns: "/locks/g/locks", count: Some(CROWD) },
];
/// Indexes of special semaphores:
/// - `SINGLE` has one permit.
/// - The number of permits of `SHARED` changes.
/// - `CROWDED` has `CROWD` permits. One request of the library cannot cover so many nodes.
pub const SINGLE: usize = 1;
pub const SHARED: usize = 2;
pub const CROWDED: usize = 3;
pub const CROWD: u32 = 1200;

/// The nodes in which each mutex's last holder writes its token.
pub const RECORDS: [&str; 2] = ["/locks/record-a", "/locks/record-b"];

/// The nodes in which the last slot of each mutex is recorded.
pub const SLOT_RECORDS: [&str; 2] = ["/locks/a.once", "/locks/b.once"];

/// The directories whose nodes are counted, to check attempts that limit the number of waiters.
pub const COUNTED: [&str; 5] =
    [MUTEXES[0], MUTEXES[1], READ_WRITE, SEMAPHORES[0].permits, SEMAPHORES[0].turns];

/// The directories of all locks.
pub const DIRECTORIES: [&str; 12] = [
    MUTEXES[0],
    MUTEXES[1],
    READ_WRITE,
    SEMAPHORES[0].permits,
    SEMAPHORES[0].turns,
    SEMAPHORES[1].permits,
    SEMAPHORES[1].turns,
    SEMAPHORES[2].permits,
    SEMAPHORES[2].turns,
    SEMAPHORES[3].permits,
    SEMAPHORES[3].turns,
    ELECTION,
];

impl Place {
    pub fn number(&self, below: impl Fn(&str) -> String) -> Permits {
        self.count.map_or_else(|| Permits::SharedCount(below(COUNT)), Permits::Fixed)
    }
}

/// A change of a slot record.
#[derive(Clone, Debug)]
pub struct Written {
    /// Index of the slot's mutex.
    pub place: usize,
    pub version: i32,
    pub data: Vec<u8>,
}
