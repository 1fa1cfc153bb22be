//! The reason why an acquire timed out or was refused.

use std::fmt;

/// The reason why a lock was not acquired in time. For example, a web service can reply "conflict"
/// for `Taken` and "unavailable" for the other reasons.
///
/// ```no_run
/// # async fn example(lock: &zklock::Mutex) -> zklock::Result<()> {
/// use std::time::Duration;
/// use zklock::TimeoutReason;
///
/// match lock.acquire_within(Duration::from_secs(2)).await {
///     Ok(lease) => lease.release().await?,
///     Err(error) => match error.timeout_reason() {
///         Some(TimeoutReason::Taken) => println!("409: {error}"),
///         Some(_) => println!("503: {error}"),
///         None => return Err(error),
///     },
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TimeoutReason {
    /// While the attempt waited, a server reported a contender that blocks it, or this client
    /// itself held the lock.
    Taken,
    /// No server replied since the attempt began.
    Unreachable,
    /// The queue already had the maximum number of waiters,
    /// [`max_waiters`](crate::LockOptions::max_waiters). The attempt was refused immediately.
    Full,
    /// A server replied, but no reply showed a contender that blocks the attempt. Either the
    /// connection was lost or the time was too short.
    Unknown,
}

impl TimeoutReason {
    /// Returns the reason as one word, the same in all languages.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Taken => "taken",
            Self::Unreachable => "unreachable",
            Self::Full => "full",
            Self::Unknown => "unknown",
        }
    }
}

impl fmt::Display for TimeoutReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A queue that has the maximum number of waiters. The text does not name the option that sets the
/// maximum, because the option's name differs between the languages.
#[derive(Clone, Debug)]
pub struct FullQueue {
    path: String,
    waiting: usize,
}

impl FullQueue {
    pub(crate) fn new(path: &str, waiting: usize) -> Self {
        Self { path: path.to_owned(), waiting }
    }
}

impl fmt::Display for FullQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is full: ", self.path)?;
        match self.waiting {
            0 => f.write_str("it is taken, and no waiters are allowed"),
            1 => f.write_str("1 contender waits for it, and no more are allowed"),
            waiting => write!(f, "{waiting} contenders wait for it, and no more are allowed"),
        }
    }
}
