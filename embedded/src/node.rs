//! A node and its Stat.

use std::collections::BTreeSet;

use zklock_jute::Writer;

use crate::access::Acl;

/// The `ephemeralOwner` value of a container node.
pub(crate) const CONTAINER: i64 = i64::MIN;
/// Maximum time to live in milliseconds. A larger value does not fit into the owner field of a TTL
/// node.
pub(crate) const MAX_TTL: i64 = 0xff_ffff_ffff;
const TTL_MARK: i64 = -1 << 56;

/// The lifetime of a node, as the owner field of its Stat encodes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lifetime {
    Persistent,
    Container,
    /// Removed after this many milliseconds without a child and without a change.
    Ttl(i64),
    /// Removed with this session.
    Ephemeral(i64),
}

impl Lifetime {
    pub(crate) fn owner(self) -> i64 {
        match self {
            Lifetime::Persistent => 0,
            Lifetime::Container => CONTAINER,
            Lifetime::Ttl(ttl) => TTL_MARK | ttl,
            Lifetime::Ephemeral(session) => session,
        }
    }

    pub(crate) fn of(owner: i64) -> Self {
        match owner {
            0 => Lifetime::Persistent,
            CONTAINER => Lifetime::Container,
            owner if owner & TTL_MARK == TTL_MARK => Lifetime::Ttl(owner & MAX_TTL),
            session => Lifetime::Ephemeral(session),
        }
    }
}

/// The stored fields of a Stat. `creates` is the number of children created so far, which is also
/// the next sequence number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StoredStat {
    pub(crate) czxid: i64,
    pub(crate) mzxid: i64,
    pub(crate) pzxid: i64,
    pub(crate) ctime: i64,
    pub(crate) mtime: i64,
    pub(crate) version: i32,
    pub(crate) creates: i32,
    pub(crate) aversion: i32,
    pub(crate) owner: i64,
}

/// A Stat as clients see it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) kept: StoredStat,
    pub(crate) data_length: i32,
    pub(crate) children: i32,
}

impl Stat {
    /// Returns the number of creations and deletions of children. The number of deletions is
    /// `creates` minus the number of existing children.
    pub(crate) fn cversion(&self) -> i32 {
        self.kept.creates.wrapping_mul(2).wrapping_sub(self.children)
    }

    /// Returns the session that owns the node, or 0. Clients do not see the owner mark of a
    /// container or a TTL node.
    fn owner(&self) -> i64 {
        match Lifetime::of(self.kept.owner) {
            Lifetime::Ephemeral(session) => session,
            _ => 0,
        }
    }

    pub(crate) fn write(&self, writer: &mut Writer) {
        writer.long(self.kept.czxid);
        writer.long(self.kept.mzxid);
        writer.long(self.kept.ctime);
        writer.long(self.kept.mtime);
        writer.int(self.kept.version);
        writer.int(self.cversion());
        writer.int(self.kept.aversion);
        writer.long(self.owner());
        writer.int(self.data_length);
        writer.int(self.children);
        writer.long(self.kept.pzxid);
    }
}

/// A node.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) data: Option<Vec<u8>>,
    pub(crate) acl: Acl,
    pub(crate) kept: StoredStat,
    pub(crate) children: BTreeSet<String>,
}

impl Node {
    pub(crate) fn stat(&self) -> Stat {
        let count = |length| i32::try_from(length).unwrap_or(i32::MAX);
        Stat {
            kept: self.kept,
            data_length: count(self.data.as_ref().map_or(0, Vec::len)),
            children: count(self.children.len()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_sessions_are_told_as_owners() {
        for (lifetime, told) in [
            (Lifetime::Persistent, 0),
            (Lifetime::Container, 0),
            (Lifetime::Ttl(9), 0),
            (Lifetime::Ephemeral(77), 77),
        ] {
            let kept = StoredStat { owner: lifetime.owner(), ..StoredStat::default() };
            let mut writer = Writer::default();
            Stat { kept, ..Stat::default() }.write(&mut writer);
            assert_eq!(writer.into_bytes()[44..52], i64::to_be_bytes(told));
        }
    }

    #[test]
    fn the_owner_tells_the_lifetime() {
        for lifetime in
            [Lifetime::Persistent, Lifetime::Container, Lifetime::Ttl(MAX_TTL), Lifetime::Ephemeral(77)]
        {
            assert_eq!(Lifetime::of(lifetime.owner()), lifetime);
        }
    }
}
