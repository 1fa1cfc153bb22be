//! Ordered maps and sets that store a single entry inline and more entries in a tree. They are
//! nearly always small, because most locks have at most one contender of a client at a time.

use std::borrow::Borrow;
use std::collections::{BTreeMap, btree_map};
use std::hash::{Hash, Hasher};
use std::ops::RangeBounds;

#[derive(Clone, Debug)]
pub(crate) enum SmallMap<K, V> {
    /// At most one entry.
    Few(Option<(K, V)>),
    /// All entries of a map that has or once had more than one entry.
    #[allow(clippy::box_collection, reason = "most maps are small, and a tree is larger than their entry")]
    Many(Box<BTreeMap<K, V>>),
}

impl<K, V> Default for SmallMap<K, V> {
    fn default() -> Self {
        Self::Few(None)
    }
}

impl<K: Ord, V> SmallMap<K, V> {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Few(one) => usize::from(one.is_some()),
            Self::Many(all) => all.len(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        match self {
            Self::Few(one) => one.as_ref().filter(|(this, _)| this.borrow() == key).map(|(_, value)| value),
            Self::Many(all) => all.get(key),
        }
    }

    pub(crate) fn get_mut<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        match self {
            Self::Few(one) => one.as_mut().filter(|(this, _)| this.borrow() == key).map(|(_, value)| value),
            Self::Many(all) => all.get_mut(key),
        }
    }

    pub(crate) fn contains_key<Q: Ord + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.get(key).is_some()
    }

    /// Adds an entry. Returns the previous value of this key.
    pub(crate) fn insert(&mut self, key: K, value: V) -> Option<V> {
        match self {
            Self::Few(one) => match one {
                None => {
                    *one = Some((key, value));
                    None
                }
                Some((this, there)) if *this == key => Some(std::mem::replace(there, value)),
                Some(_) => {
                    let all = one.take().into_iter().chain([(key, value)]).collect();
                    *self = Self::Many(Box::new(all));
                    None
                }
            },
            Self::Many(all) => all.insert(key, value),
        }
    }

    pub(crate) fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        match self {
            Self::Few(one) => one.take_if(|(this, _)| (*this).borrow() == key).map(|(_, value)| value),
            Self::Many(all) => {
                let gone = all.remove(key);
                if all.is_empty() {
                    *self = Self::default();
                }
                gone
            }
        }
    }

    pub(crate) fn retain(&mut self, mut stays: impl FnMut(&K, &mut V) -> bool) {
        match self {
            Self::Few(few) => {
                if few.as_mut().is_some_and(|(key, value)| !stays(key, value)) {
                    *few = None;
                }
            }
            Self::Many(all) => all.retain(stays),
        }
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = (&K, &V)> {
        let (few, many) = match self {
            Self::Few(one) => (one.as_ref(), None),
            Self::Many(all) => (None, Some(all.iter())),
        };
        few.map(|(key, value)| (key, value)).into_iter().chain(many.into_iter().flatten())
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (&K, &mut V)> {
        let (few, many) = match self {
            Self::Few(one) => (one.as_mut(), None),
            Self::Many(all) => (None, Some(all.iter_mut())),
        };
        few.map(|(key, value)| (&*key, value)).into_iter().chain(many.into_iter().flatten())
    }

    pub(crate) fn keys(&self) -> impl DoubleEndedIterator<Item = &K> {
        self.iter().map(|(key, _)| key)
    }

    pub(crate) fn values(&self) -> impl DoubleEndedIterator<Item = &V> {
        self.iter().map(|(_, value)| value)
    }

    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.iter_mut().map(|(_, value)| value)
    }

    pub(crate) fn first_key_value(&self) -> Option<(&K, &V)> {
        self.iter().next()
    }

    pub(crate) fn range<Q: Ord + ?Sized, R: RangeBounds<Q>>(
        &self,
        range: R,
    ) -> impl DoubleEndedIterator<Item = (&K, &V)>
    where
        K: Borrow<Q>,
    {
        let (few, many) = match self {
            Self::Few(one) => (one.as_ref().filter(|(key, _)| range.contains(key.borrow())), None),
            Self::Many(all) => (None, Some(all.range(range))),
        };
        few.map(|(key, value)| (key, value)).into_iter().chain(many.into_iter().flatten())
    }
}

impl<K: Ord, V> FromIterator<(K, V)> for SmallMap<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut map = Self::default();
        for (key, value) in entries {
            map.insert(key, value);
        }
        map
    }
}

/// The owned entries of a map, in order.
pub(crate) struct OwnedIter<K, V> {
    few: Option<(K, V)>,
    many: Option<btree_map::IntoIter<K, V>>,
}

impl<K, V> Iterator for OwnedIter<K, V> {
    type Item = (K, V);

    fn next(&mut self) -> Option<(K, V)> {
        self.few.take().or_else(|| self.many.as_mut()?.next())
    }
}

