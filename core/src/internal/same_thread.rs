//! Continues operations on the thread that wakes them. For example, a task of an event loop
//! releases a lock, and a waiting task of the same loop continues without a second thread or a
//! wake-up of the loop.
//!
//! A waker can be called at any point, even while a mutex is locked. This is safe, because the
//! waker only records the operation. The operation continues when the work is complete and has
//! unlocked all mutexes. If several threads wake an operation at the same time, only one of them
//! continues it.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::thread;

use crate::runtime::sync::thread_local;

/// An operation that can be woken.
pub trait Woken: Send + Sync {
    /// Continues the operation on the thread that woke it.
    fn go_on(self: Arc<Self>);
}

thread_local! {
    /// The operations that this thread has woken inside [`carry_on_woken`]. `None` outside of that
    /// function.
    static WOKEN: RefCell<Option<Vec<Arc<dyn Woken>>>> = RefCell::new(None);
}

/// Runs `work`. Then continues the operations that `work` has woken, in the same order and on this
/// thread.
pub fn carry_on_woken<T>(work: impl FnOnce() -> T) -> T {
    let around = WOKEN.with(|woken| woken.borrow_mut().replace(Vec::new()));
    // The drop continues the operations even if `work` panics.
    let _carries_on = CarriesOn(around);
    work()
}

/// Records an operation whose waker was called, so that this thread continues it. Returns `false`
/// if this thread is not in [`carry_on_woken`].
pub fn note(operation: impl FnOnce() -> Arc<dyn Woken>) -> bool {
    // A waker can be called while the thread exits, after `WOKEN` was destroyed.
    WOKEN
        .try_with(|woken| woken.borrow_mut().as_mut().map(|woken| woken.push(operation())).is_some())
        .unwrap_or_default()
}

/// When dropped, continues the recorded operations. Then restores the list of an outer call of
/// [`carry_on_woken`], which the field contains.
struct CarriesOn(Option<Vec<Arc<dyn Woken>>>);

impl Drop for CarriesOn {
    fn drop(&mut self) {
        let mut panicked = None;
        loop {
            // An operation can wake another one.
            let woken = WOKEN.with(|woken| woken.borrow_mut().as_mut().map(std::mem::take));
            let woken = woken.unwrap_or_default();
            if woken.is_empty() {
                break;
            }
            for operation in woken {
                // Continue the other operations after a panic, because no other thread would do so.
                let outcome = catch_unwind(AssertUnwindSafe(|| operation.go_on()));
                panicked = panicked.or(outcome.err());
            }
        }
        WOKEN.with(|woken| *woken.borrow_mut() = self.0.take());
        // A second panic would abort the process.
        if let Some(panic) = panicked.filter(|_| !thread::panicking()) {
            resume_unwind(panic);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    type Said = Arc<Mutex<Vec<&'static str>>>;

    struct Says(&'static str, Said, Option<Arc<Says>>);

    impl Woken for Says {
        fn go_on(self: Arc<Self>) {
            self.1.lock().unwrap().push(self.0);
            if let Some(next) = &self.2 {
                assert!(note(|| Arc::clone(next) as _));
            }
        }
    }

    fn says(name: &'static str, said: &Said, next: Option<Arc<Says>>) -> Arc<Says> {
        Arc::new(Says(name, Arc::clone(said), next))
    }

    #[test]
    fn operations_go_on_after_the_work_that_woke_them() {
        let said = Said::default();
        let (last, other) = (says("last", &said, None), says("other", &said, None));
        let first = says("first", &said, Some(last));
        let value = carry_on_woken(|| {
            assert!(note(|| first) && note(|| other));
            said.lock().unwrap().push("work");
            7
        });
        assert_eq!((value, &*said.lock().unwrap()), (7, &vec!["work", "first", "other", "last"]));
    }

    #[test]
    fn a_thread_that_carries_nothing_on_leaves_it_to_others() {
        let said = Said::default();
        assert!(!note(|| says("nobody", &said, None)));
        carry_on_woken(|| ());
        assert!(!note(|| says("nobody", &said, None)));
        assert!(said.lock().unwrap().is_empty());
    }

    #[test]
    fn work_within_work_carries_on_what_it_woke_itself() {
        let said = Said::default();
        let (outer, inner) = (says("outer", &said, None), says("inner", &said, None));
        carry_on_woken(|| {
            assert!(note(|| outer));
            carry_on_woken(|| assert!(note(|| inner)));
            said.lock().unwrap().push("work");
        });
        assert_eq!(*said.lock().unwrap(), ["inner", "work", "outer"]);
    }

    /// Panics when it continues.
    struct Panics;

    impl Woken for Panics {
        fn go_on(self: Arc<Self>) {
            panic!("an operation");
        }
    }

    #[test]
    fn operations_go_on_although_others_panic() {
        for work_panics in [false, true] {
            let said = Said::default();
            let (before, after) = (says("before", &said, None), says("after", &said, None));
            let work = std::panic::AssertUnwindSafe(|| {
                carry_on_woken(|| {
                    assert!(note(|| before) && note(|| Arc::new(Panics)) && note(|| after));
                    assert!(!work_panics, "the work");
                });
            });
            let panic = std::panic::catch_unwind(work).unwrap_err();
            let message = if work_panics { "the work" } else { "an operation" };
            assert_eq!(panic.downcast_ref::<&str>(), Some(&message));
            assert_eq!(*said.lock().unwrap(), ["before", "after"]);
            // This thread again continues no operations, as before.
            assert!(!note(|| says("nobody", &said, None)));
        }
    }

    #[test]
    fn operations_go_on_although_the_work_panics() {
        let said = Said::default();
        let woken = says("woken", &said, None);
        let work = std::panic::AssertUnwindSafe(|| {
            carry_on_woken(|| {
                assert!(note(|| woken));
                panic!("as in a finalizer");
            });
        });
        std::panic::catch_unwind(work).unwrap_err();
        assert_eq!(*said.lock().unwrap(), ["woken"]);
        assert!(!note(|| says("nobody", &said, None)));
    }
}
