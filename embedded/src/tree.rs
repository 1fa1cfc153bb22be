//! The tree of nodes, with changes that can be undone.

use std::collections::{BTreeMap, BTreeSet};

use crate::access::{self, Acl};
use crate::ephemerals::Owned;
use crate::node::{Lifetime, Node, StoredStat};
use crate::path;

/// The zxid of a change, and its time in milliseconds since 1970.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TransactionTime {
    pub(crate) zxid: i64,
    pub(crate) time: i64,
}

/// A completed change, with the data to undo it and to notify the watchers.
#[derive(Debug)]
pub(crate) enum Change {
    Created { path: String, acl: Acl, parent: StoredStat, parent_acl: Acl },
    Deleted { path: String, node: Node, parent: StoredStat, parent_acl: Acl },
    DataSet { path: String, acl: Acl, data: Option<Vec<u8>>, before: StoredStat },
    AclSet { path: String, acl: Acl, before: StoredStat },
}

/// All nodes by path.
#[derive(Debug)]
pub(crate) struct Tree {
    nodes: BTreeMap<String, Node>,
    owned: Owned,
}

impl Tree {
    /// Creates the tree of a new server: the root and ZooKeeper's own nodes. The `creates` counters
    /// of the parents do not include these nodes.
    pub(crate) fn new() -> Self {
        let mut tree = Tree { nodes: BTreeMap::new(), owned: Owned::default() };
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
            kept: StoredStat { aversion, ..StoredStat::default() },
            children: children.iter().map(|name| (*name).to_owned()).collect(),
        };
        self.put(path.to_owned(), node);
    }

    fn put(&mut self, path: String, node: Node) {
        self.owned.add(&path, &node);
        self.nodes.insert(path, node);
    }

    fn take(&mut self, path: &str) -> Option<Node> {
        let node = self.nodes.remove(path)?;
        self.owned.remove(path, &node);
        Some(node)
    }

    /// Returns `true` if the path is one of the server's own nodes, which cannot be deleted.
    pub(crate) fn is_own(path: &str) -> bool {
        matches!(path, "/" | "/zookeeper" | "/zookeeper/config" | "/zookeeper/quota")
    }

    pub(crate) fn get(&self, path: &str) -> Option<&Node> {
        // The root has two names: "/" and "".
        self.nodes.get(if path.is_empty() { "/" } else { path })
    }

    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Returns the paths and data of all nodes except the root, `/zookeeper` and its descendants.
    pub(crate) fn contents(&self) -> impl Iterator<Item = (&str, &[u8])> {
        let own = |path: &str| path == "/" || path == "/zookeeper" || path.starts_with("/zookeeper/");
        let others = self.nodes.iter().filter(move |(path, _)| !own(path));
        others.map(|(path, node)| (path.as_str(), node.data.as_deref().unwrap_or_default()))
    }

    /// Returns the number of nodes below a path.
    pub(crate) fn descendants(&self, path: &str) -> usize {
        if path == "/" {
            return self.nodes.len() - 1;
        }
        let below = format!("{path}/");
        self.nodes.range(below.clone()..).take_while(|(path, _)| path.starts_with(&below)).count()
    }

    /// Returns the total size of all data and paths in bytes.
    pub(crate) fn data_size(&self) -> usize {
        self.owned.size()
    }

    /// Returns a session's nodes in path order.
    pub(crate) fn ephemerals(&self, session: i64) -> Vec<String> {
        self.ephemerals_below(session, "")
    }

    /// Returns a session's nodes whose paths begin with `prefix`.
    pub(crate) fn ephemerals_below(&self, session: i64, prefix: &str) -> Vec<String> {
        self.owned.of_session(session, prefix).cloned().collect()
    }

    /// Returns each session that owns ephemeral nodes, with those nodes.
    pub(crate) fn owners(&self) -> Vec<(i64, Vec<String>)> {
        self.owned.sessions().map(|session| (session, self.ephemerals(session))).collect()
    }

    pub(crate) fn ephemerals_count(&self) -> usize {
        self.owned.ephemerals()
    }

    /// Returns the containers that became empty, and the TTL nodes that have no children and have
    /// not changed within their time to live.
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
        self.owned.perishable().filter(due).cloned().collect()
    }

    /// Creates a node. Returns `None`, without a change, if the node exists or its parent does not.
    pub(crate) fn create(
        &mut self,
        path: &str,
        data: Option<Vec<u8>>,
        acl: Acl,
        lifetime: Lifetime,
        at: TransactionTime,
    ) -> Option<Change> {
        if self.nodes.contains_key(path) {
            return None;
        }
        let parent = self.nodes.get_mut(path::parent(path)?)?;
        let (before, parent_acl) = (parent.kept, parent.acl.clone());
        parent.children.insert(path::name(path).to_owned());
        parent.kept.creates = parent.kept.creates.wrapping_add(1);
        parent.kept.pzxid = at.zxid;
        let kept = StoredStat {
            czxid: at.zxid,
            mzxid: at.zxid,
            pzxid: at.zxid,
            ctime: at.time,
            mtime: at.time,
            owner: lifetime.owner(),
            ..StoredStat::default()
        };
        self.put(path.to_owned(), Node { data, acl: acl.clone(), kept, children: BTreeSet::new() });
        Some(Change::Created { path: path.to_owned(), acl, parent: before, parent_acl })
    }

    /// Deletes a node. Returns `None`, without a change, if the node does not exist, has children
    /// or is the root.
    pub(crate) fn delete(&mut self, path: &str, zxid: i64) -> Option<Change> {
        if path == "/" || !self.nodes.get(path)?.children.is_empty() {
            return None;
        }
        let node = self.take(path)?;
        let parent = self.nodes.get_mut(path::parent(path)?)?;
        let (before, parent_acl) = (parent.kept, parent.acl.clone());
        parent.children.remove(path::name(path));
        parent.kept.pzxid = zxid;
        Some(Change::Deleted { path: path.to_owned(), node, parent: before, parent_acl })
    }

    /// Sets the sequence number of a node's next child.
    pub(crate) fn set_counter(&mut self, path: &str, next: i32) {
        if let Some(node) = self.nodes.get_mut(path) {
            node.kept.creates = next;
        }
    }

    /// Sets a node's data and version.
    pub(crate) fn set_data(
        &mut self,
        path: &str,
        data: Option<Vec<u8>>,
        version: i32,
        at: TransactionTime,
    ) -> Option<Change> {
        let node = self.nodes.get_mut(path)?;
        let (before, acl) = (node.kept, node.acl.clone());
        node.kept = StoredStat { version, mzxid: at.zxid, mtime: at.time, ..before };
        self.owned.resize(node.data.as_ref(), data.as_ref());
        let data = std::mem::replace(&mut node.data, data);
        Some(Change::DataSet { path: path.to_owned(), acl, data, before })
    }

    /// Sets a node's ACL and the ACL's version.
    pub(crate) fn set_acl(&mut self, path: &str, acl: Acl, aversion: i32) -> Option<Change> {
        let node = self.nodes.get_mut(path)?;
        let before = node.kept;
        node.kept.aversion = aversion;
        let acl = std::mem::replace(&mut node.acl, acl);
        Some(Change::AclSet { path: path.to_owned(), acl, before })
    }

    /// Undoes a change. Changes must be undone in reverse order.
    pub(crate) fn undo(&mut self, change: Change) {
        match change {
            Change::Created { path, parent, .. } => {
                self.take(&path);
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
                self.put(path, node);
            }
            Change::DataSet { path, data, before, .. } => {
                if let Some(node) = self.nodes.get_mut(&path) {
                    self.owned.resize(node.data.as_ref(), data.as_ref());
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
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: TransactionTime = TransactionTime { zxid: 7, time: 1000 };

    fn create(tree: &mut Tree, path: &str, lifetime: Lifetime, at: TransactionTime) -> Change {
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
        create(&mut tree, "/a/b", Lifetime::Persistent, TransactionTime { zxid: 8, time: 1001 });
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
        let at = TransactionTime { zxid: 9, time: 2000 };
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

    /// The running totals equal the totals over all nodes.
    #[test]
    fn sums_are_kept_right() {
        let counted = |tree: &Tree| {
            let size = |(path, node): (&String, &Node)| path.len() + node.data.as_ref().map_or(0, Vec::len);
            let ephemeral = |node: &&Node| matches!(Lifetime::of(node.kept.owner), Lifetime::Ephemeral(_));
            (tree.nodes.iter().map(size).sum::<usize>(), tree.nodes.values().filter(ephemeral).count())
        };
        let mut tree = Tree::new();
        let mut changes = vec![
            create(&mut tree, "/a", Lifetime::Ephemeral(5), AT),
            create(&mut tree, "/b", Lifetime::Ephemeral(6), AT),
            tree.set_data("/a", Some(b"four".to_vec()), 1, AT).unwrap(),
            tree.set_data("/a", Some(b"x".to_vec()), 2, AT).unwrap(),
            tree.delete("/a", 9).unwrap(),
        ];
        assert_eq!((tree.data_size(), tree.ephemerals_count()), counted(&tree));
        while let Some(change) = changes.pop() {
            tree.undo(change);
            assert_eq!((tree.data_size(), tree.ephemerals_count()), counted(&tree));
        }
        assert_eq!(tree.data_size(), Tree::new().data_size());
    }

    #[test]
    fn sessions_nodes_are_found_by_the_beginning_of_their_paths() {
        let mut tree = Tree::new();
        for (path, session) in [("/a", 5), ("/b-1", 5), ("/b-2", 6), ("/b-3", 5), ("/c", 5)] {
            create(&mut tree, path, Lifetime::Ephemeral(session), AT);
        }
        assert_eq!(tree.ephemerals_below(5, "/b"), ["/b-1", "/b-3"]);
        assert_eq!(tree.ephemerals(6), ["/b-2"]);
        assert_eq!(tree.ephemerals_below(7, ""), Vec::<String>::new());
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
    fn the_root_has_two_names() {
        assert_eq!(Tree::new().get("").unwrap().stat(), Tree::new().get("/").unwrap().stat());
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
