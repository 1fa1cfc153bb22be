//! How long an attempt to acquire may take, and what is left of that after some of its steps.

use std::future::Future;
use std::time::Duration;

use tokio::time::Instant;

use crate::error::{Error, ErrorKind, Result};
use crate::queue::Intent;
use crate::runtime;

/// How long to wait before a question that no server answered is asked again.
const ASK_AGAIN: Duration = Duration::from_millis(100);

/// How long an attempt to acquire may take, everything included: connecting, creating, waiting.
///
/// ```no_run
/// # async fn example(client: &zklock::Client) -> zklock::Result<()> {
/// use std::time::Duration;
/// use zklock::{Mutex, Owner, Patience};
///
/// let lock = Mutex::new(client, "/locks/report")?;
/// let lease = lock.acquire_as(Owner::new(), Patience::For(Duration::from_secs(5))).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// As long as it takes. Connection loss only lengthens the wait.
    Forever,
    /// At most this long, from now on.
    For(Duration),
    /// Not at all: an acquire does not queue for a lock that is taken.
    Try,
}

/// At most this long, from now on.
impl From<Duration> for Patience {
    fn from(time: Duration) -> Self {
        Self::For(time)
    }
}

/// Until this moment; not at all beyond a last look if it has passed. To be made when the attempt begins.
impl From<std::time::Instant> for Patience {
    fn from(moment: std::time::Instant) -> Self {
        Self::For(moment.saturating_duration_since(std::time::Instant::now()))
    }
}

impl Patience {
    pub(crate) fn intent(self) -> Intent {
        match self {
            Self::Forever | Self::For(_) => Intent::Wait,
            Self::Try => Intent::Try,
        }
    }
}

/// Patience that wears out: one deadline for several steps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline {
    patience: Patience,
    end: Option<Instant>,
}

impl Deadline {
    pub(crate) fn after(patience: Patience) -> Self {
        let end = match patience {
            Patience::For(time) => Instant::now().checked_add(time),
            Patience::Forever | Patience::Try => None,
        };
        Self { patience, end }
    }

    /// Whether nothing is waited for.
    pub(crate) fn is_try(self) -> bool {
        self.patience == Patience::Try
    }

    /// When the time is up; `None` if it never is.
    pub(crate) fn end(self) -> Option<Instant> {
        self.end
    }

    /// Waits until the time is up; for ever if it never is.
    pub(crate) async fn passed(self) -> Result<()> {
        match self.left() {
            Patience::For(left) => runtime::sleep(left).await,
            Patience::Forever | Patience::Try => std::future::pending().await,
        }
    }

    /// What is left for the next step.
    pub(crate) fn left(self) -> Patience {
        self.end.map_or(self.patience, |end| Patience::For(end.saturating_duration_since(Instant::now())))
    }

    /// Asks the servers something on the way to the lock at `path`. Connection loss only lengthens the wait, once a
    /// server was `reached`; until then, and for a try, a question that is not answered within the connect time-out
    /// fails, as an attempt does that needs no question.
    pub(crate) async fn insist<T, F>(
        self,
        path: &str,
        reached: impl Fn() -> bool,
        ask: impl Fn() -> F,
    ) -> Result<T>
    where
        F: Future<Output = Result<T>>,
    {
        let answer = async {
            loop {
                match ask().await {
                    Err(error)
                        if error.kind() == ErrorKind::ConnectionFailed && !self.is_try() && reached() =>
                    {
                        runtime::sleep(ASK_AGAIN).await?;
                    }
                    answer => return answer,
                }
            }
        };
        let Patience::For(left) = self.left() else { return answer.await };
        tokio::select! {
            biased;
            answer = answer => answer,
            slept = runtime::sleep(left) => {
                slept?;
                let message = format!("the server did not answer in time while acquiring {path:?}");
                Err(Error::new(ErrorKind::LockTimeout, message))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_wears_out() {
        let Patience::For(left) = Deadline::after(Patience::For(Duration::from_secs(60))).left() else {
            panic!("a limited wait stays limited")
        };
        assert!(left <= Duration::from_secs(60) && left > Duration::from_secs(30));
        let deadline = Deadline::after(Patience::For(Duration::from_secs(60)));
        std::thread::sleep(Duration::from_millis(1));
        let Patience::For(rest) = deadline.left() else { panic!("a limited wait stays limited") };
        assert!(rest < Duration::from_secs(60), "the next step has less time");
        assert_eq!(Deadline::after(Patience::For(Duration::ZERO)).left(), Patience::For(Duration::ZERO));
        assert_eq!(Deadline::after(Patience::Forever).left(), Patience::Forever);
        assert_eq!(Deadline::after(Patience::Try).left(), Patience::Try);
    }
}
