//! Fork detection for the whole library. A forked child must not use anything that it inherited. It
//! has none of its parent's threads, so a mutex that one of them had locked stays locked forever.
//! The sockets belong to the parent.
//!
//! A handle remembers the process that created it ([`ForkGuard`]) and refuses to work in any other.
//! Data that belongs to one process is stored in a [`PerProcess`], so a child starts with a new
//! value.
//!
//! Windows has no fork: a handle is always in its own process there.

use std::fmt;
use std::sync::atomic::Ordering;

use crate::error::{Error, Result};
use crate::runtime::sync::AtomicPtr;
use crate::system::forks;

/// Identifies the process in which a value was created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForkGuard(u64);

impl ForkGuard {
    /// Returns the guard of this process.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "two defaults could be two different values")]
    pub fn new() -> Self {
        Self(forks())
    }

    /// Returns `true` in the process that created this guard, and `false` in its forked children.
    #[must_use]
    pub fn is_here(self) -> bool {
        self.0 == forks()
    }

    /// Returns an error in any process except the one that created this guard.
    ///
    /// # Errors
    /// [`Forked`](crate::ErrorKind::Forked).
    pub fn check(self) -> Result<()> {
        if self.is_here() { Ok(()) } else { Err(Error::forked()) }
    }
}

/// A value that each process creates for itself on first use. It is dropped together with the
/// `PerProcess`. In a static, it is therefore kept until the process exits.
///
/// A forked child leaks its parent's value, because dropping it would use the parent's locks and
/// sockets.
pub struct PerProcess<T>(AtomicPtr<(ForkGuard, T)>);

impl<T: Send + Sync> PerProcess<T> {
    /// Creates an empty container.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "for statics, which need a constant function")]
    pub const fn new() -> Self {
        Self(AtomicPtr::new(std::ptr::null_mut()))
    }

    /// Returns this process's value if it was created.
    pub fn get(&self) -> Option<&T> {
        made_here(self.0.load(Ordering::Acquire))
    }

    /// Returns this process's value. Creates it on first use. If several threads create it at the
    /// same time, one value is kept and the others are dropped.
    ///
    /// # Errors
    /// The errors of `make`.
    pub fn get_or_try_init<E>(&self, make: impl FnOnce() -> Result<T, E>) -> Result<&T, E> {
        match self.get() {
            Some(value) => Ok(value),
            None => self.try_init(make),
        }
    }

    #[cold]
    fn try_init<E>(&self, make: impl FnOnce() -> Result<T, E>) -> Result<&T, E> {
        let before = self.0.load(Ordering::Acquire);
        if let Some(value) = made_here(before) {
            return Ok(value);
        }
        let ours = Box::into_raw(Box::new((ForkGuard::new(), make()?)));
        let published = match self.0.compare_exchange(before, ours, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => ours,
            Err(theirs) => {
                // SAFETY: `ours` was never published.
                drop(unsafe { Box::from_raw(ours) });
                theirs
            }
        };
        // SAFETY: the value is published and is freed only when `self` is dropped, and the
        // reference cannot outlive `self`. If another thread published its value first, it is a
        // thread of this process.
        Ok(unsafe { &(*published).1 })
    }

    /// Returns this process's value, like [`get_or_try_init`](Self::get_or_try_init), but with a
    /// `make` that cannot fail.
    pub fn get_or_init(&self, make: impl FnOnce() -> T) -> &T {
        let value: Result<_, std::convert::Infallible> = self.get_or_try_init(|| Ok(make()));
        match value {
            Ok(value) => value,
            Err(never) => match never {},
        }
    }
}

impl<T> Drop for PerProcess<T> {
    fn drop(&mut self) {
        let made = *self.0.get_mut();
        if made_here(made).is_some() {
            // SAFETY: `get_or_try_init` published this pointer, so it is from a `Box`. No other
            // code can use it any more.
            drop(unsafe { Box::from_raw(made) });
        }
    }
}

/// Returns the published value if this process published it. The value is valid until the
/// `PerProcess` is dropped.
fn made_here<'a, T>(made: *const (ForkGuard, T)) -> Option<&'a T> {
    // SAFETY: the pointer is null, or `PerProcess::get_or_try_init` published it. Only `drop` frees
    // published values.
    let made = unsafe { made.as_ref() };
    made.filter(|(origin, _)| origin.is_here()).map(|(_, value)| value)
}

impl<T> fmt::Debug for PerProcess<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PerProcess").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_made_once() {
        static VALUE: PerProcess<u32> = PerProcess::new();
        assert_eq!(VALUE.get(), None);
        assert_eq!(VALUE.get_or_try_init(|| Err("no")), Err("no"));
        assert_eq!((VALUE.get_or_init(|| 1), VALUE.get_or_init(|| 2), VALUE.get()), (&1, &1, Some(&1)));
    }

    #[test]
    fn what_this_process_made_goes_with_it() {
        let value = std::sync::Arc::new(());
        let owner = PerProcess::new();
        owner.get_or_init(|| std::sync::Arc::clone(&value));
        assert_eq!(std::sync::Arc::strong_count(&value), 2);
        drop(owner);
        assert_eq!(std::sync::Arc::strong_count(&value), 1);
        drop(PerProcess::<u32>::new());
    }

    #[test]
    fn all_threads_get_the_same_value() {
        static VALUE: PerProcess<usize> = PerProcess::new();
        let threads: Vec<_> = (0..8).map(|n| std::thread::spawn(move || VALUE.get_or_init(|| n))).collect();
        let first = VALUE.get_or_init(|| 9);
        assert!(threads.into_iter().all(|thread| std::ptr::eq(thread.join().unwrap(), first)));
    }
}
