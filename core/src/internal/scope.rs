//! How a scope ends that held a lock: with the error of its body, or with the loss of the lock.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use super::acquired::{Acquired, Released};
use crate::config::timeout::Timeout;
use crate::error::Error;

/// What the body of a scope raised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyOutcome {
    /// Nothing.
    Nothing,
    /// The cancellation with which the loss ended the body: an error that the loss caused.
    Cancelled,
    /// A loss: the body has noticed it.
    Loss,
    /// Anything else.
    Error,
}

/// The error that a scope ends with.
#[derive(Debug)]
pub enum ScopeError {
    /// That of the body, if it raised one.
    OfBody,
    /// The loss of the lock, caused by the body's cancellation if there was one.
    Loss(Error),
    /// That of the body, to which the loss is attached.
    OfBodyWithLoss(Error),
}

/// Decides which error a scope ends with. The loss replaces nothing but a cancellation that it caused: the body's own
/// error tells what failed, and callers handle it by its type.
#[must_use]
pub fn scope_error(loss: Option<Error>, raised: BodyOutcome) -> ScopeError {
    match (loss, raised) {
        (None, _) | (_, BodyOutcome::Loss) => ScopeError::OfBody,
        (Some(loss), BodyOutcome::Nothing | BodyOutcome::Cancelled) => ScopeError::Loss(loss),
        (Some(loss), BodyOutcome::Error) => ScopeError::OfBodyWithLoss(loss),
    }
}

/// What is left to do at the end of a scope.
#[derive(Debug)]
pub enum ScopeExit {
    /// All: it was lost or released before, and is as it was.
    All,
    /// Nothing: it is released, and there is nothing to tell of.
    Nothing,
    /// To wait for this, and then to look for a loss.
    ToWait(Released),
}

/// Releases at the end of a scope what is held.
pub fn leave(acquired: &dyn Acquired) -> ScopeExit {
    // Reads the clock: after the release nobody could tell any more that the term had ended.
    if !acquired.is_held() {
        return ScopeExit::All;
    }
    let mut released = acquired.release(Timeout::Forever);
    match Pin::new(&mut released).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(_) if acquired.loss().is_none() => ScopeExit::Nothing,
        // It was lost just before it was released.
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

    /// It is held until it is released; then it turns out to be lost just before, or not.
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
