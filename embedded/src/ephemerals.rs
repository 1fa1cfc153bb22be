//! Indexes the nodes that the server removes without a request (ephemeral nodes, containers and TTL
//! nodes), and keeps totals of all nodes. The index is stored next to the tree, so that no query
//! scans all nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Included, Unbounded};

use crate::node::{Lifetime, Node};

/// Totals and indexes over all nodes.
#[derive(Debug, Default)]
pub(crate) struct Owned {
    by_session: BTreeMap<i64, BTreeSet<String>>,
    ephemerals: usize,
    /// Paths of containers and TTL nodes.
    perishable: BTreeSet<String>,
    /// Total size of all data and paths in bytes.
    size: usize,
}

impl Owned {
    /// Records that a node was added to the tree.
    pub(crate) fn add(&mut self, path: &str, node: &Node) {
        self.size += size(path, node);
        match Lifetime::of(node.kept.owner) {
            Lifetime::Persistent => {}
            Lifetime::Container | Lifetime::Ttl(_) => {
                self.perishable.insert(path.to_owned());
            }
            Lifetime::Ephemeral(session) => {
                self.ephemerals += 1;
                self.by_session.entry(session).or_default().insert(path.to_owned());
            }
        }
    }

    /// Records that a node was removed. `node` is its last state.
    pub(crate) fn remove(&mut self, path: &str, node: &Node) {
        self.size -= size(path, node);
        match Lifetime::of(node.kept.owner) {
            Lifetime::Persistent => {}
            Lifetime::Container | Lifetime::Ttl(_) => {
                self.perishable.remove(path);
            }
            Lifetime::Ephemeral(session) => {
                self.ephemerals -= 1;
                if let Some(paths) = self.by_session.get_mut(&session) {
                    paths.remove(path);
                    if paths.is_empty() {
                        self.by_session.remove(&session);
                    }
                }
            }
        }
    }

    /// Records that a node's data was replaced.
    pub(crate) fn resize(&mut self, before: Option<&Vec<u8>>, after: Option<&Vec<u8>>) {
        self.size = self.size + after.map_or(0, Vec::len) - before.map_or(0, Vec::len);
    }

    pub(crate) fn of_session<'a>(
        &'a self,
        session: i64,
        prefix: &'a str,
    ) -> impl Iterator<Item = &'a String> {
        let paths = self.by_session.get(&session).into_iter();
        let begun = paths.flat_map(move |paths| paths.range::<str, _>((Included(prefix), Unbounded)));
        begun.take_while(move |path| path.starts_with(prefix))
    }

    /// Returns the sessions that own ephemeral nodes.
    pub(crate) fn sessions(&self) -> impl Iterator<Item = i64> {
        self.by_session.keys().copied()
    }

    pub(crate) fn ephemerals(&self) -> usize {
        self.ephemerals
    }

    pub(crate) fn perishable(&self) -> impl Iterator<Item = &String> {
        self.perishable.iter()
    }

    pub(crate) fn size(&self) -> usize {
        self.size
    }
}

fn size(path: &str, node: &Node) -> usize {
    path.len() + node.data.as_ref().map_or(0, Vec::len)
}
