//! Why an attempt to acquire a lock ran out of time, or was refused.

use std::fmt;

/// Why a lock was not acquired in time, to act upon: a service answers "conflict" to the first, and "unavailable" to the
/// others.
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
    /// An answer of a server during this attempt showed another contender in the way, or this client itself holds the
    /// lock.
    Taken,
    /// No server answered anything since the attempt began.
    Unreachable,
    /// As many contenders waited as the lock's [`max_waiters`](crate::LockOptions::max_waiters) permits, so that the
    /// attempt was refused at once.
    Full,
    /// A server answered, but no answer showed a contender in the way: the connection was lost in between, or the time
    /// was too short.
    Unknown,
}

impl TimeoutReason {
    /// The reason in a word, the same in all languages.
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

/// A queue in which as many wait as the options of a lock permit. Shown without the name of the option, and without advice:
/// both differ from caller to caller.
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
            0 => f.write_str("it is taken, and nobody may wait for it"),
            1 => f.write_str("1 contender waits for it, and no more may"),
            waiting => write!(f, "{waiting} contenders wait for it, and no more may"),
        }
    }
}
