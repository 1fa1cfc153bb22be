//! One lock directory on a ZooKeeper ensemble, in all its versions.
//!
//! The leader's transactions are the truth. A server that a client talks to may have applied only a part of them, so
//! nodes keep the transactions that created and removed them, and everything is read *at* a transaction number.

use std::collections::BTreeMap;

use zklock::reply::NodeOwner;
use zookeeper_client::Error;

/// A transaction number.
pub(crate) type Zxid = i64;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SessionId(pub(crate) u32);

impl SessionId {
    /// As a node's Stat names its owner; zero is no one.
    pub(super) fn number(self) -> i64 {
        i64::from(self.0) + 1
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Node {
    /// None for a node that is not ephemeral.
    pub(crate) owner: Option<SessionId>,
    pub(crate) made: Zxid,
    /// When its data was changed. Once at most: a one-shot watch reports no more.
    pub(crate) changed: Option<Zxid>,
    pub(crate) gone: Option<Zxid>,
    /// Whether an operator deleted it.
    pub(crate) deleted_by_operator: bool,
}

impl Node {
    /// What is read in its Stat.
    pub(super) fn found(&self) -> NodeOwner {
        NodeOwner { owner: self.owner.map_or(0, SessionId::number), czxid: self.made }
    }

    fn exists_at(&self, at: Zxid) -> bool {
        self.made <= at && self.gone.is_none_or(|gone| at < gone)
    }
}

/// What a watch reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Fired {
    Deleted,
    Changed,
}

/// What access control lists can forbid. Not deletion: a node that must not be deleted could only be left behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Permission {
    Create,
    List,
    Read,
}

/// Why a write was not carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    NoNode,
    NodeExists,
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::NoNode => Self::NoNode,
            Failure::NodeExists => Self::NodeExists,
        }
    }
}

/// The name that stands for the directory itself among watches: the watch on its children.
pub(crate) const CHILDREN: &str = "";

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Server {
    pub(crate) now: Zxid,
    /// When the directory was created and removed, oldest first.
    directory: Vec<(Zxid, Option<Zxid>)>,
    pub(crate) next_sequence: u32,
    pub(crate) nodes: BTreeMap<String, Node>,
    /// When each session expired, if it did.
    sessions: BTreeMap<SessionId, Option<Zxid>>,
    pub(crate) forbidden: Option<Permission>,
    /// Whether reading was ever forbidden, and with it the check of a node.
    pub(crate) reading_was_forbidden: bool,
    /// Whether an event that a watch should have reported was ever not reported.
    pub(crate) event_was_missed: bool,
}

impl Server {
    /// A server with an empty lock directory, or without one.
    pub(crate) fn new(directory: bool) -> Self {
        let directory = if directory { vec![(0, None)] } else { Vec::new() };
        let (nodes, sessions) = (BTreeMap::new(), BTreeMap::new());
        Self {
            now: 0,
            directory,
            next_sequence: 0,
            nodes,
            sessions,
            forbidden: None,
            reading_was_forbidden: false,
            event_was_missed: false,
        }
    }

    pub(crate) fn begin_session(&mut self) -> SessionId {
        let id = SessionId(u32::try_from(self.sessions.len()).expect("few sessions"));
        self.sessions.insert(id, None);
        id
    }

    pub(crate) fn is_alive(&self, session: SessionId) -> bool {
        self.sessions[&session].is_none()
    }

    pub(crate) fn expired_at(&self, session: SessionId) -> Option<Zxid> {
        self.sessions[&session]
    }

    /// Ends a session, and with it its nodes, in one transaction.
    pub(crate) fn expire(&mut self, session: SessionId) {
        if !self.is_alive(session) {
            return;
        }
        self.now += 1;
        self.sessions.insert(session, Some(self.now));
        for node in self.nodes.values_mut().filter(|node| node.owner == Some(session)) {
            node.gone.get_or_insert(self.now);
        }
    }

