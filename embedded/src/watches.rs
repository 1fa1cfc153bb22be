//! Watches, and the clients that each event notifies.

use std::collections::{BTreeMap, BTreeSet};

use crate::access::Acl;
use crate::connections::ConnectionId;
use crate::path;
use crate::tree::Change;

/// An event, with the number that is sent for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub(crate) enum Event {
    Created = 1,
    Deleted = 2,
    DataChanged = 3,
    ChildrenChanged = 4,
}

/// A mode of a watch. A watcher can have several modes on one path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Mode {
    /// Removed after one event.
    Once = 1,
    Persistent = 2,
    /// Covers the path and everything below it.
    Recursive = 4,
}

/// The kind of watch that a client asks about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Children,
    Data,
    Any,
    Persistent,
    Recursive,
}

impl Kind {
    pub(crate) fn from_number(number: i32) -> Option<Self> {
        Some(match number {
            1 => Kind::Children,
            2 => Kind::Data,
            3 => Kind::Any,
            4 => Kind::Persistent,
            5 => Kind::Recursive,
            _ => return None,
        })
    }
}

/// An event for one connection. It is sent only if the ACL allows the client to read the node.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Notice {
    pub(crate) to: ConnectionId,
    pub(crate) event: Event,
    pub(crate) path: String,
    pub(crate) acl: Acl,
}

/// The watchers of one path.
#[derive(Debug, Default)]
struct Watchers {
    /// The modes of each watcher, as bits.
    modes: BTreeMap<ConnectionId, u8>,
    /// The watchers that also receive events of nodes below the path. They are stored separately,
    /// so that the server need not scan all watchers for these events.
    recursive: BTreeSet<ConnectionId>,
}

/// The watches of one sort.
#[derive(Debug, Default)]
struct Table {
    by_path: BTreeMap<String, Watchers>,
    by_watcher: BTreeMap<ConnectionId, BTreeSet<String>>,
    /// Total number of watchers over all paths.
    len: usize,
}

const EVERY_MODE: u8 = Mode::Once as u8 | Mode::Persistent as u8 | Mode::Recursive as u8;

impl Table {
    fn add(&mut self, path: &str, watcher: ConnectionId, mode: Mode) {
        let watchers = self.by_path.entry(path.to_owned()).or_default();
        let modes = watchers.modes.entry(watcher).or_default();
        self.len += usize::from(*modes == 0);
        *modes |= mode as u8;
        if mode == Mode::Recursive {
            watchers.recursive.insert(watcher);
        }
        self.by_watcher.entry(watcher).or_default().insert(path.to_owned());
    }

    fn has(&self, path: &str, watcher: ConnectionId, modes: u8) -> bool {
        let has = self.by_path.get(path).and_then(|watchers| watchers.modes.get(&watcher));
        has.is_some_and(|has| has & modes != 0)
    }

    /// Removes the given modes from a watcher at a path. Returns whether the watcher had any of
    /// them.
    fn remove(&mut self, path: &str, watcher: ConnectionId, modes: u8) -> bool {
        let Some(watchers) = self.by_path.get_mut(path) else { return false };
        let Some(has) = watchers.modes.get_mut(&watcher) else { return false };
        let had = *has & modes != 0;
        *has &= !modes;
        let gone = *has == 0;
        if modes & Mode::Recursive as u8 != 0 {
            watchers.recursive.remove(&watcher);
        }
        if gone {
            self.len -= 1;
            watchers.modes.remove(&watcher);
            if watchers.modes.is_empty() {
                self.by_path.remove(path);
            }
            if let Some(paths) = self.by_watcher.get_mut(&watcher) {
                paths.remove(path);
                if paths.is_empty() {
                    self.by_watcher.remove(&watcher);
                }
            }
        }
        had
    }

    fn forget(&mut self, watcher: ConnectionId) {
        for path in self.by_watcher.get(&watcher).cloned().unwrap_or_default() {
            self.remove(&path, watcher, EVERY_MODE);
        }
    }

    /// Returns the watchers to notify of an event at a path, and removes their one-time watches on
    /// it.
    fn trigger(&mut self, path: &str) -> BTreeSet<ConnectionId> {
        if self.by_path.is_empty() {
            return BTreeSet::new();
        }
        let watchers = self.by_path.get(path).into_iter();
        let mut concerned: BTreeSet<ConnectionId> =
            watchers.flat_map(|watchers| watchers.modes.keys().copied()).collect();
        for watcher in &concerned {
            self.remove(path, *watcher, Mode::Once as u8);
        }
        for above in path::and_ancestors(path).skip(1) {
            concerned.extend(self.by_path.get(above).into_iter().flat_map(|above| &above.recursive));
        }
        concerned
    }
}

