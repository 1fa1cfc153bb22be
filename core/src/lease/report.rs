//! What in a client waits and holds, for whoever looks at it.

use std::time::Duration;

use super::mode::LockMode;
use super::owner::Owner;
use super::state::LeaseState;
use crate::error::server_report::Servers;
use crate::runtime::clock::BootInstant;

/// An attempt to acquire a lock that has neither succeeded nor failed yet.
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
    /// What it is to be held for.
    pub mode: LockMode,
    /// The label of the lock or of its client; of an election the candidate's id.
    pub label: Option<String>,
    /// How long the caller has waited.
    pub age: Duration,
    /// The full path of its node. `None` as long as it has none, as without a connection.
    pub node: Option<String>,
    /// Whether it waits in its client's line for a lock with [`cohort`](crate::LockOptions::cohort): without a node, so
    /// that other clients do not see it. One node of the client stands in the queue for the whole line; `position` and
    /// `behind` are those of that node.
    pub in_cohort: bool,
    /// How many contenders stand before it in the queue, as far as is known. `None` as long as it has no node.
    pub position: Option<usize>,
    /// The full path of the node that it waits for: the nearest before it that it cannot hold together with. `None` if
    /// none is known; and for a permit, which waits for any of those that hold one.
    pub behind: Option<String>,
    /// The owner that asked for it: see [`Owner::named`].
    pub owner: Owner,
}

/// A hold.
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
    /// What it is held for.
    pub mode: LockMode,
    /// The label of the lock or of its client; of an election the candidate's id.
    pub label: Option<String>,
    /// How long it has lasted.
    pub age: Duration,
    /// The full path of its node.
    pub node: String,
    /// Its fencing token.
    pub fencing_token: i64,
    /// Its leases that have not been released: one for each acquire by its owner.
    pub levels: usize,
    /// Whether something keeps one of them until it is released or lost, though the program may have dropped it: in
    /// Python and Node an election, in Node a `signal` that was read. Always false for a lease of Rust.
    pub pinned: bool,
    /// The state of its leases.
    pub state: LeaseState,
    /// For how long no one else can get the lock, unless it is broken.
    pub remaining: Duration,
    /// The owner that asked for it: see [`Owner::named`].
    pub owner: Owner,
}

/// What a driver shows of its queues while it waits for something to happen.
pub(crate) struct DriverSnapshot {
    /// The server of its connection.
    pub(crate) server: Option<String>,
    /// Waits and holds; `None` if the driver did not let go of its queues in time.
    pub(crate) queues: Option<(Vec<WaitReport>, Vec<HoldReport>)>,
}

/// A driver that can be looked at from any thread.
pub(crate) trait Inspector: Send + Sync {
    /// Returns after a tenth of a second at the latest.
    fn inspect(&self) -> DriverSnapshot;

    /// When a server last answered anything; `None` if none has, or the transport does not say.
    fn last_answer(&self) -> Option<BootInstant>;

    /// The result of the last attempt at each of these servers.
    fn servers(&self, hosts: &str) -> Servers;
}
