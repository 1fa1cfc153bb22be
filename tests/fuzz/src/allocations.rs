//! Counts the memory that the code under test has allocated, and panics if it exceeds the promised
//! limit.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static COUNTED: Cell<bool> = const { Cell::new(false) };
    static LIVE: Cell<isize> = const { Cell::new(0) };
    static MOST: Cell<isize> = const { Cell::new(0) };
}

/// An allocator that counts allocations inside [`Meter::count`], separately for each thread.
struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn note(bytes: isize) {
    if COUNTED.get() {
        LIVE.set(LIVE.get() + bytes);
        MOST.set(MOST.get().max(LIVE.get()));
    }
}

fn signed(size: usize) -> isize {
    isize::try_from(size).unwrap_or(isize::MAX)
}

// SAFETY: the system's allocator does the work. The counters are thread-local cells that need no
// allocation.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(signed(layout.size()));
        // SAFETY: the caller upholds the allocator's contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note(signed(layout.size()));
        // SAFETY: the caller upholds the allocator's contract.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        note(-signed(layout.size()));
        // SAFETY: the caller upholds the allocator's contract.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // Unless the block grows in place, the old and the new block exist at the same time for a
        // moment.
        note(signed(size));
        note(-signed(layout.size()));
        // SAFETY: the caller upholds the allocator's contract.
        unsafe { System.realloc(memory, layout, size) }
    }
}

/// A counter that starts at zero.
#[derive(Debug)]
pub struct Meter(());

impl Meter {
    /// Creates a meter. A thread can use only one at a time.
    #[must_use]
    pub fn new() -> Self {
        LIVE.set(0);
        MOST.set(0);
        Self(())
    }

    /// Runs the code under test and counts its allocations.
    pub fn count<T>(&mut self, run: impl FnOnce() -> T) -> T {
        COUNTED.set(true);
        let _stops = Stop;
        run()
    }

    /// Panics if more than `limit` bytes were held at any time.
    pub fn assert_at_most(&self, limit: usize, of: &str) {
        let most = MOST.get();
        assert!(most <= signed(limit), "{of}: {most} bytes were held, where at most {limit} are promised");
    }
}

impl Default for Meter {
    fn default() -> Self {
        Self::new()
    }
}

/// Stops counting when dropped, even if the code under test panics.
struct Stop;

impl Drop for Stop {
    fn drop(&mut self) {
        COUNTED.set(false);
    }
}
