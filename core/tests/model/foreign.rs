//! A foreign contender, such as a service that uses Curator. It creates a node, lists the
//! directory, and waits until its node is first.
//!
//! It is connected to the leader and always sees the current state. This is enough, because the
//! model only examines the effect on our clients.

use zklock::queue::{Kind, NodeName};

use super::server::{Server, SessionId};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Stage {
    Away,
    Queued(NodeName),
    Held(NodeName),
    /// A downgrade by Curator is half done: the reader's node and the writer's node both exist.
    Downgrading(NodeName, NodeName),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Foreign {
    number: u64,
    session: SessionId,
    attempts: u32,
    stage: Stage,
    /// Session of a process that died, until the ensemble ends that session.
    dead: Option<SessionId>,
}

impl Foreign {
    pub(crate) fn new(number: u64, server: &mut Server) -> Self {
        Self { number, session: server.begin_session(), attempts: 0, stage: Stage::Away, dead: None }
    }

    /// Returns the node through which the contender holds the lock.
    pub(crate) fn held(&self) -> Option<&NodeName> {
        match &self.stage {
            Stage::Held(node) | Stage::Downgrading(node, _) => Some(node),
            Stage::Away | Stage::Queued(_) => None,
        }
    }

    pub(crate) fn is_away(&self) -> bool {
        self.stage == Stage::Away
    }

    pub(crate) fn is_queued(&self) -> bool {
        matches!(self.stage, Stage::Queued(_))
    }

    /// Returns `true` if the contender does not hold the lock and another listing of the directory
    /// would not change its state.
    pub(crate) fn is_at_rest(&self, server: &Server) -> bool {
        let mut next = self.clone();
        next.look(server);
        self.held().is_none() && next == *self
    }

    /// Makes the contender join the queue, unless it has already joined.
    pub(crate) fn enter(&mut self, kind: Kind, server: &mut Server) {
        if !self.is_away() {
            return;
        }
        if !server.is_alive(self.session) {
            self.session = server.begin_session();
        }
        self.attempts += 1;
        let (number, attempt) = (self.number, self.attempts);
        let tail = match kind {
            Kind::Exclusive => "-lock-",
            Kind::Write => "-__WRIT__",
            Kind::Read => "-__READ__",
            Kind::Permit(_) => "-lease-",
            Kind::Lead => "-latch-",
        };
        server.make_directory(0);
        let prefix = format!("_c_f{number:07}-0000-4000-8000-{attempt:012}{tail}");
        let (name, _) =
            server.create_sequential(0, self.session, &prefix).expect("the directory was just made");
        self.stage = Stage::Queued(NodeName::parse(&name).expect("a sequential name"));
    }

    /// Checks whether the contender is first. Returns `true` if it now holds the lock.
    pub(crate) fn look(&mut self, server: &Server) -> bool {
        let Stage::Queued(node) = &self.stage else {
            return false;
        };
        if !server.exists(node.as_str()) {
            self.stage = Stage::Away;
            return false;
        }
        let children = server.children_at(0, server.now);
        let mut others = children.iter().filter_map(|child| NodeName::parse(child));
        let first = others.all(|other| other >= *node || !conflict(node.kind(), other.kind()));
        if first {
            self.stage = Stage::Held(node.clone());
        }
        first
    }

    /// Releases the lock or leaves the queue.
    pub(crate) fn leave(&mut self, server: &mut Server) {
        let nodes = match std::mem::replace(&mut self.stage, Stage::Away) {
            Stage::Away => Vec::new(),
            Stage::Queued(node) | Stage::Held(node) => vec![node],
            Stage::Downgrading(writer, reader) => vec![writer, reader],
        };
        for node in nodes {
            server.delete(node.as_str()).ok();
        }
    }

    /// Takes one of two steps of a downgrade: first it creates the reader's node with the writer's
    /// number, then it deletes the writer's node.
    pub(crate) fn downgrade(&mut self, server: &mut Server) {
        match &self.stage {
            Stage::Held(writer) if writer.kind() == Kind::Write && server.exists(writer.as_str()) => {
                let name = writer.as_str().replace("__WRIT__", "__READ__");
                server
                    .create(0, name.clone(), Some(self.session))
                    .expect("the directory has a child, and not this one");
                let reader = NodeName::parse(&name).expect("a sequential name");
                self.stage = Stage::Downgrading(writer.clone(), reader);
            }
            Stage::Downgrading(writer, reader) => {
                server.delete(writer.as_str()).ok();
                self.stage = Stage::Held(reader.clone());
            }
            _ => {}
        }
    }

    /// Kills the contender's process. Its session and its nodes remain until the ensemble ends the
    /// session.
    pub(crate) fn crash(&mut self, server: &mut Server) {
        self.expire_dead_session(server);
        self.dead = Some(std::mem::replace(&mut self.session, server.begin_session()));
        self.stage = Stage::Away;
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.dead.is_some()
    }

    pub(crate) fn expire_dead_session(&mut self, server: &mut Server) {
        if let Some(session) = self.dead.take() {
            server.expire(session);
        }
    }
}

pub(super) fn conflict(one: Kind, other: Kind) -> bool {
    let exclusive = |kind| matches!(kind, Kind::Exclusive | Kind::Write | Kind::Lead);
    let counted = |kind| matches!(kind, Kind::Permit(_));
    !counted(one) && !counted(other) && (exclusive(one) || exclusive(other))
}
