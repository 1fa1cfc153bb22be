//! Stand-in for the `ahash` crate: the standard library's hasher with its fixed keys. The original draws keys from
//! addresses and counts their uses in the whole process, so that the order of a hash table differs between two runs.

use std::hash::BuildHasherDefault;

/// A hasher that is the same in every process.
pub type AHasher = std::hash::DefaultHasher;

/// Makes such hashers.
pub type RandomState = BuildHasherDefault<AHasher>;
