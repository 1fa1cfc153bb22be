//! How a scope ends that held a lock: with what its body raised, or with the loss of the lock.

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
    /// An ordinary error, or a cancellation that the loss itself caused.
    Error,
    /// A loss: the body has noticed it.
    Loss,
    /// Something that ends a thread, a task or a generator, and must not be replaced.
    Exit,
}

/// The loss that the end of a scope raises, caused by what the body raised. If it is none, the scope ends as its
/// body did.
#[must_use]
pub fn loss_to_raise(loss: Option<Error>, raised: BodyOutcome) -> Option<Error> {
    loss.filter(|_| matches!(raised, BodyOutcome::Nothing | BodyOutcome::Error))
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

    #[test]
    fn a_loss_is_raised_but_not_twice_and_not_instead_of_an_exit() {
        let raises = |raised| loss_to_raise(Some(Error::new(ErrorKind::LockLost, "lost")), raised).is_some();
        let all = [BodyOutcome::Nothing, BodyOutcome::Error, BodyOutcome::Loss, BodyOutcome::Exit];
        assert_eq!(all.map(raises), [true, true, false, false]);
    }

    #[test]
    fn without_a_loss_the_scope_ends_as_its_body() {
        for raised in [BodyOutcome::Nothing, BodyOutcome::Error, BodyOutcome::Loss, BodyOutcome::Exit] {
            assert!(loss_to_raise(None, raised).is_none());
        }
    }
}
