//! A collection that takes one word of memory while it is empty.
//!
//! A client can hold thousands of locks, and each of them has a queue. Most queues have a single
//! contender, which holds the lock, so most of their collections are empty nearly always.

use std::hash::{Hash, Hasher};
use std::ops::{Deref, DerefMut};

use super::small_map::{SmallMap, SmallSet};

/// A collection, or a group of them, that can be [`Rare`].
pub(crate) trait Empty: Default + 'static {
    /// The collection without an entry.
    const EMPTY: &'static Self;

    /// Returns `true` if the collection equals [`EMPTY`](Self::EMPTY).
    fn is_unused(&self) -> bool;
}

/// A collection that is nearly always empty. It is allocated when it is first borrowed mutably, so
/// use [`filled`](Self::filled) for a change that needs an entry. [`trim`](Self::trim) frees it if
/// it is empty again.
#[derive(Clone, Debug)]
pub(crate) struct Rare<T>(Option<Box<T>>);

impl<T> Default for Rare<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T: Empty> Rare<T> {
    /// Frees the memory if the collection is empty.
    pub(crate) fn trim(&mut self) {
        self.0.take_if(|all| all.is_unused());
    }

    /// Returns the collection to change its entries, or `None` if it is not allocated.
    pub(crate) fn filled(&mut self) -> Option<&mut T> {
        self.0.as_deref_mut()
    }
}

impl<T: Empty> Deref for Rare<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_deref().unwrap_or(T::EMPTY)
    }
}

impl<T: Empty> DerefMut for Rare<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.get_or_insert_default()
    }
}

/// Two collections are equal if they have the same entries, whether or not they are allocated.
impl<T: Empty + PartialEq> PartialEq for Rare<T> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<T: Empty + Eq> Eq for Rare<T> {}

impl<T: Empty + Hash> Hash for Rare<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

impl<K: Ord + 'static, V: 'static> Empty for SmallMap<K, V> {
    const EMPTY: &'static Self = &Self::Few(None);

    fn is_unused(&self) -> bool {
        self.is_empty()
    }
}

impl<K: Ord + 'static> Empty for SmallSet<K> {
    const EMPTY: &'static Self = &Self::EMPTY;

    fn is_unused(&self) -> bool {
        self.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_collection_takes_one_word_and_no_memory_of_its_own() {
        let mut all = Rare::<SmallMap<u64, u64>>::default();
        assert_eq!(size_of_val(&all), size_of::<usize>());
        assert!(all.is_empty() && all.get(&1).is_none() && all.0.is_none());
        all.insert(1, 2);
        all.trim();
        assert_eq!((all.get(&1), all.len()), (Some(&2), 1));
        all.remove(&1);
        assert_eq!(all, Rare::default());
        all.trim();
        assert!(all.0.is_none() && all.filled().is_none());
    }
}
