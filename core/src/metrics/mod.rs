//! [`Stats`], the statistics of a client.

pub(crate) mod recorder;

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::error::loss_reason::LossReason;

/// A snapshot of the counters of a client since it was created. The counters never decrease.
///
/// A *hold* begins with a grant and ends with its last release or with its loss. A re-entry sends
/// no request and is not counted. Each permit of a semaphore counts as a hold. The internal mutex
/// that a semaphore's contenders hold while they acquire permits does not count.
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
    /// The transport that carries the requests. `None` before the first session.
    pub transport: Option<Transport>,
    /// Number of holds that began.
    pub acquisitions: u64,
    /// Number of these holds that had to wait for another contender.
    pub contended: u64,
    /// Number of acquisitions without a request because the client handed the lock to its next
    /// waiter. See [`cohort`](crate::LockOptions::cohort).
    pub handoffs: u64,
    /// Number of acquisitions without a request because the client reused a node that it had kept.
    /// See [`linger`](crate::LockOptions::linger).
    pub retakes: u64,
    /// Number of acquires with [`Timeout::Try`](crate::Timeout::Try) that found the lock taken,
    /// plus the number of acquires that [`max_waiters`](crate::LockOptions::max_waiters) refused.
    pub busy: u64,
    /// Number of attempts that timed out.
    pub timeouts: u64,
    /// Number of holds that were lost. Closing the client does not count as a loss.
    pub losses: u64,
    /// Number of lost holds by reason. The map contains all reasons except a closed client and a
    /// fork, because these are not counted.
    pub losses_by_reason: BTreeMap<LossReason, u64>,
    /// Number of sessions that began. A number above 1 means that a session was lost.
    pub sessions: u64,
    /// Number of connections that were lost and replaced within a session.
    pub reconnections: u64,
    /// Durations of the acquisitions, from the call to the grant.
    pub wait: Histogram,
    /// Durations of the holds that have ended.
    pub hold: Histogram,
    /// Number of requests for locks, by purpose. Requests that only maintain the session or its
    /// watches are not counted: pings, and requests that open or close the session or that set or
    /// remove watches.
    pub requests: BTreeMap<RequestKind, u64>,
}

/// The distribution of durations, in the form of a Prometheus histogram.
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
    /// Number of values.
    pub count: u64,
    /// Sum of the values.
    pub sum: Duration,
    /// Largest value.
    pub max: Duration,
    /// Upper bounds in ascending order, each with the number of values up to that bound. The bounds
    /// are 1, 2 and 5 times every power of ten, from 100 µs to 1,000 s. Larger values appear only
    /// in `count`.
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
    /// Makes the server catch up with its leader before a listing.
    Sync,
    /// Sets a watch on a node.
    Watch,
    /// Checks which session owns a node whose create got no reply, or checks that a node exists.
    Verify,
    /// Deletes a node.
    Delete,
    /// Creates the lock directory and its parents.
    Parents,
    /// Reads the data of contenders, the number of permits in a node, or data for the application.
    Read,
    /// Proves that the session is alive, which extends the term of its leases.
    Heartbeat,
    /// Asks a contender to give up its lock.
    Revoke,
    /// Executes writes of the application, on the condition that a lock is held.
    Transaction,
    /// Sets a shared count, or restores a node's data that a request to release the lock has
    /// overwritten.
    Write,
}

impl fmt::Display for RequestKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl RequestKind {
    /// All kinds, in the order of their declaration.
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

    /// Returns the name, which is the same in all languages.
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

/// The transport that carries the requests.
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
    /// The sockets and timers of the `async-net` and `async-io` crates, which are used if the
    /// program lacks the two `[patch.crates-io]` lines. Locks are as safe as with the other
    /// transport, but this transport has these limits:
    /// - Acquires need more round trips.
    /// - A forked child cannot use the library.
    /// - Connections cannot be encrypted.
    /// - The client does not validate the servers' replies.
    /// - The connection rate is unlimited.
    Stock,
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Transport {
    /// Returns the name, which is the same in all languages.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Zklock => "zklock",
            Self::Stock => "stock",
        }
    }

    /// Returns the transport that carries the requests. Call this function only after a session has
    /// begun. Without the `[patch.crates-io]` lines, the ZooKeeper client does not use zklock's
    /// transport.
    pub(crate) fn in_use() -> Self {
        if zklock_transport::used() { Self::Zklock } else { Self::Stock }
    }
}