/// All watches. A watch belongs to a connection and is removed with it. Clients set their watches
/// again after a reconnection.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    /// Data watches, existence watches and recursive watches.
    data: Table,
    children: Table,
}

impl Watches {
    pub(crate) fn add_data(&mut self, path: &str, watcher: ConnectionId) {
        self.data.add(path, watcher, Mode::Once);
    }

    pub(crate) fn add_children(&mut self, path: &str, watcher: ConnectionId) {
        self.children.add(path, watcher, Mode::Once);
    }

    pub(crate) fn add_lasting(&mut self, path: &str, watcher: ConnectionId, mode: Mode) {
        self.data.add(path, watcher, mode);
        if mode != Mode::Recursive {
            self.children.add(path, watcher, mode);
        }
    }

    pub(crate) fn has(&self, path: &str, kind: Kind, watcher: ConnectionId) -> bool {
        match kind {
            Kind::Children => self.children.has(path, watcher, Mode::Once as u8),
            Kind::Data => self.data.has(path, watcher, Mode::Once as u8),
            Kind::Persistent => self.data.has(path, watcher, Mode::Persistent as u8),
            Kind::Recursive => self.data.has(path, watcher, Mode::Recursive as u8),
            Kind::Any => {
                self.children.has(path, watcher, EVERY_MODE) || self.data.has(path, watcher, EVERY_MODE)
            }
        }
    }

    /// Removes watches. Returns whether the client had one.
    pub(crate) fn remove(&mut self, path: &str, kind: Kind, watcher: ConnectionId) -> bool {
        match kind {
            Kind::Children => self.children.remove(path, watcher, Mode::Once as u8),
            Kind::Data => self.data.remove(path, watcher, Mode::Once as u8),
            Kind::Persistent => self.remove_both(path, watcher, Mode::Persistent as u8),
            Kind::Recursive => self.data.remove(path, watcher, Mode::Recursive as u8),
            Kind::Any => self.remove_both(path, watcher, EVERY_MODE),
        }
    }

    fn remove_both(&mut self, path: &str, watcher: ConnectionId, modes: u8) -> bool {
        let children = self.children.remove(path, watcher, modes);
        self.data.remove(path, watcher, modes) || children
    }

    /// Removes all watches of a closed connection.
    pub(crate) fn forget(&mut self, watcher: ConnectionId) {
        self.data.forget(watcher);
        self.children.forget(watcher);
    }

    /// Returns the events for a change, in sending order.
    pub(crate) fn trigger(&mut self, change: &Change) -> Vec<Notice> {
        let mut notices = Vec::new();
        let mut tell = |to: BTreeSet<ConnectionId>, event, path: &str, acl: &Acl| {
            notices.extend(to.into_iter().map(|to| Notice {
                to,
                event,
                path: path.to_owned(),
                acl: acl.clone(),
            }));
        };
        match change {
            Change::Created { path, acl, parent_acl, .. } => {
                let above = path::parent(path).unwrap_or("/");
                tell(self.data.trigger(path), Event::Created, path, acl);
                tell(self.children.trigger(above), Event::ChildrenChanged, above, parent_acl);
            }
            Change::Deleted { path, node, parent_acl, .. } => {
                let above = path::parent(path).unwrap_or("/");
                let data = self.data.trigger(path);
                let children = &self.children.trigger(path) - &data;
                tell(data, Event::Deleted, path, &node.acl);
                tell(children, Event::Deleted, path, &node.acl);
                tell(self.children.trigger(above), Event::ChildrenChanged, above, parent_acl);
            }
            Change::DataSet { path, acl, .. } => {
                tell(self.data.trigger(path), Event::DataChanged, path, acl);
            }
            Change::AclSet { .. } => {}
        }
        notices
    }

    /// Returns the number of clients with data watches, of the paths that they watch, and of data
    /// watches.
    pub(crate) fn summary(&self) -> (usize, usize, usize) {
        (self.data.by_watcher.len(), self.data.by_path.len(), self.data.len)
    }

