//! The end of a scope that held a lock. The scope ends with the error of its body, or with the loss
//! of the lock.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use super::acquired::{Acquired, Released};
use crate::config::timeout::Timeout;
use crate::error::Error;

/// The outcome of a scope's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyOutcome {
    /// The body raised no error.
    Nothing,
    /// The body was cancelled because of the loss.
    Cancelled,
    /// The body noticed a loss and raised it.
    Loss,
    /// The body raised any other error.
    Error,
}

/// The error with which a scope ends.
#[derive(Debug)]
pub enum ScopeError {
    /// The error of the body, if any.
    OfBody,
    /// The loss of the lock. If the body was cancelled, the cancellation is attached as the cause.
    Loss(Error),
    /// The error of the body, with the loss attached.
    OfBodyWithLoss(Error),
}

/// Selects the error with which a scope ends. When a lock is lost, the body is cancelled. The loss
/// replaces this cancellation as the error. Any other error of the body is kept, because it says
/// what failed, and because callers handle it by its type.
#[must_use]
pub fn scope_error(loss: Option<Error>, raised: BodyOutcome) -> ScopeError {
    match (loss, raised) {
        (None, _) | (_, BodyOutcome::Loss) => ScopeError::OfBody,
        (Some(loss), BodyOutcome::Nothing | BodyOutcome::Cancelled) => ScopeError::Loss(loss),
        (Some(loss), BodyOutcome::Error) => ScopeError::OfBodyWithLoss(loss),
    }
}

/// The remaining work at the end of a scope.
#[derive(Debug)]
pub enum ScopeExit {
    /// The caller must check for a loss and release the leases, because the lock was lost or
    /// released before the scope ended.
    All,
    /// Nothing: the lock was not lost, and it is now released.
    Nothing,
    /// Wait for the release, and then check for a loss.
    ToWait(Released),
}

/// Releases held leases at the end of a scope.
pub fn leave(acquired: &dyn Acquired) -> ScopeExit {
    // Check before the release: after it, a check can no longer notice that the term has ended.
    if !acquired.is_held() {
        return ScopeExit::All;
    }
    let mut released = acquired.release(Timeout::Forever);
    match Pin::new(&mut released).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(_) if acquired.loss().is_none() => ScopeExit::Nothing,
        // The lock was lost just before it was released.
        Poll::Ready(end) => ScopeExit::ToWait(Released::over(end)),
        Poll::Pending => ScopeExit::ToWait(released),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::error::loss_reason::LossReason;
    use crate::error::{ErrorKind, Result};

    /// A fake lease that is held until its release. If `lost` is `true`, the release reports an
    /// earlier loss.
    struct Held {
        released: AtomicBool,
        lost: bool,
    }

    impl Acquired for Held {
        fn check(&self) -> Result<()> {
            if self.released.load(Ordering::Relaxed) { Err(Error::released()) } else { Ok(()) }
        }

        fn is_open(&self) -> bool {
            self.is_held()
        }

        fn loss(&self) -> Option<Error> {
            let lost = self.lost && !self.is_held();
            lost.then(|| Error::lost(LossReason::NodeDeleted, String::new()))
        }

        fn release(&self, _: Timeout) -> Released {
            self.released.store(true, Ordering::Relaxed);
            Released::over(Ok(()))
        }
    }

    #[test]
    fn a_loss_between_the_last_look_and_the_release_is_looked_for() {
        let held = |lost| Held { released: AtomicBool::new(false), lost };
        assert!(matches!(leave(&held(true)), ScopeExit::ToWait(_)));
        let unharmed = held(false);
        assert!(matches!(leave(&unharmed), ScopeExit::Nothing));
        assert!(matches!(leave(&unharmed), ScopeExit::All), "a second time");
    }

    const OUTCOMES: [BodyOutcome; 4] =
        [BodyOutcome::Nothing, BodyOutcome::Cancelled, BodyOutcome::Loss, BodyOutcome::Error];

    #[test]
    fn a_loss_replaces_only_the_cancellation_that_it_caused() {
        let ends = |raised| match scope_error(Some(Error::new(ErrorKind::LockLost, "lost")), raised) {
            ScopeError::OfBody => "body",
            ScopeError::Loss(loss) if loss.kind() == ErrorKind::LockLost => "loss",
            ScopeError::OfBodyWithLoss(loss) if loss.kind() == ErrorKind::LockLost => "body with loss",
            other => panic!("{other:?}"),
        };
        assert_eq!(OUTCOMES.map(ends), ["loss", "loss", "body", "body with loss"]);
    }

    #[test]
    fn without_a_loss_the_scope_ends_as_its_body() {
        for raised in OUTCOMES {
            assert!(matches!(scope_error(None, raised), ScopeError::OfBody));
        }
    }
}
