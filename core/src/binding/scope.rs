//! How a scope ends that held a lock: with what its body raised, or with the loss of the lock.

use crate::error::Error;

/// What the body of a scope raised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Raised {
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
pub fn loss_to_raise(loss: Option<Error>, raised: Raised) -> Option<Error> {
    loss.filter(|_| matches!(raised, Raised::Nothing | Raised::Error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn a_loss_is_raised_but_not_twice_and_not_instead_of_an_exit() {
        let raises = |raised| loss_to_raise(Some(Error::new(ErrorKind::LockLost, "lost")), raised).is_some();
        let all = [Raised::Nothing, Raised::Error, Raised::Loss, Raised::Exit];
        assert_eq!(all.map(raises), [true, true, false, false]);
    }

    #[test]
    fn without_a_loss_the_scope_ends_as_its_body() {
        for raised in [Raised::Nothing, Raised::Error, Raised::Loss, Raised::Exit] {
            assert!(loss_to_raise(None, raised).is_none());
        }
    }
}
