//! Counts the memory that a thread asks for.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static NOW: Cell<Counts> = const { Cell::new(Counts { held: 0, peak: 0, count: 0 }) };
}

#[derive(Clone, Copy)]
struct Counts {
    /// Bytes; less than nothing on a thread that frees what another one has got.
    held: isize,
    peak: isize,
    count: usize,
}

/// The system's allocator, with eyes on it.
pub(crate) struct Allocations;

/// What something asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    /// The most that it held at one time, in bytes, beyond what was held before.
    pub(crate) peak: usize,
    /// How often it asked.
    pub(crate) count: usize,
}

/// What a deed asks for on this thread.
pub(crate) fn measure(deed: impl FnOnce()) -> Asked {
    let before = NOW.get();
    NOW.set(Counts { peak: before.held, ..before });
    deed();
    let after = NOW.get();
    let peak = usize::try_from(after.peak - before.held).unwrap_or(0);
    Asked { peak, count: after.count - before.count }
}

fn ask(got: usize, given_back: usize) {
    let Counts { held, peak, count } = NOW.get();
    let held = held.wrapping_add_unsigned(got).wrapping_sub_unsigned(given_back);
    NOW.set(Counts { held, peak: peak.max(held), count: count + usize::from(got > 0) });
}

// SAFETY: all is done by the system's allocator; counting asks for no memory.
unsafe impl GlobalAlloc for Allocations {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ask(layout.size(), 0);
        // SAFETY: the caller's promises are passed on.
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
        // Old and new are there at the same time, if it has to move.
        ask(size, 0);
        ask(0, layout.size());
        // SAFETY: as above.
        unsafe { System.realloc(memory, layout, size) }
    }
}
