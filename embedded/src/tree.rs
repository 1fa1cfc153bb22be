//! The nodes, and changes to them that can be taken back.

use std::collections::{BTreeMap, BTreeSet};

use crate::access::{self, Acl};
use crate::jute::Writer;
use crate::path;

/// The owner of a container node.
pub(crate) const CONTAINER: i64 = i64::MIN;
/// The longest time to live, in milliseconds: what the owner of a TTL node has room for.
pub(crate) const MAX_TTL: i64 = 0xff_ffff_ffff;
const TTL_MARK: i64 = -1 << 56;

/// What the owner field of a Stat says of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lifetime {
    Persistent,
    Container,
    /// Milliseconds without a child and a change.
    Ttl(i64),
    /// With this session.
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

/// What is kept of a Stat. `creates` counts the children ever created: the next sequence number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Kept {
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
    pub(crate) kept: Kept,
    pub(crate) data_length: i32,
    pub(crate) children: i32,
}

impl Stat {
    /// Changes of the children: each child that is gone was one creation and one deletion, of which only the first was
    /// counted.
    pub(crate) fn cversion(&self) -> i32 {
        self.kept.creates.wrapping_mul(2).wrapping_sub(self.children)
    }

    /// The session that the node belongs to. How else a node ends is not told.
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
    pub(crate) kept: Kept,
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

/// When a change happens: the transaction's number, and the time in milliseconds since 1970.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub(crate) zxid: i64,
    pub(crate) time: i64,
}

/// A change that happened, with what is needed to take it back and to tell those who watch.
#[derive(Debug)]
pub(crate) enum Change {
    Created { path: String, acl: Acl, parent: Kept, parent_acl: Acl },
    Deleted { path: String, node: Node, parent: Kept, parent_acl: Acl },
    DataSet { path: String, acl: Acl, data: Option<Vec<u8>>, before: Kept },
    AclSet { path: String, acl: Acl, before: Kept },
}

/// All nodes by their paths.
#[derive(Debug)]
pub(crate) struct Tree {
    nodes: BTreeMap<String, Node>,
    ephemerals: BTreeMap<i64, BTreeSet<String>>,
    /// Containers and TTL nodes.
    perishable: BTreeSet<String>,
}

impl Tree {
    /// The tree of a new server: the root and ZooKeeper's own nodes, which count nowhere as created.
    pub(crate) fn new() -> Self {
        let mut tree =
            Tree { nodes: BTreeMap::new(), ephemerals: BTreeMap::new(), perishable: BTreeSet::new() };
        for (path, children) in
            [("/", &["zookeeper"][..]), ("/zookeeper", &["config", "quota"]), ("/zookeeper/quota", &[])]
        {
            tree.put_own(path, children, access::ALL, 0);
        }
        tree.put_own("/zookeeper/config", &[], access::READ, -1);
        tree
    }

    fn put_own(&mut self, path: &str, children: &[&str], perms: i32, aversion: i32) {
        let node = Node {
            data: Some(Vec::new()),
            acl: access::open(perms),
            kept: Kept { aversion, ..Kept::default() },
            children: children.iter().map(|name| (*name).to_owned()).collect(),
        };
        self.nodes.insert(path.to_owned(), node);
    }

    /// Whether a path is one of those that cannot be deleted.
    pub(crate) fn is_own(path: &str) -> bool {
        matches!(path, "/" | "/zookeeper" | "/zookeeper/config" | "/zookeeper/quota")
    }

    pub(crate) fn get(&self, path: &str) -> Option<&Node> {
        // The root has two names.
        self.nodes.get(if path.is_empty() { "/" } else { path })
    }

    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// The paths and data of all nodes but the root and what is below `/zookeeper`.
    pub(crate) fn contents(&self) -> impl Iterator<Item = (&str, &[u8])> {
        let own = |path: &str| path == "/" || path == "/zookeeper" || path.starts_with("/zookeeper/");
        let others = self.nodes.iter().filter(move |(path, _)| !own(path));
        others.map(|(path, node)| (path.as_str(), node.data.as_deref().unwrap_or_default()))
    }

    /// The number of nodes below a path.
    pub(crate) fn descendants(&self, path: &str) -> usize {
        if path == "/" {
            return self.nodes.len() - 1;
        }
        let below = format!("{path}/");
        self.nodes.range(below.clone()..).take_while(|(path, _)| path.starts_with(&below)).count()
    }

    /// The sum of all data and paths in bytes.
    pub(crate) fn data_size(&self) -> usize {
        self.nodes.iter().map(|(path, node)| path.len() + node.data.as_ref().map_or(0, Vec::len)).sum()
    }

    /// A session's nodes in order of their paths.
    pub(crate) fn ephemerals(&self, session: i64) -> Vec<String> {
        self.ephemerals.get(&session).map(|paths| paths.iter().cloned().collect()).unwrap_or_default()
    }