impl<K, V> IntoIterator for SmallMap<K, V> {
    type Item = (K, V);
    type IntoIter = OwnedIter<K, V>;

    fn into_iter(self) -> OwnedIter<K, V> {
        match self {
            Self::Few(few) => OwnedIter { few, many: None },
            Self::Many(all) => OwnedIter { few: None, many: Some(all.into_iter()) },
        }
    }
}

/// Maps are equal if they have the same entries, regardless of how they store them.
impl<K: Ord, V: PartialEq> PartialEq for SmallMap<K, V> {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().eq(other.iter())
    }
}

impl<K: Ord, V: Eq> Eq for SmallMap<K, V> {}

impl<K: Ord + Hash, V: Hash> Hash for SmallMap<K, V> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.len().hash(state);
        for entry in self.iter() {
            entry.hash(state);
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SmallSet<K: Ord>(SmallMap<K, ()>);

impl<K: Ord> Default for SmallSet<K> {
    fn default() -> Self {
        Self(SmallMap::default())
    }
}

impl<K: Ord> SmallSet<K> {
    pub(crate) const EMPTY: Self = Self(SmallMap::Few(None));

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn contains(&self, key: &K) -> bool {
        self.0.contains_key(key)
    }

    /// Adds a key. Returns `true` if it was not there.
    pub(crate) fn insert(&mut self, key: K) -> bool {
        self.0.insert(key, ()).is_none()
    }

    pub(crate) fn remove(&mut self, key: &K) -> bool {
        self.0.remove(key).is_some()
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    pub(crate) fn retain(&mut self, mut stays: impl FnMut(&K) -> bool) {
        self.0.retain(|key, ()| stays(key));
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &K> {
        self.0.keys()
    }

    pub(crate) fn first(&self) -> Option<&K> {
        self.0.first_key_value().map(|(key, ())| key)
    }

    pub(crate) fn range<R: RangeBounds<K>>(&self, range: R) -> impl DoubleEndedIterator<Item = &K> {
        self.0.range(range).map(|(key, ())| key)
    }
}

impl<K: Ord> Extend<K> for SmallSet<K> {
    fn extend<I: IntoIterator<Item = K>>(&mut self, keys: I) {
        for key in keys {
            self.insert(key);
        }
    }
}

impl<K: Ord> FromIterator<K> for SmallSet<K> {
    fn from_iter<I: IntoIterator<Item = K>>(keys: I) -> Self {
        let mut set = Self::default();
        set.extend(keys);
        set
    }
}

impl<K: Ord> IntoIterator for SmallSet<K> {
    type Item = K;
    type IntoIter = std::iter::Map<OwnedIter<K, ()>, fn((K, ())) -> K>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter().map(|(key, ())| key)
    }
}

#[cfg(test)]
mod tests {
    use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

    use proptest::prelude::*;

    use std::collections::BTreeSet;

    use super::*;

    fn hash(of: &impl Hash) -> u64 {
        BuildHasherDefault::<DefaultHasher>::default().hash_one(of)
    }

    proptest! {
        #[test]
        fn both_do_what_a_tree_does(steps in prop::collection::vec((0..4_u8, 0..3_u8), 0..24)) {
            let (mut map, mut set) = (SmallMap::default(), SmallSet::default());
            let (mut tree, mut keys) = (BTreeMap::new(), BTreeSet::new());
            for (at, (step, key)) in steps.into_iter().enumerate() {
                if step > 1 {
                    prop_assert_eq!(map.insert(key, at), tree.insert(key, at));
                    prop_assert_eq!(set.insert(key), keys.insert(key));
                } else {
                    prop_assert_eq!(map.remove(&key), tree.remove(&key));
                    prop_assert_eq!(set.remove(&key), keys.remove(&key));
                }
                prop_assert!(map.iter().eq(tree.iter()) && set.iter().eq(keys.iter()));
                prop_assert!(map.clone().into_iter().eq(tree.clone()) && set.clone().into_iter().eq(keys.clone()));
                prop_assert_eq!((map.len(), map.is_empty(), map.get(&key)), (tree.len(), tree.is_empty(), tree.get(&key)));
                prop_assert_eq!((set.is_empty(), set.contains(&key), set.first()), (keys.is_empty(), keys.contains(&key), keys.first()));
                for from in 0..3 {
                    prop_assert!(map.range(from..2).eq(tree.range(from..2)));
                    prop_assert!(set.range(from..).rev().eq(keys.range(from..).rev()));
                }
                // `map` and `set` might once have had more entries. They must be equal to a map and
                // a set that never had more.
                let same: (SmallMap<_, _>, SmallSet<_>) =
                    (map.iter().map(|(key, value)| (*key, *value)).collect(), set.iter().copied().collect());
                prop_assert!(same == (map.clone(), set.clone()) && hash(&same) == hash(&(&map, &set)));
                let mut left = set.clone();
                left.retain(|other| *other != key);
                prop_assert!(left.iter().eq(keys.iter().filter(|other| **other != key)));
            }
        }
    }
}
