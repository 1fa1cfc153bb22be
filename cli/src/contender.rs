//! Finds the contenders among the children of a lock's directory. Contenders are ephemeral nodes
//! whose names end in ten digits. A name can be ambiguous, because the name of another lock's
//! directory can also end in ten digits, as in `/locks/orders/10000000042`. This module sends no
//! requests.

use zklock::internal::Listing;
use zklock::queue::NodeName;

/// The classification of a child's name.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Child {
    /// The name has the form that zklock, Curator or kazoo give to contenders.
    Contender(NodeName),
    /// The name is ambiguous: the node must be read to see whether it is a contender.
    Ambiguous(NodeName),
    /// The child is not a contender. There may be locks below it.
    Directory,
}

impl Child {
    pub(crate) fn of(name: &str, listing: &Listing) -> Self {
        let Some(node) = NodeName::parse(name) else { return Self::Directory };
        if has_uuid(name) {
            return Self::Contender(node);
        }
        // The server numbers children in order of creation, so the number in a contender's name is
        // below the number of created children. The comparison is valid only if the counter has not
        // overflowed.
        let counted = usize::try_from(listing.created).is_ok_and(|created| created >= listing.names.len());
        if counted && node.sequence() >= u64::from(listing.created) {
            return Self::Directory;
        }
        Self::Ambiguous(node)
    }
}

/// Returns whether a name begins with `_c_` and a UUID, or with a UUID without dashes and two
/// underscores. Only contenders have such names.
fn has_uuid(name: &str) -> bool {
    let hex = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if let Some(rest) = name.strip_prefix("_c_") {
        let Some(uuid) = rest.get(..36) else { return false };
        let groups: Vec<_> = uuid.split('-').collect();
        return groups.iter().map(|group| group.len()).eq([8, 4, 4, 4, 12])
            && groups.iter().all(|group| hex(group));
    }
    name.get(..32).is_some_and(hex) && name.get(32..).is_some_and(|rest| rest.starts_with("__"))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Returns a contender's name. `what` is the text in front of the number: `lock-`, `lease-`,
    /// `__READ__` and so on.
    pub(crate) fn named(what: &str, number: u32) -> String {
        format!("_c_2f7c9a04-1f0e-4d0b-9f43-{number:012}-{what}{number:010}")
    }

    fn child(name: &str, created: u32) -> Child {
        Child::of(name, &Listing { names: vec![name.to_owned()], czxid: 1, created })
    }

    #[test]
    fn names_with_a_uuid_are_contenders() {
        for name in [
            named("lock-", 7),
            named("__WRIT__", 7),
            named("latch-", 7),
            "2f7c9a041f0e4d0b9f43c0ffee000007__lock__0000000007".to_owned(),
        ] {
            assert!(matches!(child(&name, 8), Child::Contender(_)), "{name}");
        }
    }

    #[test]
    fn others_are_asked_unless_their_number_was_never_given() {
        for name in ["10000000042", "x-lock-0000000042", "_c_1-lock-0000000042", "é0000000042"] {
            assert!(matches!(child(name, 43), Child::Ambiguous(_)), "{name}");
            assert_eq!(child(name, 42), Child::Directory, "{name}");
            // The counter has overflowed.
            assert!(matches!(child(name, 0), Child::Ambiguous(_)), "{name}");
        }
        for name in ["orders", "2024-01-01", ""] {
            assert_eq!(child(name, 43), Child::Directory, "{name}");
        }
    }
}
