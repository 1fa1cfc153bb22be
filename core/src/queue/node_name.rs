//! The names and the order of the nodes in a lock directory.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use uuid::Uuid;

/// Highest accepted sequence number. The server's counter is a signed 32-bit number. After an
/// overflow, the numbers are negative, and new contenders would be ahead of all others. The margin
/// leaves room for contenders that join at the same time.
const SEQUENCE_LIMIT: u64 = (1 << 31) - (1 << 16);

/// The naming of nodes, which determines which other libraries recognize them.
///
/// ```
/// assert_eq!(zklock::Naming::default(), zklock::Naming::Curator);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Naming {
    /// Names as in Apache Curator: `_c_<uuid>-lock-`.
    #[default]
    Curator,
    /// Names as in kazoo, `<uuid>__lock__`, for teams whose kazoo services cannot set
    /// `extra_lock_patterns`.
    Kazoo,
}

/// The kind of hold that a node in a lock directory asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Hold the lock alone, as a mutex does.
    Exclusive,
    /// Hold the lock alone, as the write half of a read/write lock does. The owner can downgrade: a
    /// reader then takes over the writer's position in the queue.
    Write,
    /// Hold the lock together with other readers.
    Read,
    /// Hold one of this number of permits. The order of the nodes does not matter: a semaphore's
    /// contenders first acquire a mutex, so only one client at a time asks for permits.
    Permit(u32),
    /// Hold the lock alone, as the leader of an election does. The node is always named as in
    /// Curator's `LeaderLatch`, regardless of the naming of locks.
    Lead,
}

impl Naming {
    /// Returns the name without the sequence number, which the server appends.
    pub(super) fn prefix(self, uuid: Uuid, kind: Kind) -> String {
        let (mut hyphenated, mut simple) = (Uuid::encode_buffer(), Uuid::encode_buffer());
        let hyphenated = &*uuid.hyphenated().encode_lower(&mut hyphenated);
        let simple = &*uuid.simple().encode_lower(&mut simple);
        // `concat` computes the length in advance and allocates once.
        match (self, kind) {
            (Self::Curator, Kind::Exclusive) => ["_c_", hyphenated, "-lock-"].concat(),
            (Self::Curator, Kind::Write) => ["_c_", hyphenated, "-__WRIT__"].concat(),
            (Self::Curator, Kind::Read) => ["_c_", hyphenated, "-__READ__"].concat(),
            // A permit always has Curator's name, because kazoo's semaphore uses another layout.
            (_, Kind::Permit(_)) => ["_c_", hyphenated, "-lease-"].concat(),
            (_, Kind::Lead) => ["_c_", hyphenated, "-latch-"].concat(),
            (Self::Kazoo, Kind::Read) => [simple, "__rlock__"].concat(),
            // kazoo recognizes the suffix `__lock__`. zklock recognizes a writer's node by
            // `__WRIT`, because a reader can take over a writer's position in the queue (rule 6).
            (Self::Kazoo, Kind::Write) => [simple, "__WRIT__lock__"].concat(),
            (Self::Kazoo, _) => [simple, "__lock__"].concat(),
        }
    }
}

/// Returns the uuid in a node's name, under either naming.
pub(super) fn uuid_of(name: &str) -> Option<Uuid> {
    match name.strip_prefix("_c_") {
        Some(rest) => Uuid::try_parse(rest.get(..36)?).ok(),
        None => Uuid::try_parse(name.get(..32)?).ok(),
    }
}

/// Returns `true` if a child is named like the nodes of kazoo's locks. By default, kazoo's locks
/// recognize only such nodes.
#[must_use]
pub fn is_kazoos(child: &str) -> bool {
    let Some(stem) = child.len().checked_sub(10).and_then(|at| child.get(..at)) else { return false };
    matches!(stem.get(32..), Some("__lock__" | "__rlock__"))
        && Uuid::try_parse(&stem[..32]).is_ok()
        && NodeName::parse(child).is_some()
}

