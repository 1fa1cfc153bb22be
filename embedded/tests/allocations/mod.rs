//! A global allocator that counts the memory that each thread allocates.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static NOW: Cell<Counts> = const { Cell::new(Counts { held: 0, peak: 0, count: 0 }) };
}

#[derive(Clone, Copy)]
struct Counts {
    /// Allocated bytes. Negative on a thread that frees memory of other threads.
    held: isize,
    peak: isize,
    count: usize,
}

/// The system allocator, with counters.
pub(crate) struct Allocations;

/// The memory that an operation allocated.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    /// Peak of the allocated bytes, without the bytes that were already allocated at the start.
    pub(crate) peak: usize,
    /// Number of allocations.
    pub(crate) count: usize,
}

/// Measures the memory that `deed` allocates on this thread.
pub(crate) fn measure(work: impl FnOnce()) -> Asked {
    let before = NOW.get();
    NOW.set(Counts { peak: before.held, ..before });
    work();
    let after = NOW.get();
    let peak = usize::try_from(after.peak - before.held).unwrap_or(0);
    Asked { peak, count: after.count - before.count }
}

fn ask(got: usize, given_back: usize) {
    let Counts { held, peak, count } = NOW.get();
    let held = held.wrapping_add_unsigned(got).wrapping_sub_unsigned(given_back);
    NOW.set(Counts { held, peak: peak.max(held), count: count + usize::from(got > 0) });
}

// SAFETY: every method forwards to the system allocator, and the counters allocate no memory.
unsafe impl GlobalAlloc for Allocations {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ask(layout.size(), 0);
        // SAFETY: the caller upholds the same contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        ask(layout.size(), 0);
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        ask(0, layout.size());
        // SAFETY: as above.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // If the block moves, the old and the new one exist at the same time.
        ask(size, 0);
        ask(0, layout.size());
        // SAFETY: as above.
        unsafe { System.realloc(memory, layout, size) }
    }
}
