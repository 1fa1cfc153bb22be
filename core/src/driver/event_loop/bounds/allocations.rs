//! Test helper that measures how many bytes remain allocated after a piece of work. Each thread
//! counts only its own allocations.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static KEPT: Cell<isize> = const { Cell::new(0) };
}

struct Counting;

fn count(bytes: usize, sign: isize) {
    let bytes = isize::try_from(bytes).unwrap_or(isize::MAX);
    KEPT.try_with(|kept| kept.set(kept.get() + sign * bytes)).ok();
}

// SAFETY: passes every call on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 1);
        // SAFETY: the caller keeps the same contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(layout.size(), -1);
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Returns the number of bytes that are allocated during `work` and not freed.
pub(crate) fn kept(work: impl FnOnce()) -> isize {
    let before = KEPT.get();
    work();
    KEPT.get() - before
}

#[test]
fn what_is_kept_counts_and_what_is_given_back_does_not() {
    let mut bytes = Vec::new();
    assert_eq!(kept(|| bytes = vec![0_u8; 1_000]), 1_000);
    assert_eq!(kept(|| bytes.resize(3_000, 0)), 2_000);
    assert_eq!(kept(|| drop(std::mem::take(&mut bytes))), -3_000);
}