    /// Each session with ephemeral nodes, and these.
    pub(crate) fn owners(&self) -> Vec<(i64, Vec<String>)> {
        self.ephemerals.keys().map(|session| (*session, self.ephemerals(*session))).collect()
    }

    pub(crate) fn ephemerals_count(&self) -> usize {
        self.ephemerals.values().map(BTreeSet::len).sum()
    }

    /// Containers that became empty and TTL nodes that nothing happened to for their time.
    pub(crate) fn to_reap(&self, now: i64) -> Vec<String> {
        let due = |path: &&String| {
            self.nodes.get(*path).is_some_and(|node| {
                node.children.is_empty()
                    && match Lifetime::of(node.kept.owner) {
                        Lifetime::Container => node.kept.creates > 0,
                        Lifetime::Ttl(ttl) => now - node.kept.mtime > ttl,
                        _ => false,
                    }
            })
        };
        self.perishable.iter().filter(due).cloned().collect()
    }

    /// Creates a node. `None`, without a change, if it is there or its parent is not.
    pub(crate) fn create(
        &mut self,
        path: &str,
        data: Option<Vec<u8>>,
        acl: Acl,
        lifetime: Lifetime,
        at: Moment,
    ) -> Option<Change> {
        if self.nodes.contains_key(path) {
            return None;
        }
        let parent = self.nodes.get_mut(path::parent(path)?)?;
        let (before, parent_acl) = (parent.kept, parent.acl.clone());
        parent.children.insert(path::name(path).to_owned());
        parent.kept.creates = parent.kept.creates.wrapping_add(1);
        parent.kept.pzxid = at.zxid;
        let kept = Kept {
            czxid: at.zxid,
            mzxid: at.zxid,
            pzxid: at.zxid,
            ctime: at.time,
            mtime: at.time,
            owner: lifetime.owner(),
            ..Kept::default()
        };
        self.index(path, kept.owner);
        self.nodes.insert(path.to_owned(), Node { data, acl: acl.clone(), kept, children: BTreeSet::new() });
        Some(Change::Created { path: path.to_owned(), acl, parent: before, parent_acl })
    }

    /// Deletes a node. `None`, without a change, if it is not there, has children or is the root.
    pub(crate) fn delete(&mut self, path: &str, zxid: i64) -> Option<Change> {
        if path == "/" || !self.nodes.get(path)?.children.is_empty() {
            return None;
        }
        let node = self.nodes.remove(path)?;
        self.unindex(path, node.kept.owner);
        let parent = self.nodes.get_mut(path::parent(path)?)?;
        let (before, parent_acl) = (parent.kept, parent.acl.clone());
        parent.children.remove(path::name(path));
        parent.kept.pzxid = zxid;
        Some(Change::Deleted { path: path.to_owned(), node, parent: before, parent_acl })
    }

    /// Sets a node's data and version.
    pub(crate) fn set_data(
        &mut self,
        path: &str,
        data: Option<Vec<u8>>,
        version: i32,
        at: Moment,
    ) -> Option<Change> {
        let node = self.nodes.get_mut(path)?;
        let (before, acl) = (node.kept, node.acl.clone());
        node.kept = Kept { version, mzxid: at.zxid, mtime: at.time, ..before };
        let data = std::mem::replace(&mut node.data, data);
        Some(Change::DataSet { path: path.to_owned(), acl, data, before })
    }

    /// Sets a node's access control list and its version.
    pub(crate) fn set_acl(&mut self, path: &str, acl: Acl, aversion: i32) -> Option<Change> {
        let node = self.nodes.get_mut(path)?;
        let before = node.kept;
        node.kept.aversion = aversion;
        let acl = std::mem::replace(&mut node.acl, acl);
        Some(Change::AclSet { path: path.to_owned(), acl, before })
    }

    /// Takes back the latest change that was not taken back yet.
    pub(crate) fn undo(&mut self, change: Change) {
        match change {
            Change::Created { path, parent, .. } => {
                if let Some(node) = self.nodes.remove(&path) {
                    self.unindex(&path, node.kept.owner);
                }
                if let Some(above) = path::parent(&path).and_then(|above| self.nodes.get_mut(above)) {
                    above.children.remove(path::name(&path));
                    above.kept = parent;
                }
            }
            Change::Deleted { path, node, parent, .. } => {
                if let Some(above) = path::parent(&path).and_then(|above| self.nodes.get_mut(above)) {
                    above.children.insert(path::name(&path).to_owned());
                    above.kept = parent;
                }
                self.index(&path, node.kept.owner);
                self.nodes.insert(path, node);
            }
            Change::DataSet { path, data, before, .. } => {
                if let Some(node) = self.nodes.get_mut(&path) {
                    (node.data, node.kept) = (data, before);
                }
            }
            Change::AclSet { path, acl, before } => {
                if let Some(node) = self.nodes.get_mut(&path) {
                    (node.acl, node.kept) = (acl, before);
                }
            }
        }
    }

