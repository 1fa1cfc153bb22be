//! Random numbers. The seed determines all of them, so every run of a seed has the same history.
//!
//! Each part of a simulation draws from a separate sequence, which is named by its purpose. Leaving
//! out one fault or contender therefore does not change the others. The code under test draws its
//! random numbers from libc's `getrandom`, which this binary replaces.

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
    /// Returns the sequence of a seed for one purpose and number.
    pub fn of(seed: u64, purpose: &str, number: usize) -> Self {
        let mut hasher = DefaultHasher::new();
        (seed, purpose, number).hash(&mut hasher);
        Self(fastrand::Rng::with_seed(hasher.finish()))
    }

    /// Returns a random number in a range.
    pub fn number(&mut self, range: RangeInclusive<u64>) -> u64 {
        self.0.u64(range)
    }

    /// Returns a random index below `count`.
    pub fn index(&mut self, count: usize) -> usize {
        self.0.usize(0..count)
    }

    /// Returns `true` with the given probability in percent.
    pub fn percent(&mut self, percent: u64) -> bool {
        self.0.u64(0..100) < percent
    }

    /// Returns a random element of a slice.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.index(from.len())]
    }

    /// Returns a random number from a range. Smaller numbers are more likely.
    pub fn skewed(&mut self, range: RangeInclusive<u64>) -> u64 {
        let most = self.number(range.clone());
        self.number(*range.start()..=most)
    }
}

thread_local! {
    static ENTROPY: RefCell<Option<Chance>> = const { RefCell::new(None) };
}

/// Makes libc's `getrandom` on this thread return numbers that the seed determines.
pub fn seed(seed: u64) {
    fastrand::seed(seed);
    ENTROPY.set(Some(Chance::of(seed, "entropy", 0)));
}

/// Makes libc's `getrandom` on this thread return the operating system's random numbers again.
pub fn unseed() {
    ENTROPY.set(None);
}

type GetRandom = unsafe extern "C" fn(*mut libc::c_void, libc::size_t, c_uint) -> libc::ssize_t;

/// Replaces libc's function of this name in the whole program.
///
/// # Safety
/// As for libc's function: the caller allows writing `length` bytes at `buffer`.
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
            // SAFETY: the caller promises that `length` bytes are writable.
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
    // SAFETY: the caller upholds the contract of libc's function.
    unsafe { original(buffer, length, flags) }
}
