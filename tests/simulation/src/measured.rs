//! One measurement of a time bound.

/// The measured time of a promise and its bound, in milliseconds.
#[derive(Clone, Debug)]
pub struct Measured {
    pub promise: String,
    pub took: u64,
    pub bound: u64,
}
