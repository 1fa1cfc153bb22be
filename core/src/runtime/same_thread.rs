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

/// The most operations that one step of the driver continues. The others become tasks, so that
/// heartbeats are not delayed if, for example, the loss of a session ends thousands of operations.
const MAX_IN_A_STEP: usize = 64;

/// The operations that a thread has woken inside [`carry_on_woken`] or [`carry_on_like_tasks`].
struct List {
    woken: Vec<Arc<dyn Woken>>,
    /// The number of operations that were recorded so far, including those that have continued.
    recorded: usize,
    /// `true` on the library's thread, inside [`carry_on_like_tasks`].
    in_driver: bool,
}

thread_local! {
    /// `None` outside of these functions.
    #[allow(clippy::missing_const_for_thread_local, reason = "loom's macro takes no constant")]
    static WOKEN: RefCell<Option<List>> = RefCell::new(None);
}

/// Runs `work`. Then continues the operations that `work` has woken, in the same order and on this
/// thread.
///
/// # Panics
/// If one of the operations panics, after the others have continued.
pub fn carry_on_woken<T>(work: impl FnOnce() -> T) -> T {
    carry_on(work, false)
}

/// Like [`carry_on_woken`], for the library's thread. A panic of an operation ends only that
/// operation, as if it were a task. Continues only operations that call [`note_like_a_task`].
pub(crate) fn carry_on_like_tasks<T>(work: impl FnOnce() -> T) -> T {
    carry_on(work, true)
}

fn carry_on<T>(work: impl FnOnce() -> T, in_driver: bool) -> T {
    let list = List { woken: Vec::new(), recorded: 0, in_driver };
    let around = WOKEN.with(|woken| woken.borrow_mut().replace(list));
    // The drop continues the operations even if `work` panics.
    let _carries_on = CarriesOn { around, in_driver };
    work()
}

/// Records an operation whose waker was called, so that this thread continues it. Returns `false`
/// if this thread is not in [`carry_on_woken`].
pub fn note(operation: impl FnOnce() -> Arc<dyn Woken>) -> bool {
    note_if(|list| !list.in_driver, operation)
}

/// Like [`note`], for an operation that the driver can continue too, because it never blocks.
pub(crate) fn note_like_a_task(operation: impl FnOnce() -> Arc<dyn Woken>) -> bool {
    note_if(|list| !list.in_driver || list.recorded < MAX_IN_A_STEP, operation)
}

fn note_if(accepts: impl FnOnce(&List) -> bool, operation: impl FnOnce() -> Arc<dyn Woken>) -> bool {
    // A waker can be called while the thread exits, after `WOKEN` was destroyed.
    WOKEN
        .try_with(|woken| match &mut *woken.borrow_mut() {
            Some(list) if accepts(list) => {
                list.woken.push(operation());
                list.recorded += 1;
                true
            }
            _ => false,
        })
        .unwrap_or_default()
}

/// When dropped, continues the recorded operations. Then restores the list of an outer call.
struct CarriesOn {
    /// The list of an outer call.
    around: Option<List>,
    in_driver: bool,
}

impl Drop for CarriesOn {
    fn drop(&mut self) {
        let mut panicked = None;
        loop {
            // An operation can wake another one.
            let woken =
                WOKEN.with(|woken| woken.borrow_mut().as_mut().map(|list| std::mem::take(&mut list.woken)));
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
        WOKEN.with(|woken| *woken.borrow_mut() = self.around.take());
        // A second panic would abort the process.
        if let Some(panic) = panicked.filter(|_| !self.in_driver && !thread::panicking()) {
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
    fn a_panic_like_that_of_a_task_ends_only_its_operation() {
        let said = Said::default();
        let (before, after) = (says("before", &said, None), says("after", &said, None));
        let value = carry_on_like_tasks(|| {
            assert!(!note(|| Arc::new(Panics)), "it could block the library's thread");
            assert!(note_like_a_task(|| before));
            assert!(note_like_a_task(|| Arc::new(Panics)));
            assert!(note_like_a_task(|| after));
            7
        });
        assert_eq!((value, &*said.lock().unwrap()), (7, &vec!["before", "after"]));
    }

    #[test]
    fn a_step_continues_a_limited_number_of_operations() {
        let said = Said::default();
        let noted = carry_on_like_tasks(|| {
            let notes = (0..2 * MAX_IN_A_STEP).map(|_| note_like_a_task(|| says("on", &said, None)));
            notes.filter(|noted| *noted).count()
        });
        assert_eq!((noted, said.lock().unwrap().len()), (MAX_IN_A_STEP, MAX_IN_A_STEP));
    }

    /// Wakes itself, for more times than a step permits.
    struct Wakes(Mutex<usize>);

    impl Woken for Wakes {
        fn go_on(self: Arc<Self>) {
            let mut times = self.0.lock().unwrap();
            *times += 1;
            if *times < 2 * MAX_IN_A_STEP {
                note_like_a_task(|| Arc::clone(&self) as _);
            }
        }
    }

    #[test]
    fn operations_that_wake_each_other_do_not_occupy_a_step() {
        let wakes = Arc::new(Wakes(Mutex::default()));
        assert!(carry_on_like_tasks(|| note_like_a_task(|| Arc::clone(&wakes) as _)));
        assert_eq!(*wakes.0.lock().unwrap(), MAX_IN_A_STEP);
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
