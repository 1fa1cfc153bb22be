//! How long an attempt to acquire may take, and what is left of that after some of its steps.

use std::future::Future;
use std::time::Duration;

use tokio::time::Instant;

use crate::error::timeout_reason::TimeoutReason;
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
/// use zklock::{Mutex, Owner, Timeout};
///
/// let lock = Mutex::new(client, "/locks/report")?;
/// let lease = lock.acquire_as(&Owner::new(), Timeout::For(Duration::from_secs(5))).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timeout {
    /// As long as it takes. Connection loss only lengthens the wait.
    Forever,
    /// At most this long, from now on.
    For(Duration),
    /// Not at all: an acquire does not queue for a lock that is taken. If no server answers within the client's connect
    /// time-out, that is a [`ConnectionFailed`](ErrorKind::ConnectionFailed).
    Try,
    /// The same, but a server has to answer within this time.
    TryWithin(Duration),
}

/// At most this long, from now on.
impl From<Duration> for Timeout {
    fn from(time: Duration) -> Self {
        Self::For(time)
    }
}

/// Until this moment; not at all beyond a last look if it has passed. To be made when the attempt begins.
impl From<std::time::Instant> for Timeout {
    fn from(moment: std::time::Instant) -> Self {
        Self::For(moment.saturating_duration_since(std::time::Instant::now()))
    }
}

impl Timeout {
    pub(crate) fn intent(self) -> Intent {
        match self {
            Self::Forever | Self::For(_) => Intent::Wait,
            Self::Try | Self::TryWithin(_) => Intent::Try,
        }
    }

    /// Whether nothing is waited for but answers.
    pub(crate) fn is_try(self) -> bool {
        matches!(self, Self::Try | Self::TryWithin(_))
    }

    /// The same, where a try that has no bound of its own has this one.
    pub(crate) fn bounded(self, connect_timeout: Duration) -> Self {
        if self == Self::Try { Self::TryWithin(connect_timeout) } else { self }
    }

    /// For how long a try may wait for an answer, if that is not left to its client.
    pub(crate) fn answer_within(self) -> Option<Duration> {
        match self {
            Self::TryWithin(time) => Some(time),
            _ => None,
        }
    }
}

/// Timeout that wears out: one deadline for several steps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline {
    timeout: Timeout,
    end: Option<Instant>,
}

impl Deadline {
    pub(crate) fn after(timeout: Timeout) -> Self {
        let end = match timeout {
            Timeout::For(time) | Timeout::TryWithin(time) => Instant::now().checked_add(time),
            Timeout::Forever | Timeout::Try => None,
        };
        Self { timeout, end }
    }

    /// Whether nothing is waited for.
    pub(crate) fn is_try(self) -> bool {
        self.timeout.is_try()
    }

    /// When the time is up; `None` if it never is.
    pub(crate) fn end(self) -> Option<Instant> {
        self.end
    }

    /// Whether the time is up.
    pub(crate) fn is_over(self) -> bool {
        self.end.is_some_and(|end| end <= Instant::now())
    }

    /// Waits until the time is up; for ever if it never is.
    pub(crate) async fn passed(self) -> Result<()> {
        match self.left() {
            Timeout::For(left) => runtime::sleep(left).await,
            Timeout::Forever | Timeout::Try | Timeout::TryWithin(_) => std::future::pending().await,
        }
    }

    /// What is left for the next step.
    pub(crate) fn left(self) -> Timeout {
        let Some(end) = self.end else { return self.timeout };
        let left = end.saturating_duration_since(Instant::now());
        if self.is_try() { Timeout::TryWithin(left) } else { Timeout::For(left) }
    }

    /// Asks the servers something on the way to the lock at `path`. Connection loss only lengthens the wait, once a
    /// server was `reached`; until then, and for a try, a question that is not answered within the connect time-out
    /// fails, as an attempt does that needs no question.
    pub(crate) async fn ask_until_answered<T, F>(
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
        let (Timeout::For(left) | Timeout::TryWithin(left)) = self.left() else { return answer.await };
        tokio::select! {
            biased;
            answer = answer => answer,
            slept = runtime::sleep(left) => {
                slept?;
                let message = format!(
                    "the server did not answer in time while acquiring {path:?}; check that it runs, and try again"
                );
                // The caller knows since when the attempt goes on, and corrects it (`Client::explain`).
                Err(Error::timed_out(TimeoutReason::Unreachable, message))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_wears_out() {
        let Timeout::For(left) = Deadline::after(Timeout::For(Duration::from_secs(60))).left() else {
            panic!("a limited wait stays limited")
        };
        assert!(left <= Duration::from_secs(60) && left > Duration::from_secs(30));
        let deadline = Deadline::after(Timeout::For(Duration::from_secs(60)));
        std::thread::sleep(Duration::from_millis(1));
        let Timeout::For(rest) = deadline.left() else { panic!("a limited wait stays limited") };
        assert!(rest < Duration::from_secs(60), "the next step has less time");
        assert_eq!(Deadline::after(Timeout::For(Duration::ZERO)).left(), Timeout::For(Duration::ZERO));
        assert_eq!(Deadline::after(Timeout::Forever).left(), Timeout::Forever);
        assert_eq!(Deadline::after(Timeout::Try).left(), Timeout::Try);
        let Timeout::TryWithin(left) = Deadline::after(Timeout::Try.bounded(Duration::from_secs(60))).left()
        else {
            panic!("a try stays a try")
        };
        assert!(left <= Duration::from_secs(60) && left > Duration::from_secs(30));
        assert_eq!(Timeout::Forever.bounded(Duration::ZERO), Timeout::Forever);
    }

    #[tokio::test]
    async fn a_question_ends_with_the_time_of_its_attempt() {
        for timeout in [Timeout::For(Duration::from_millis(1)), Timeout::TryWithin(Duration::from_millis(1))]
        {
            let ask = std::future::pending::<Result<()>>;
            let error = Deadline::after(timeout)
                .ask_until_answered("/lock", || true, ask)
                .await
                .expect_err("no answer");
            assert_eq!(error.timeout_reason(), Some(TimeoutReason::Unreachable));
        }
    }
}