/// The name of a node that counts as a contender, because it ends with the ten digits of a sequence
/// number.
///
/// Names are sorted in queue order, by sequence number. A writer is ahead of a reader with the same
/// number, because Curator's downgrade creates a reader with its writer's number.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct NodeName {
    text: Arc<str>,
    sequence: u64,
    kind: Kind,
}

impl NodeName {
    /// Parses a child's name. Returns `None` for a child that is not a contender.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let at = text.len().checked_sub(10)?;
        let digits = text.get(at..)?;
        if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let stem = &text[..at];
        let kind = if stem.ends_with("__READ__") || stem.ends_with("__rlock__") {
            Kind::Read
        } else if stem.ends_with("__WRIT__") || stem.ends_with("__WRIT__lock__") {
            Kind::Write
        } else {
            Kind::Exclusive
        };
        Some(Self { text: text.into(), sequence: digits.parse().ok()?, kind })
    }

    /// Returns the whole name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the sequence number. It is above 2³¹ − 1 if the server's counter has wrapped.
    #[must_use]
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Returns a name that sorts ahead of every node with this sequence number.
    pub(super) fn first_of(sequence: u64) -> Self {
        Self { text: "".into(), sequence, kind: Kind::Exclusive }
    }

    /// Returns `true` if the directory's counter has wrapped or will soon.
    pub(super) fn is_at_the_end(&self) -> bool {
        self.sequence > SEQUENCE_LIMIT
    }

    /// Returns `true` if the node belongs to an election candidate, ours or Curator's.
    #[must_use]
    pub fn is_candidate(&self) -> bool {
        self.text.trim_end_matches(|c: char| c.is_ascii_digit()).ends_with("-latch-")
    }

    /// Returns the kind of hold that the node asks for.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }
}

impl Ord for NodeName {
    fn cmp(&self, other: &Self) -> Ordering {
        let key = |name: &Self| (name.sequence, name.kind == Kind::Read);
        key(self).cmp(&key(other)).then_with(|| {
            // Comparing the pointers is fast, and nearly every lookup uses a copy of the same
            // `Arc`.
            if Arc::ptr_eq(&self.text, &other.text) { Ordering::Equal } else { self.text.cmp(&other.text) }
        })
    }
}

impl PartialOrd for NodeName {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Debug for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.text, f)
    }
}

/// Generates one uuid for each contender that joins. One half of each uuid identifies the session,
/// so a listing shows which nodes are our orphans, even if the client does not remember their
/// uuids.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct NodeNamer {
    session: u64,
    next: u64,
}

impl NodeNamer {
    /// Creates a namer. `seed` must be random. It must not be used for any other session or path.
    pub(super) fn new(seed: u64) -> Self {
        // A random (version 4) uuid has four fixed version bits.
        Self { session: (seed & !0xf000) | 0x4000, next: 0 }
    }

    pub(super) fn next_uuid(&mut self) -> Uuid {
        self.next += 1;
        // It also has two fixed variant bits.
        Uuid::from_u64_pair(self.session, (self.next & (u64::MAX >> 2)) | (1 << 63))
    }

