//! Stand-in for the `ahash` crate: the standard library's hasher with fixed keys. The original
//! derives its keys from memory addresses and a counter, so the iteration order of a hash table
//! would differ between two runs.

use std::hash::BuildHasherDefault;

/// A hasher that returns the same hashes in every process.
pub type AHasher = std::hash::DefaultHasher;

/// Creates [`AHasher`] values.
pub type RandomState = BuildHasherDefault<AHasher>;
