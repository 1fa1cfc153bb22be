//! The lock directories on a ZooKeeper ensemble, in all their versions.
//!
//! The leader's transactions define the state. A client's server may have applied only some of
//! them. Nodes therefore store the transactions that created and removed them, and every read
//! refers to a transaction number.

use std::collections::BTreeMap;

use zklock::reply::NodeOwner;
use zookeeper_client::Error;

use super::clock::Clock;
use super::mutants::Mutant;

/// A transaction number.
pub(crate) type Zxid = i64;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SessionId(pub(crate) u32);

impl SessionId {
    /// Returns the owner number in a node's Stat. Zero means no owner.
    pub(super) fn number(self) -> i64 {
        i64::from(self.0) + 1
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Node {
    /// Number of its directory.
    pub(crate) directory: usize,
    /// `None` for a node that is not ephemeral.
    pub(crate) owner: Option<SessionId>,
    pub(crate) made: Zxid,
    /// Transaction of a change to the node's data. One transaction is enough, because a one-shot
    /// watch reports only the first change.
    pub(crate) changed: Option<Zxid>,
    pub(crate) gone: Option<Zxid>,
    /// `true` if an operator deleted it.
    pub(crate) deleted_by_operator: bool,
}

impl Node {
    /// Returns the data of its Stat.
    pub(super) fn found(&self) -> NodeOwner {
        NodeOwner { owner: self.owner.map_or(0, SessionId::number), czxid: self.made }
    }

    fn exists_at(&self, at: Zxid) -> bool {
        self.made <= at && self.gone.is_none_or(|gone| at < gone)
    }
}

/// The event of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Fired {
    Deleted,
    Changed,
}

/// A permission that an ACL can deny. The model never denies deletion, because that would only
/// leave nodes behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Permission {
    Create,
    List,
    Read,
}

/// The reason why a write failed.
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

/// Returns the name that identifies the watch on a directory's children. No node has this name.
pub(crate) fn children_of(directory: usize) -> String {
    format!("/{directory}")
}