    /// Returns the uuid in a child's name if this namer generated it. First compares the first
    /// digits, which have the same position in both formats of names. This quickly rejects most
    /// nodes of other clients.
    pub(super) fn own_uuid(&self, child: &str) -> Option<Uuid> {
        let digits = child.strip_prefix("_c_").unwrap_or(child).get(..8)?;
        if u64::from_str_radix(digits, 16).ok()? != self.session >> 32 {
            return None;
        }
        uuid_of(child).filter(|uuid| uuid.as_u64_pair().0 == self.session)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(names: &[&str]) -> Vec<String> {
        let mut nodes: Vec<_> = names.iter().filter_map(|name| NodeName::parse(name)).collect();
        nodes.sort();
        nodes.iter().map(|node| node.as_str().to_owned()).collect()
    }

    #[test]
    fn only_what_stands_directly_before_the_number_says_that_it_reads() {
        let kind = |name| NodeName::parse(name).unwrap().kind();
        assert_eq!([kind("a-__READ__0000000001"), kind("a__rlock__0000000001")], [Kind::Read; 2]);
        for name in ["__READ__-lock-0000000001", "a__rlock__x0000000001", "a-__READ__00000000001"] {
            assert_eq!(kind(name), Kind::Exclusive, "{name}");
        }
    }

    #[test]
    fn only_names_ending_in_ten_digits_count() {
        for name in ["", "locks", "x-123", "x-lock-00000001a1", "é000000001"] {
            assert_eq!(NodeName::parse(name), None, "{name}");
        }
        for name in ["0000000001", "x0000000001", "_c_x-lock-0000000001", "y__lock__0000000001"] {
            assert_eq!(NodeName::parse(name).map(|node| node.sequence()), Some(1), "{name}");
        }
    }

    #[test]
    fn order_is_by_number_whatever_the_names_and_a_writer_precedes_its_own_downgrade() {
        assert_eq!(
            sorted(&["a-__READ__0000000002", "z-lock-0000000001", "b-__WRIT__0000000002"]),
            ["z-lock-0000000001", "b-__WRIT__0000000002", "a-__READ__0000000002"]
        );
    }

    #[test]
    fn order_is_numeric_not_textual_where_the_counter_wraps() {
        let wrapped = NodeName::parse("x-lock--2147483648").unwrap();
        assert!(wrapped.is_at_the_end());
        assert_eq!(
            sorted(&["x-lock--2147483648", "x-lock-2147483647", "x-lock-0999999999"]),
            ["x-lock-0999999999", "x-lock-2147483647", "x-lock--2147483648"]
        );
    }

    #[test]
    fn minted_uuids_are_random_ones_by_form_and_recognised() {
        let mut namer = NodeNamer::new(0x0123_4567_89ab_cdef);
        let (first, second) = (namer.next_uuid(), namer.next_uuid());
        assert_ne!(first, second);
        assert_eq!(first.get_version_num(), 4);
        assert_eq!(first.get_variant(), uuid::Variant::RFC4122);
        for naming in [Naming::Curator, Naming::Kazoo] {
            for kind in [Kind::Exclusive, Kind::Lead] {
                let name = naming.prefix(first, kind) + "0000000000";
                assert_eq!(namer.own_uuid(&name), Some(first), "{name}");
                // Another program might write the uuid in upper case.
                let upper = name.replace("abcdef", "ABCDEF").replace("cdef", "CDEF");
                assert_eq!(namer.own_uuid(&upper), Some(first), "{upper}");
                // The seeds of two other sessions. Each differs from this session's seed in one
                // digit.
                for other in [0x0123_4567_89ab_cdee, 0x1123_4567_89ab_cdef] {
                    assert_eq!(NodeNamer::new(other).own_uuid(&name), None, "{name}");
                }
            }
        }
        for other in ["", "_c_", "_c_0123456", "01234567-lock-0000000000", "_c_é1234567-lock-0000000000"] {
            assert_eq!(namer.own_uuid(other), None, "{other}");
        }
    }

    #[test]
    fn kazoos_names_are_known() {
        let uuid = "0123456789abcdef0123456789abcdef";
        for kind in ["__lock__", "__rlock__"] {
            assert!(is_kazoos(&format!("{uuid}{kind}0000000007")));
        }
        let others = ["", "0000000007", "é0000000007", "__lock__0000000007", "_c_x-lock-0000000007"];
        assert!(!others.into_iter().any(is_kazoos));
        for end in ["__lock__", "__lock__000000000x", "__WRIT__lock__0000000007", "-lock-0000000007"] {
            assert!(!is_kazoos(&format!("{uuid}{end}")), "{end}");
        }
    }
}
