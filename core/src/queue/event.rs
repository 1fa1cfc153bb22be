//! The events that a queue handles, and the types used in them.

use super::node_name::{Kind, Naming, NodeName};

/// Identifies one attempt to acquire the lock, until the lock is granted or refused. A hold is
/// identified by its node instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JoinId(pub u64);

/// Identifies a request of a queue. Each new request has a higher ticket than all earlier ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// The way in which a contender joins.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Intent {
    /// The contender joins the queue and waits.
    Wait,
    /// The contender first lists the directory and joins the queue only if the lock seems free
    /// (rule 14).
    Try,
    /// The contender first lists the directory. It joins the queue only if the lock seems free or
    /// fewer than this number of contenders wait for it (rule 14). After it has joined, it waits
    /// like any other contender.
    WaitIfFewer(u32),
    /// The contender is a reader, and its owner holds the write lock (Curator's downgrade). The
    /// reader's node gets the same position in the queue as the writer's node. If the writer's node
    /// no longer exists, the reader proceeds like any other reader.
    Downgrade {
        /// The writer's node. Boxed to save memory, because each waiter has an intent and few
        /// intents are downgrades.
        writer: Box<NodeName>,
        /// `true` if the reader must never wait, even if it cannot get the writer's position in the
        /// queue (rule 21).
        tries: bool,
    },
}

impl Intent {
    /// Returns `true` if the contender must not wait. This also applies to a downgrade that cannot
    /// get the writer's position in the queue.
    #[must_use]
    pub fn only_tries(&self) -> bool {
        matches!(self, Self::Try | Self::Downgrade { tries: true, .. })
    }

    /// Returns `true` if the contender lists the directory before it creates a node.
    #[must_use]
    pub(super) fn looks_first(&self) -> bool {
        matches!(self, Self::Try | Self::WaitIfFewer(_))
    }

    /// Returns the intent of a reader that takes over this writer's position in the queue.
    #[must_use]
    pub fn in_place_of(&self, writer: NodeName) -> Self {
        Self::Downgrade { writer: Box::new(writer), tries: self.only_tries() }
    }

    /// Returns the same intent, but without a writer's position.
    #[must_use]
    pub(super) fn without_place(&self) -> Self {
        match self {
            Self::Downgrade { tries: true, .. } => Self::Try,
            Self::Downgrade { tries: false, .. } => Self::Wait,
            other => other.clone(),
        }
    }
}

/// The outcome of a request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Outcome<T> {
    /// The server carried out the request.
    Done(T),
    /// The node or its parent does not exist.
    NoNode,
    /// The outcome is unknown, because no reply arrived before the connection was lost.
    Lost,
    /// The server refused the request and would refuse it again.
    Refused(Refusal),
}

/// The reason why a contender cannot have the lock.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// Another contender has the lock, and this one only tried.
    Busy,
    /// Another contender holds the lock, and this number of contenders wait for it. The number has
    /// reached the contender's limit.
    Full(usize),
    /// The directory's sequence counter is close to its maximum and would overflow.
    SequenceExhausted,
    /// The access control lists do not permit the request.
    NotAuthorized,
    /// The directory contains this node of a kazoo contender. kazoo ignores the nodes of election
    /// candidates, so the kazoo contender and a candidate could lead at the same time.
    BesideKazoo(NodeName),
    /// The directory is too large to list. The string describes its size.
    TooLarge(String),
    /// The server refuses for another reason.
    Server(String),
}

/// An event that a queue handles.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// A local contender wants the lock.
    Join(JoinId, Naming, Kind, Intent),
    /// The owner of this waiting reader now holds the lock as a writer, with this node (a
    /// downgrade). The reader gets the writer's position in the queue, because an owner must not
    /// wait for itself.
    Downgrade(JoinId, NodeName),
    /// A contender no longer wants the lock. Ignored if the contender already holds the lock,
    /// because only a release ends a hold.
    Leave(JoinId),
    /// The hold on this node is released.
    Release(NodeName),
    /// The hold on this node has lasted so long that the node must be watched (rule 12).
    WatchHold(NodeName),
    /// A session began. The random seed determines the names of the session's nodes.
    SessionBegan(u64),
    /// The session is over, and its nodes are gone.
    SessionLost,
    /// The session has a connection.
    Connected,
    /// The session has lost its connection.
    Disconnected,
    /// A reply on this connection has shown that the session is alive, and enough of its term is
    /// left for a hold to begin. The *term* is the time during which the session's nodes are
    /// certain to exist.
    TermBegan,
    /// The conditions of `TermBegan` no longer apply. If the term is over, another client might
    /// already have received this client's lock. Therefore, the driver ends this client's holds
    /// before it sends this event.
    TermEnded,
    /// No news about this directory has arrived for a long time, so the queue must list it again or
    /// check whether certain nodes exist (rule 10).
    Resync,
    /// Enough time has passed that the server can no longer carry out the create with this ticket.
    /// The outcome of the create was unknown (rule 8).
    Certain(Ticket),
    /// The outcome of `Action::Create`: the node's name and czxid.
    Created(Ticket, Outcome<(String, i64)>),
    /// The outcome of `Action::CreateInPlace` if the session has no permission to check the
    /// writer's node. No node was created.
    CheckForbidden(Ticket),
    /// The outcome of `Action::MakeParents`.
    ParentsMade(Ticket, Outcome<()>),
    /// The outcome of `Action::List`: the children's names.
    Listed(Ticket, Outcome<Vec<String>>),
    /// The outcome of `Action::Probe`: the probed nodes that do not exist. All other nodes might
    /// exist or not.
    Probed(Ticket, Outcome<Vec<NodeName>>),
    /// The outcome of `Action::Verify`: the node's czxid if the node belongs to this session, or
    /// else `None`.
    Verified(Ticket, Outcome<Option<i64>>),
    /// The outcome of `Action::Watch`.
    Watched(Ticket, Outcome<()>),
    /// A watched node is gone.
    Gone(Ticket),
    /// The heartbeat found that a node of ours is gone.
    Missing(NodeName),
    /// The data of a watched node or the list of watched children changed. The watch has fired, so
    /// it must be set again if it is still needed.
    Changed(Ticket),
    /// The outcome of `Action::Delete`.
    Deleted(Ticket, Outcome<()>),
}

impl Event {
    /// Returns `true` if this is the outcome of a request whose reply was lost.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        matches!(
            self,
            Self::Created(_, Outcome::Lost)
                | Self::ParentsMade(_, Outcome::Lost)
                | Self::Listed(_, Outcome::Lost)
                | Self::Probed(_, Outcome::Lost)
                | Self::Verified(_, Outcome::Lost)
                | Self::Watched(_, Outcome::Lost)
                | Self::Deleted(_, Outcome::Lost)
        )
    }

    /// Returns `true` if this is the outcome of a write.
    pub(crate) fn is_written(&self) -> bool {
        matches!(self, Self::Created(..) | Self::ParentsMade(..) | Self::Deleted(..))
    }

    /// Returns `true` if this is the outcome of a request.
    pub(crate) fn is_outcome(&self) -> bool {
        matches!(
            self,
            Self::Created(..)
                | Self::ParentsMade(..)
                | Self::Listed(..)
                | Self::Probed(..)
                | Self::Verified(..)
                | Self::Watched(..)
                | Self::Deleted(..)
        )
    }
}