    fn index(&mut self, path: &str, owner: i64) {
        match Lifetime::of(owner) {
            Lifetime::Persistent => {}
            Lifetime::Container | Lifetime::Ttl(_) => {
                self.perishable.insert(path.to_owned());
            }
            Lifetime::Ephemeral(session) => {
                self.ephemerals.entry(session).or_default().insert(path.to_owned());
            }
        }
    }

    fn unindex(&mut self, path: &str, owner: i64) {
        self.perishable.remove(path);
        if let Lifetime::Ephemeral(session) = Lifetime::of(owner) {
            if let Some(paths) = self.ephemerals.get_mut(&session) {
                paths.remove(path);
                if paths.is_empty() {
                    self.ephemerals.remove(&session);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: Moment = Moment { zxid: 7, time: 1000 };

    fn create(tree: &mut Tree, path: &str, lifetime: Lifetime, at: Moment) -> Change {
        tree.create(path, None, access::open(access::ALL), lifetime, at).unwrap()
    }

    #[test]
    fn the_roots_own_child_was_never_created() {
        assert_eq!(Tree::new().get("/").unwrap().stat().cversion(), -1);
        assert_eq!(Tree::new().get("/zookeeper").unwrap().stat().cversion(), -2);
    }

    #[test]
    fn a_parent_counts_creations_and_deletions() {
        let mut tree = Tree::new();
        create(&mut tree, "/a", Lifetime::Persistent, AT);
        create(&mut tree, "/a/b", Lifetime::Persistent, Moment { zxid: 8, time: 1001 });
        tree.delete("/a/b", 9).unwrap();
        let stat = tree.get("/a").unwrap().stat();
        assert_eq!((stat.cversion(), stat.kept.creates, stat.children), (2, 1, 0));
        assert_eq!((stat.kept.czxid, stat.kept.mzxid, stat.kept.pzxid), (7, 7, 9));
        assert!(tree.delete("/", 10).is_none());
    }

    #[test]
    fn every_change_can_be_taken_back() {
        let mut tree = Tree::new();
        create(&mut tree, "/a", Lifetime::Ephemeral(5), AT);
        create(&mut tree, "/c", Lifetime::Container, AT);
        let before = format!("{tree:?}");
        let at = Moment { zxid: 9, time: 2000 };
        let changes = [
            tree.set_data("/a", Some(b"x".to_vec()), 1, at).unwrap(),
            tree.set_acl("/a", access::open(access::READ), 1).unwrap(),
            tree.delete("/a", 9).unwrap(),
            create(&mut tree, "/c/d", Lifetime::Ttl(10), at),
            tree.delete("/c/d", 9).unwrap(),
            tree.delete("/c", 9).unwrap(),
        ];
        assert_eq!(tree.ephemerals(5), Vec::<String>::new());
        for change in changes.into_iter().rev() {
            tree.undo(change);
        }
        assert_eq!(format!("{tree:?}"), before);
        assert_eq!(tree.ephemerals(5), ["/a"]);
    }

    #[test]
    fn containers_are_reaped_after_their_last_child_and_ttl_nodes_after_their_time() {
        let mut tree = Tree::new();
        create(&mut tree, "/c", Lifetime::Container, AT);
        create(&mut tree, "/t", Lifetime::Ttl(50), AT);
        assert!(tree.to_reap(1050).is_empty());
        create(&mut tree, "/c/x", Lifetime::Persistent, AT);
        assert_eq!(tree.to_reap(1051), ["/t"]);
        tree.delete("/c/x", 8).unwrap();
        assert_eq!(tree.to_reap(1050), ["/c"]);
    }

    #[test]
    fn only_sessions_are_told_as_owners() {
        for (lifetime, told) in [
            (Lifetime::Persistent, 0),
            (Lifetime::Container, 0),
            (Lifetime::Ttl(9), 0),
            (Lifetime::Ephemeral(77), 77),
        ] {
            let mut tree = Tree::new();
            create(&mut tree, "/a", lifetime, AT);
            let mut writer = Writer::default();
            tree.get("/a").unwrap().stat().write(&mut writer);
            assert_eq!(writer.into_bytes()[44..52], i64::to_be_bytes(told));
        }
    }

    #[test]
    fn the_root_has_two_names() {
        assert_eq!(Tree::new().get("").unwrap().stat(), Tree::new().get("/").unwrap().stat());
    }

    #[test]
    fn the_owner_tells_the_lifetime() {
        for lifetime in
            [Lifetime::Persistent, Lifetime::Container, Lifetime::Ttl(MAX_TTL), Lifetime::Ephemeral(77)]
        {
            assert_eq!(Lifetime::of(lifetime.owner()), lifetime);
        }
    }

    #[test]
    fn descendants_are_those_below_the_slash() {
        let mut tree = Tree::new();
        for path in ["/a", "/a-b", "/a/b", "/a/b/c"] {
            create(&mut tree, path, Lifetime::Persistent, AT);
        }
        assert_eq!(tree.descendants("/a"), 2);
        assert_eq!(tree.descendants("/"), 7);
    }
}