    pub(crate) fn create_sequential(
        &mut self,
        owner: SessionId,
        prefix: &str,
    ) -> Result<(String, Zxid), Failure> {
        // A signed number of 32 bits, whatever that means for the names.
        let name = format!("{prefix}{:010}", i32::from_ne_bytes(self.next_sequence.to_ne_bytes()));
        let made = self.create(name.clone(), Some(owner))?;
        self.next_sequence += 1;
        Ok((name, made))
    }

    /// Creates a node with just this name.
    pub(crate) fn create(&mut self, name: String, owner: Option<SessionId>) -> Result<Zxid, Failure> {
        if !self.has_directory() {
            return Err(Failure::NoNode);
        }
        if self.exists(&name) {
            return Err(Failure::NodeExists);
        }
        self.now += 1;
        let node = Node { owner, made: self.now, changed: None, gone: None, deleted_by_operator: false };
        self.nodes.insert(name, node);
        Ok(self.now)
    }

    pub(crate) fn delete(&mut self, name: &str) -> Result<(), Failure> {
        match self.nodes.get_mut(name) {
            Some(node) if node.gone.is_none() => {
                self.now += 1;
                node.gone = Some(self.now);
                Ok(())
            }
            _ => Err(Failure::NoNode),
        }
    }

    pub(crate) fn delete_as_operator(&mut self, name: &str) {
        if self.delete(name).is_ok() {
            self.nodes.get_mut(name).expect("just deleted").deleted_by_operator = true;
        }
    }

    pub(crate) fn change(&mut self, name: &str) {
        if let Some(node) =
            self.nodes.get_mut(name).filter(|node| node.gone.is_none() && node.changed.is_none())
        {
            self.now += 1;
            node.changed = Some(self.now);
        }
    }

    pub(crate) fn has_directory(&self) -> bool {
        self.has_directory_at(self.now)
    }

    pub(crate) fn make_directory(&mut self) {
        if !self.has_directory() {
            self.now += 1;
            self.directory.push((self.now, None));
            self.next_sequence = 0;
        }
    }

    /// Removes the directory if it is empty, as the server does with idle containers.
    pub(crate) fn reap(&mut self) {
        if self.has_directory() && self.children_at(self.now).is_empty() {
            self.now += 1;
            self.directory.last_mut().expect("the directory exists").1 = Some(self.now);
        }
    }

    pub(crate) fn has_directory_at(&self, at: Zxid) -> bool {
        self.directory.iter().any(|(made, gone)| *made <= at && gone.is_none_or(|gone| at < gone))
    }

    pub(crate) fn children_at(&self, at: Zxid) -> Vec<String> {
        self.nodes.iter().filter(|(_, node)| node.exists_at(at)).map(|(name, _)| name.clone()).collect()
    }

    pub(crate) fn node_at(&self, name: &str, at: Zxid) -> Option<&Node> {
        self.nodes.get(name).filter(|node| node.exists_at(at))
    }

    pub(crate) fn exists(&self, name: &str) -> bool {
        self.node_at(name, self.now).is_some()
    }

    /// Whether the thing that a watch is set on exists: a node, or the directory.
    pub(crate) fn can_watch(&self, name: &str, at: Zxid) -> bool {
        if name == CHILDREN { self.has_directory_at(at) } else { self.node_at(name, at).is_some() }
    }

    /// What happened to a node, or to the children, in one transaction.
    pub(crate) fn fired(&self, name: &str, at: Zxid) -> Option<Fired> {
        if name == CHILDREN {
            return self.fired_for_children(at);
        }
        let node = self.nodes.get(name)?;
        if node.gone == Some(at) {
            Some(Fired::Deleted)
        } else if node.changed == Some(at) {
            Some(Fired::Changed)
        } else {
            None
        }
    }

    fn fired_for_children(&self, at: Zxid) -> Option<Fired> {
        if self.directory.iter().any(|(_, gone)| *gone == Some(at)) {
            return Some(Fired::Deleted);
        }
        self.nodes.values().any(|node| node.made == at || node.gone == Some(at)).then_some(Fired::Changed)
    }
}
