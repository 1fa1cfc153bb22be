//! One measurement of a time bound.

/// The promise, the time that it took, and its bound, in milliseconds.
#[derive(Clone, Debug)]
pub struct Measured {
    pub promise: String,
    pub took: u64,
    pub bound: u64,
}