    /// Returns each path with a data watch, and its watchers.
    pub(crate) fn watched(&self) -> impl Iterator<Item = (&str, impl Iterator<Item = ConnectionId>)> {
        self.data.by_path.iter().map(|(path, watchers)| (path.as_str(), watchers.modes.keys().copied()))
    }

    /// Returns the number of watches of all sorts.
    pub(crate) fn len(&self) -> usize {
        self.data.len + self.children.len
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access;
    use crate::node::{Node, StoredStat};

    const A: ConnectionId = ConnectionId(1);
    const B: ConnectionId = ConnectionId(2);

    fn created(path: &str) -> Change {
        let acl = access::open(access::ALL);
        Change::Created {
            path: path.to_owned(),
            acl: acl.clone(),
            parent: StoredStat::default(),
            parent_acl: acl,
        }
    }

    fn deleted(path: &str) -> Change {
        let acl = access::open(access::ALL);
        let node =
            Node { data: None, acl: acl.clone(), kept: StoredStat::default(), children: BTreeSet::new() };
        Change::Deleted { path: path.to_owned(), node, parent: StoredStat::default(), parent_acl: acl }
    }

    fn told(watches: &mut Watches, change: &Change) -> Vec<(u64, Event, String)> {
        watches.trigger(change).into_iter().map(|notice| (notice.to.0, notice.event, notice.path)).collect()
    }

    #[test]
    fn a_plain_watch_tells_once() {
        let mut watches = Watches::default();
        watches.add_data("/a", A);
        watches.add_children("/", B);
        let both = [(1, Event::Created, "/a".to_owned()), (2, Event::ChildrenChanged, "/".to_owned())];
        assert_eq!(told(&mut watches, &created("/a")), both);
        assert_eq!(told(&mut watches, &created("/a")), []);
    }

    #[test]
    fn a_deletion_is_told_once_to_a_watcher_of_data_and_children() {
        let mut watches = Watches::default();
        watches.add_data("/a", A);
        watches.add_children("/a", A);
        assert_eq!(told(&mut watches, &deleted("/a")), [(1, Event::Deleted, "/a".to_owned())]);
        assert_eq!(watches.len(), 0);
    }

    #[test]
    fn lasting_watches_stay_and_recursive_ones_look_below() {
        let mut watches = Watches::default();
        watches.add_lasting("/a", A, Mode::Persistent);
        watches.add_lasting("/a", B, Mode::Recursive);
        for _ in 0..2 {
            let both = [(2, Event::Created, "/a/b".to_owned()), (1, Event::ChildrenChanged, "/a".to_owned())];
            assert_eq!(told(&mut watches, &created("/a/b")), both);
        }
    }

    /// A removed recursive watch no longer covers the paths below, even if the client keeps another
    /// watch on the same path.
    #[test]
    fn a_recursive_watch_can_end_alone() {
        let mut watches = Watches::default();
        for mode in [Mode::Persistent, Mode::Recursive] {
            watches.add_lasting("/a", A, mode);
            watches.add_lasting("/a", B, mode);
        }
        assert_eq!(watches.len(), 4);
        assert!(watches.remove("/a", Kind::Recursive, A));
        let below = [(2, Event::Created, "/a/b/c".to_owned())];
        assert_eq!(told(&mut watches, &created("/a/b/c")), below);
        assert!(watches.has("/a", Kind::Persistent, A));
        watches.forget(B);
        assert_eq!((told(&mut watches, &created("/a/b/c")), watches.len()), (vec![], 2));
    }

    #[test]
    fn watches_are_found_and_removed_by_kind() {
        let mut watches = Watches::default();
        watches.add_data("/a", A);
        watches.add_lasting("/a", A, Mode::Persistent);
        assert!(!watches.has("/a", Kind::Children, A));
        assert!(watches.remove("/a", Kind::Data, A) && !watches.has("/a", Kind::Data, A));
        assert!(watches.has("/a", Kind::Any, A) && watches.remove("/a", Kind::Any, A));
        assert!(!watches.remove("/a", Kind::Any, A));
    }

    #[test]
    fn a_connections_watches_end_with_it() {
        let mut watches = Watches::default();
        watches.add_lasting("/a", A, Mode::Recursive);
        watches.add_children("/a", A);
        watches.forget(A);
        assert_eq!(watches.len(), 0);
        assert_eq!(told(&mut watches, &created("/a/b")), []);
    }
}
