//! Timeouts of acquires, and deadlines that several steps of one acquire share.

use std::future::Future;
use std::time::Duration;

use tokio::time::Instant;

use crate::error::timeout_reason::TimeoutReason;
use crate::error::{Error, ErrorKind, Result};
use crate::queue::Intent;
use crate::runtime;

/// Pause before a request without a reply is repeated.
const ASK_AGAIN: Duration = Duration::from_millis(100);

/// The time limit of an acquire, for everything it does: connecting, creating the node, and
/// waiting.
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
    /// No limit. If the connection is lost, the acquire continues to wait.
    Forever,
    /// At most this long, counted from the call.
    For(Duration),
    /// Do not wait for the lock: if it is taken, the acquire fails immediately.
    ///
    /// If no server replies within the client's connect timeout, the acquire fails with
    /// [`ConnectionFailed`](ErrorKind::ConnectionFailed).
    Try,
    /// The same as [`Try`](Self::Try), but a server must reply within this time.
    TryWithin(Duration),
}

/// Waits at most this long, counted from the call.
impl From<Duration> for Timeout {
    fn from(time: Duration) -> Self {
        Self::For(time)
    }
}

/// Converts a deadline to the time that is left until the deadline. If the deadline has passed, the
/// acquire checks the lock once and does not wait.
///
/// The remaining time is computed by this conversion, so convert immediately before the acquire.
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

    pub(crate) fn is_try(self) -> bool {
        matches!(self, Self::Try | Self::TryWithin(_))
    }

    pub(crate) fn bounded(self, connect_timeout: Duration) -> Self {
        if self == Self::Try { Self::TryWithin(connect_timeout) } else { self }
    }

    /// Returns the time limit for the server's reply to an acquire that does not wait for the lock.
    /// Returns `None` if the client's default applies.
    pub(crate) fn answer_within(self) -> Option<Duration> {
        match self {
            Self::TryWithin(time) => Some(time),
            _ => None,
        }
    }
}

/// One deadline for several steps. Each step can use the time that the earlier steps did not use.
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

    /// Returns `true` if the acquire does not queue.
    pub(crate) fn is_try(self) -> bool {
        self.timeout.is_try()
    }

    pub(crate) fn end(self) -> Option<Instant> {
        self.end
    }

    /// Returns `true` if the deadline has passed.
    pub(crate) fn is_over(self) -> bool {
        self.end.is_some_and(|end| end <= Instant::now())
    }

    /// Waits until the deadline has passed. Never returns if there is no deadline, or if the
    /// acquire does not wait for the lock.
    pub(crate) async fn passed(self) -> Result<()> {
        match self.left() {
            Timeout::For(left) => runtime::sleep(left).await,
            Timeout::Forever | Timeout::Try | Timeout::TryWithin(_) => std::future::pending().await,
        }
    }

    /// Returns the time that is left for the next step.
    pub(crate) fn left(self) -> Timeout {
        let Some(end) = self.end else { return self.timeout };
        let left = end.saturating_duration_since(Instant::now());
        if self.is_try() { Timeout::TryWithin(left) } else { Timeout::For(left) }
    }

    /// Repeats the request `ask` until a server replies, as one step of an acquire of `path`.
    ///
    /// `reached` returns `true` once the client has reached a server. After that, an acquire that
    /// waits for the lock also waits while the connection is lost. In all other cases, the step
    /// fails when no reply arrives within the connect timeout.
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
                // `Client::explain` corrects this error if an earlier step of the acquire received
                // a reply.
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
