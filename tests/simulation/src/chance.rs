//! The one source of randomness: everything follows from the seed.
//!
//! Each part of a simulation draws from a sequence of its own, named by what it is for, so that leaving out one fault or
//! contender does not change what befalls the others. What the code under test draws comes from libc's `getrandom`,
//! which this binary defines itself.

use std::cell::RefCell;
use std::ffi::c_uint;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::mem::transmute;
use std::ops::RangeInclusive;

use crate::clock::libc_s;

/// A sequence of random numbers.
#[derive(Clone, Debug)]
pub struct Chance(fastrand::Rng);

impl Chance {
    /// The sequence of this seed for this purpose.
    pub fn of(seed: u64, purpose: &str, number: usize) -> Self {
        let mut hasher = DefaultHasher::new();
        (seed, purpose, number).hash(&mut hasher);
        Self(fastrand::Rng::with_seed(hasher.finish()))
    }

    /// A number in a range.
    pub fn number(&mut self, range: RangeInclusive<u64>) -> u64 {
        self.0.u64(range)
    }

    /// The same, for an index.
    pub fn index(&mut self, count: usize) -> usize {
        self.0.usize(0..count)
    }

    /// True in so many of a hundred cases.
    pub fn percent(&mut self, percent: u64) -> bool {
        self.0.u64(0..100) < percent
    }

    /// One of several.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.index(from.len())]
    }

    /// Mostly short, sometimes as long as the range allows.
    pub fn skewed(&mut self, range: RangeInclusive<u64>) -> u64 {
        let most = self.number(range.clone());
        self.number(*range.start()..=most)
    }
}

thread_local! {
    static ENTROPY: RefCell<Option<Chance>> = const { RefCell::new(None) };
}

/// From now on what this thread asks the operating system for follows from the seed.
pub fn seed(seed: u64) {
    fastrand::seed(seed);
    ENTROPY.set(Some(Chance::of(seed, "entropy", 0)));
}

/// From now on the operating system's randomness is its own again.
pub fn unseed() {
    ENTROPY.set(None);
}

type GetRandom = unsafe extern "C" fn(*mut libc::c_void, libc::size_t, c_uint) -> libc::ssize_t;

/// Stands in for libc's function of this name, in the whole program.
///
/// # Safety
/// As libc's: `length` bytes at `buffer` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getrandom(
    buffer: *mut libc::c_void,
    length: libc::size_t,
    flags: c_uint,
) -> libc::ssize_t {
    let seeded = ENTROPY.try_with(|entropy| {
        let mut entropy = entropy.try_borrow_mut().ok()?;
        let chance = entropy.as_mut()?;
        if length > 0 {
            // SAFETY: as promised by the caller.
            let bytes = unsafe { std::slice::from_raw_parts_mut(buffer.cast::<u8>(), length) };
            bytes.fill_with(|| chance.0.u8(..));
        }
        Some(length.cast_signed())
    });
    if let Ok(Some(length)) = seeded {
        return length;
    }
    // SAFETY: libc's function of this name has this type.
    let original: GetRandom = unsafe { transmute(libc_s(c"getrandom")) };
    // SAFETY: as promised by the caller.
    unsafe { original(buffer, length, flags) }
}
