//! Reports about the waits and holds of a client.

use std::time::Duration;

use super::mode::LockMode;
use super::owner::Owner;
use super::state::LeaseState;
use crate::error::server_report::Servers;
use crate::runtime::clock::BootInstant;

/// Report on an acquire that has neither succeeded nor failed yet.
///
/// ```
/// # fn example(client: &zklock::Client) {
/// for wait in client.health().waits {
///     println!("{} for {:?}, behind {:?}", wait.path, wait.age, wait.behind);
/// }
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WaitReport {
    /// The lock's path.
    pub path: String,
    /// The requested mode.
    pub mode: LockMode,
    /// The label of the lock, or of its client if the lock has none. For an election, this is the
    /// candidate's id.
    pub label: Option<String>,
    /// Time that the caller has waited.
    pub age: Duration,
    /// The full path of the waiter's node. `None` while the waiter has no node, for example because
    /// the client is disconnected.
    pub node: Option<String>,
    /// True if this waiter waits inside its client for a lock with the option
    /// [`cohort`](crate::LockOptions::cohort).
    ///
    /// Such a waiter has no node of its own, so other clients do not see it. A single node of the
    /// client is in the queue on behalf of all these waiters. `position` and `behind` refer to that
    /// node.
    pub in_cohort: bool,
    /// Number of contenders that are known to be ahead of the waiter in the queue. `None` while the
    /// waiter has no node.
    pub position: Option<usize>,
    /// The full path of the nearest node ahead that blocks the waiter. Nodes whose contenders can
    /// hold the lock together with the waiter do not block it.
    ///
    /// `None` if no such node is known. Also `None` for a permit, because any of the permit holders
    /// can free a permit.
    pub behind: Option<String>,
    /// The owner that requested the lock: see [`Owner::named`].
    pub owner: Owner,
}

/// Report on a lock that an owner holds.
///
/// ```
/// # fn example(client: &zklock::Client) {
/// for hold in client.health().holds {
///     println!("{} for {:?}, {:?} are left of the term", hold.path, hold.age, hold.remaining);
/// }
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HoldReport {
    /// The lock's path.
    pub path: String,
    /// The mode in which the lock is held.
    pub mode: LockMode,
    /// The label of the lock, or of its client if the lock has none. For an election, this is the
    /// candidate's id.
    pub label: Option<String>,
    /// Time since the hold began.
    pub age: Duration,
    /// The full path of the lock's node.
    pub node: String,
    /// The fencing token.
    pub fencing_token: i64,
    /// Number of leases that are not released. Each acquire of the owner returned one lease.
    pub levels: usize,
    /// True if the library keeps a lease of this hold until the lease is released or lost, even if
    /// the program drops the lease.
    ///
    /// This is the case for elections in Python and Node, and in Node for a lease whose `signal`
    /// was read. Always `false` for a lease in Rust.
    pub pinned: bool,
    /// The state of the leases.
    pub state: LeaseState,
    /// Time for which no other client can get the lock, unless an operator deletes this lock's
    /// node.
    pub remaining: Duration,
    /// The owner that requested the lock: see [`Owner::named`].
    pub owner: Owner,
}

/// A snapshot of a driver, taken between two events of its loop.
pub(crate) struct DriverSnapshot {
    /// The server that the client is connected to.
    pub(crate) server: Option<String>,
    /// The waits and the holds. `None` if the driver was too busy to report them in time.
    pub(crate) queues: Option<(Vec<WaitReport>, Vec<HoldReport>)>,
}

/// A driver that any thread can inspect.
pub(crate) trait Inspector: Send + Sync {
    /// Returns a snapshot within 0.1 s.
    fn inspect(&self) -> DriverSnapshot;

    /// Returns the time of the last reply from any server. Returns `None` without a reply, or if
    /// the transport does not record this time.
    fn last_answer(&self) -> Option<BootInstant>;

    /// Returns the results of the last attempts to connect to these servers.
    fn servers(&self, hosts: &str) -> Servers;
}
