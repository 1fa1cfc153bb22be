//! An index over contenders, which follows each of their changes.

use super::super::few::Set;
use super::join::Join;

/// Moves a contender's key to where it belongs now.
#[inline]
pub(super) fn update<K: Ord>(
    keys: &mut Set<K>,
    before: Option<&Join>,
    after: Option<&Join>,
    key: impl Fn(&Join) -> Option<K>,
) {
    let (before, after) = (before.and_then(&key), after.and_then(&key));
    if before != after {
        if let Some(before) = before {
            keys.remove(&before);
        }
        keys.extend(after);
    }
}
