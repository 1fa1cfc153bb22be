//! How long an attempt to acquire may take, and what is left of that after some of its steps.

use std::future::Future;
use std::time::{Duration, Instant};

use crate::error::{Error, ErrorKind, Result};
use crate::options::LONGEST;
use crate::queue::Intent;
use crate::runtime;

/// How long to wait before a question that no server answered is asked again.
const ASK_AGAIN: Duration = Duration::from_millis(100);

/// How long an attempt to acquire may take, everything included: connecting, creating, waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// As long as it takes. Connection loss only lengthens the wait.
    Forever,
    /// At most this long, from now on.
    For(Duration),
    /// Not at all: an acquire does not queue for a lock that is taken.
    Try,
}

impl Patience {
    pub(crate) fn intent(self) -> Intent {
        match self {
            Self::Forever | Self::For(_) => Intent::Wait,
            Self::Try => Intent::Try,
        }
    }

    /// From a time-out in `unit`s as the bindings take it: zero tries, infinity waits for ever.
    ///
    /// # Errors
    /// [`BadArgument`](crate::ErrorKind::BadArgument) for a negative number or NaN.
    pub fn from_timeout(timeout: f64, unit: Duration) -> Result<Self> {
        let patience = duration("timeout", timeout, unit)?;
        Ok(match patience {
            Duration::ZERO => Self::Try,
            LONGEST => Self::Forever,
            patience => Self::For(patience),
        })
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

    /// What is left for the next step.
    pub(crate) fn left(self) -> Patience {
        self.end.map_or(self.patience, |end| Patience::For(end.saturating_duration_since(Instant::now())))
    }

    /// Asks the servers something on the way to the lock at `path`. Connection loss only lengthens the wait, unless
    /// the attempt is a try.
    pub(crate) async fn insist<T, F>(self, path: &str, ask: impl Fn() -> F) -> Result<T>
    where
        F: Future<Output = Result<T>>,
    {
        let answer = async {
            loop {
                match ask().await {
                    Err(error)
                        if error.kind() == ErrorKind::ConnectionFailed && self.patience != Patience::Try =>
                    {
                        runtime::sleep(ASK_AGAIN).await?;
                    }
                    answer => return answer,
                }
            }
        };
        let Patience::For(left) = self.left() else { return answer.await };
        tokio::select! {
            answer = answer => answer,
            slept = runtime::sleep(left) => {
                slept?;
                let message = format!("the server did not answer in time while acquiring {path}");
                Err(Error::new(ErrorKind::LockTimeout, message))
            }
        }
    }
}

/// A duration of `value` `unit`s, as the bindings take it; infinity becomes a very long one.
///
/// # Errors
/// [`BadArgument`](crate::ErrorKind::BadArgument), naming `argument`, for a negative number or NaN.
pub fn duration(argument: &str, value: f64, unit: Duration) -> Result<Duration> {
    if value.is_nan() || value < 0.0 {
        return Err(Error::bad_argument(
            argument,
            format_args!("must not be negative or NaN, but is {value}"),
        ));
    }
    let seconds = value * unit.as_secs_f64();
    // A time-out that is too small to count is still not zero, which would mean something else.
    let smallest = if value > 0.0 { Duration::from_nanos(1) } else { Duration::ZERO };
    Ok(Duration::try_from_secs_f64(seconds).map_or(LONGEST, |time| time.clamp(smallest, LONGEST)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_outs_have_three_meanings() {
        let second = Duration::from_secs(1);
        assert_eq!(Patience::from_timeout(0.0, second).unwrap(), Patience::Try);
        assert_eq!(Patience::from_timeout(-0.0, second).unwrap(), Patience::Try);
        assert_eq!(Patience::from_timeout(f64::INFINITY, second).unwrap(), Patience::Forever);
        assert_eq!(Patience::from_timeout(1.5, second).unwrap(), Patience::For(Duration::from_millis(1500)));
        assert_eq!(Patience::from_timeout(1e-300, second).unwrap(), Patience::For(Duration::from_nanos(1)));
        for bad in [-1.0, -1e-9, f64::NAN, f64::NEG_INFINITY] {
            assert_eq!(Patience::from_timeout(bad, second).unwrap_err().code(), "BAD_ARGUMENT");
        }
    }

    #[test]
    fn a_deadline_wears_out() {
        let Patience::For(left) = Deadline::after(Patience::For(Duration::from_secs(60))).left() else {
            panic!("a limited wait stays limited")
        };
        assert!(left <= Duration::from_secs(60) && left > Duration::from_secs(30));
        assert_eq!(Deadline::after(Patience::For(Duration::ZERO)).left(), Patience::For(Duration::ZERO));
        assert_eq!(Deadline::after(Patience::Forever).left(), Patience::Forever);
        assert_eq!(Deadline::after(Patience::Try).left(), Patience::Try);
    }
}
