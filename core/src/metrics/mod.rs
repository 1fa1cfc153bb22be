//! A client's statistics.

pub(crate) mod recorder;

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::error::loss_reason::LossReason;

/// What a client has done since it was created: a snapshot, of numbers that only grow.
///
/// A *hold* begins with a grant and ends with its last release, or with its loss. A re-entry begins none, and is not
/// counted: it costs nothing. Each permit of a semaphore is a hold; the turn that its contenders take is none.
///
/// ```
/// use zklock::{Client, ClientOptions};
///
/// # fn main() -> zklock::Result<()> {
/// let client = Client::new(ClientOptions::new(None)?);
/// let stats = client.stats();
/// println!("{} of {} acquisitions had to wait", stats.contended, stats.acquisitions);
/// # assert_eq!(stats.acquisitions, 0);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// What carries the requests; `None` before there was a session.
    pub transport: Option<Transport>,
    /// Holds that began.
    pub acquisitions: u64,
    /// Those of them that had to wait for another contender.
    pub contended: u64,
    /// Acquisitions without a request: the client handed the lock on to its next waiter. See
    /// [`cohort`](crate::LockOptions::cohort).
    pub handoffs: u64,
    /// Acquisitions without a request: the client took a node again that it had kept. See
    /// [`linger`](crate::LockOptions::linger).
    pub retakes: u64,
    /// Tries that found the lock taken, and attempts that [`max_waiters`](crate::LockOptions::max_waiters) refused.
    pub busy: u64,
    /// Attempts that timed out.
    pub timeouts: u64,
    /// Holds that were lost, except by closing the client.
    pub losses: u64,
    /// The same by reason. Every reason is there, but for closing the client and for fork, which are not counted.
    pub losses_by_reason: BTreeMap<LossReason, u64>,
    /// Sessions that began: more than one says that one was lost.
    pub sessions: u64,
    /// Connections that were lost and replaced within a session.
    pub reconnections: u64,
    /// How long the acquisitions took, from the call to the grant.
    pub wait: Histogram,
    /// How long the holds that have ended lasted.
    pub hold: Histogram,
    /// Requests for locks, by purpose. What a session sends for itself is not counted: pings, opening and closing the
    /// session, and setting or dropping watches on a server.
    pub requests: BTreeMap<RequestKind, u64>,
}

/// How often something took how long, in the form that Prometheus calls a histogram.
///
/// ```
/// use std::time::Duration;
/// use zklock::{Client, ClientOptions};
///
/// # fn main() -> zklock::Result<()> {
/// let wait = Client::new(ClientOptions::new(None)?).stats().wait;
/// let quick = wait.buckets.iter().find(|(bound, _)| *bound == Duration::from_millis(5));
/// println!("{:?} of {} within 5 ms, {:?} at most", quick.map(|(_, count)| count), wait.count, wait.max);
/// # assert_eq!(quick, Some(&(Duration::from_millis(5), 0)));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Histogram {
    /// The number of values.
    pub count: u64,
    /// Their sum.
    pub sum: Duration,
    /// The largest of them.
    pub max: Duration,
    /// Upper bounds, ascending, each with the number of values up to it: 1, 2 and 5 times every power of ten from 100
    /// µs to 1,000 s. Larger values are in `count` only.
    pub buckets: Vec<(Duration, u64)>,
}

/// The purpose of a request.
///
/// ```
/// use zklock::{Client, ClientOptions, RequestKind};
///
/// # fn main() -> zklock::Result<()> {
/// let requests = Client::new(ClientOptions::new(None)?).stats().requests;
/// assert_eq!(requests[&RequestKind::Create], 0);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum RequestKind {
    /// Creates a contender's node.
    Create,
    /// Lists a lock directory.
    List,
    /// Has a server catch up before a listing.
    Sync,
    /// Watches a node.
    Watch,
    /// Checks who owns a node, after the reply to its creation was lost, or whether there is one.
    Verify,
    /// Deletes a node.
    Delete,
    /// Creates the lock directory and its parents.
    Parents,
    /// Reads contenders' data, the number of permits in a node, or data for the application.
    Read,
    /// Proves the session, for the term of its leases.
    Heartbeat,
    /// Asks a contender to give up its lock.
    Revoke,
    /// Writes of the application, on condition that a lock is held.
    Transaction,
    /// Sets a shared count, or the data of a node that a revocation has written over.
    Write,
}

impl fmt::Display for RequestKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl RequestKind {
    /// All of them, in this order.
    pub const ALL: &[Self] = &[
        Self::Create,
        Self::List,
        Self::Sync,
        Self::Watch,
        Self::Verify,
        Self::Delete,
        Self::Parents,
        Self::Read,
        Self::Heartbeat,
        Self::Revoke,
        Self::Transaction,
        Self::Write,
    ];

    /// Its name, the same in all languages.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::List => "list",
            Self::Sync => "sync",
            Self::Watch => "watch",
            Self::Verify => "verify",
            Self::Delete => "delete",
            Self::Parents => "parents",
            Self::Read => "read",
            Self::Heartbeat => "heartbeat",
            Self::Revoke => "revoke",
            Self::Transaction => "transaction",
            Self::Write => "write",
        }
    }
}

/// What carries the requests.
///
/// ```
/// use zklock::{Client, ClientOptions, Transport};
///
/// # fn main() -> zklock::Result<()> {
/// let client = Client::new(ClientOptions::new(None)?);
/// if client.stats().transport == Some(Transport::Stock) {
///     println!("add the two [patch.crates-io] lines: each acquire takes a round trip too many");
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Transport {
    /// This library's own sockets and timers.
    Zklock,
    /// Those of the `async-net` and `async-io` crates, because the two `[patch.crates-io]` lines are missing. Locks are
    /// as safe, but take more round trips, and a forked child cannot use the library. Connections cannot be encrypted,
    /// what servers send is not checked, and they may be connected to at any rate.
    Stock,
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Transport {
    /// Its name, the same in all languages.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Zklock => "zklock",
            Self::Stock => "stock",
        }
    }

    /// The transport with which a session was created. It may not be the one that this crate sees: without the patch a
    /// program's ZooKeeper client has another, so this tells which one was used, not which one exists.
    pub(crate) fn in_use() -> Self {
        if zklock_transport::used() { Self::Zklock } else { Self::Stock }
    }
}