/// Returns the directory of a children watch with this name.
pub(crate) fn watched_directory(name: &str) -> Option<usize> {
    name.strip_prefix('/')?.parse().ok()
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Directory {
    /// The transactions of each creation and removal, oldest first.
    lives: Vec<(Zxid, Option<Zxid>)>,
    pub(crate) next_sequence: u32,
}

impl Directory {
    fn exists_at(&self, at: Zxid) -> bool {
        self.lives.iter().any(|(made, gone)| *made <= at && gone.is_none_or(|gone| at < gone))
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Server {
    pub(crate) now: Zxid,
    pub(crate) directories: Vec<Directory>,
    /// The nodes of all directories. Names are unique across directories.
    pub(crate) nodes: BTreeMap<String, Node>,
    /// For each session, the transaction that ended it, if any.
    sessions: BTreeMap<SessionId, Option<Zxid>>,
    /// The clock, in scenes in which time passes.
    pub(crate) clock: Option<Clock>,
    pub(crate) forbidden: Option<Permission>,
    /// `true` if read permission was ever denied. The check that a node exists needs that
    /// permission.
    pub(crate) reading_was_forbidden: bool,
    /// `true` if a watch event was ever dropped.
    pub(crate) event_was_missed: bool,
}

impl Server {
    /// Creates a server with this many lock directories, which are empty or do not exist yet.
    pub(crate) fn new(directories: usize, exist: bool) -> Self {
        let lives = if exist { vec![(0, None)] } else { Vec::new() };
        let directories = vec![Directory { lives, next_sequence: 0 }; directories];
        let (nodes, sessions) = (BTreeMap::new(), BTreeMap::new());
        Self {
            now: 0,
            directories,
            nodes,
            sessions,
            clock: None,
            forbidden: None,
            reading_was_forbidden: false,
            event_was_missed: false,
        }
    }

    pub(crate) fn begin_session(&mut self) -> SessionId {
        let id = SessionId(u32::try_from(self.sessions.len()).expect("few sessions"));
        self.sessions.insert(id, None);
        self.hear(id);
        id
    }

    pub(crate) fn start_clock(&mut self, mutant: Option<Mutant>) {
        self.clock = Some(Clock::new(mutant, self.sessions.keys().copied()));
    }

    /// Records that the leader received a message from a session.
    pub(super) fn hear(&mut self, session: SessionId) {
        if let Some(clock) = &mut self.clock {
            clock.hear(session);
        }
    }

    pub(crate) fn may_expire(&self, session: SessionId) -> bool {
        self.clock.as_ref().is_some_and(|clock| self.is_alive(session) && clock.may_expire(session))
    }

    pub(crate) fn is_alive(&self, session: SessionId) -> bool {
        self.sessions[&session].is_none()
    }

    pub(crate) fn expired_at(&self, session: SessionId) -> Option<Zxid> {
        self.sessions[&session]
    }

    /// Ends a session and deletes its nodes in one transaction.
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
        directory: usize,
        owner: SessionId,
        prefix: &str,
    ) -> Result<(String, Zxid), Failure> {
        // The sequence number is a signed 32-bit number, as on the real server. It can wrap to
        // negative.
        let next = self.directories[directory].next_sequence;
        let name = format!("{prefix}{:010}", i32::from_ne_bytes(next.to_ne_bytes()));
        let made = self.create(directory, name.clone(), Some(owner))?;
        self.directories[directory].next_sequence += 1;
        Ok((name, made))
    }

    pub(crate) fn create(
        &mut self,
        directory: usize,
        name: String,
        owner: Option<SessionId>,
    ) -> Result<Zxid, Failure> {
        if !self.has_directory(directory) {
            return Err(Failure::NoNode);
        }
        if self.exists(&name) {
            return Err(Failure::NodeExists);
        }
        self.now += 1;
        let node =
            Node { directory, owner, made: self.now, changed: None, gone: None, deleted_by_operator: false };
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

    pub(crate) fn has_directory(&self, directory: usize) -> bool {
        self.has_directory_at(directory, self.now)
    }

    pub(crate) fn make_directory(&mut self, directory: usize) {
        if !self.has_directory(directory) {
            self.now += 1;
            self.directories[directory].lives.push((self.now, None));
            self.directories[directory].next_sequence = 0;
        }
    }

    /// Removes the first directory if it is empty, as the server does with idle containers.
    pub(crate) fn reap(&mut self) {
        if self.has_directory(0) && self.children_at(0, self.now).is_empty() {
            self.now += 1;
            self.directories[0].lives.last_mut().expect("the directory exists").1 = Some(self.now);
        }
    }

    pub(crate) fn has_directory_at(&self, directory: usize, at: Zxid) -> bool {
        self.directories[directory].exists_at(at)
    }

    pub(crate) fn children_at(&self, directory: usize, at: Zxid) -> Vec<String> {
        let is_there = |(_, node): &(&String, &Node)| node.directory == directory && node.exists_at(at);
        self.nodes.iter().filter(is_there).map(|(name, _)| name.clone()).collect()
    }

    pub(crate) fn all_children(&self) -> Vec<String> {
        let all = 0..self.directories.len();
        all.flat_map(|directory| self.children_at(directory, self.now)).collect()
    }

    pub(crate) fn node_at(&self, name: &str, at: Zxid) -> Option<&Node> {
        self.nodes.get(name).filter(|node| node.exists_at(at))
    }

    pub(crate) fn exists(&self, name: &str) -> bool {
        self.node_at(name, self.now).is_some()
    }

    /// Returns `true` if the target of a watch exists: a node or a directory.
    pub(crate) fn can_watch(&self, name: &str, at: Zxid) -> bool {
        match watched_directory(name) {
            Some(directory) => self.has_directory_at(directory, at),
            None => self.node_at(name, at).is_some(),
        }
    }

    /// Returns the watch event that one transaction causes for a node or for a directory's
    /// children.
    pub(crate) fn fired(&self, name: &str, at: Zxid) -> Option<Fired> {
        if let Some(directory) = watched_directory(name) {
            return self.fired_for_children(directory, at);
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

    fn fired_for_children(&self, directory: usize, at: Zxid) -> Option<Fired> {
        if self.directories[directory].lives.iter().any(|(_, gone)| *gone == Some(at)) {
            return Some(Fired::Deleted);
        }
        let concerns =
            |node: &Node| node.directory == directory && (node.made == at || node.gone == Some(at));
        self.nodes.values().any(concerns).then_some(Fired::Changed)
    }
}
