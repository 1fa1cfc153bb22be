//! One measurement of a promise of progress.

/// The promise, how long it took, and its bound, in milliseconds.
#[derive(Clone, Debug)]
pub struct Measured {
    pub promise: String,
    pub took: u64,
    pub bound: u64,
}
