//! The events that a queue handles, and the types used in them.

use super::node_name::{Kind, Naming, NodeName};

/// Identifies one attempt to acquire the lock. The attempt ends when it is granted or refused. A
/// hold is identified by its node instead.
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
    /// fewer than this number of contenders wait for it (rule 14). Once it has joined, it waits
    /// like any other contender.
    WaitIfFewer(u32),
    /// The contender is a reader whose node takes the place of a writer's node in the queue, as in
    /// Curator's downgrade. The reader's owner holds the write lock. If the writer's node no longer
    /// exists, the reader proceeds like any other reader.
    Downgrade {
        /// The writer's node. Boxed to save memory, because each waiter has an intent and few
        /// intents are downgrades.
        writer: Box<NodeName>,
        /// `true` if the reader is a try. Such a reader never waits, even if it loses the writer's
        /// place in the queue (rule 21).
        tries: bool,
    },
}

impl Intent {
    /// Returns `true` if the contender only tries, never waiting. A downgrade remains a try if the
    /// contender loses the writer's place.
    #[must_use]
    pub fn only_tries(&self) -> bool {
        matches!(self, Self::Try | Self::Downgrade { tries: true, .. })
    }

    /// Returns `true` if the contender lists the directory before it creates a node.
    #[must_use]
    pub(super) fn looks_first(&self) -> bool {
        matches!(self, Self::Try | Self::WaitIfFewer(_))
    }

    /// Returns the same intent, but as a downgrade that takes the place of this writer's node.
    #[must_use]
    pub fn in_place_of(&self, writer: NodeName) -> Self {
        Self::Downgrade { writer: Box::new(writer), tries: self.only_tries() }
    }

    /// Returns the same intent, but without a writer's place.
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
    /// Another contender holds the lock, and the number of waiters has reached the contender's
    /// limit. This is the number of waiters.
    Full(usize),
    /// The directory's sequence counter is close to its maximum, where it would overflow.
    SequenceExhausted,
    /// The access control lists do not permit the request.
    NotAuthorized,
    /// An election candidate cannot contend next to this node, whose name is that of a kazoo lock's
    /// node. Contenders on kazoo do not recognize candidates, so a kazoo contender and a candidate
    /// could lead at the same time.
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
    /// A downgrade: the owner of this waiting reader now holds the lock as a writer, with this node.
    /// The reader takes the writer's place in the queue, because an owner must not wait for itself.
    Downgrade(JoinId, NodeName),
    /// A contender no longer wants the lock. Ignored if the contender already holds the lock,
    /// because only a release ends a hold.
    Leave(JoinId),
    /// The hold on this node is released.
    Release(NodeName),
    /// The hold on this node has lasted so long that its node must be watched (rule 12).
    WatchHold(NodeName),
    /// A session began. The seed is random. The names of the session's nodes are derived from it.
    SessionBegan(u64),
    /// The session is over, and its nodes are gone.
    SessionLost,
    /// The session has a connection.
    Connected,
    /// The session has lost its connection.
    Disconnected,
    /// A reply on this connection has proven that the session is alive, and enough of its term is
    /// left for a hold to begin. The *term* is the time during which the session's nodes are
    /// certain to exist.
    TermBegan,
    /// The conditions of `TermBegan` no longer apply. If the term is over, another client might
    /// already hold a lock that this client believes it holds. Therefore, the driver ends this
    /// client's holds before it sends this event.
    TermEnded,
    /// The server has been silent about this directory for a long time, so the queue must list or
    /// probe the directory again (rule 10).
    Resync,
    /// The create with this ticket, whose outcome was unknown, can no longer be carried out,
    /// because enough time has passed (rule 8).
    Certain(Ticket),
    /// The outcome of `Action::Create`: the node's name and czxid.
    Created(Ticket, Outcome<(String, i64)>),
    /// The outcome of `Action::CreateInPlace` if the session is not permitted to check the writer's
    /// node. Nothing was created.
    CheckForbidden(Ticket),
    /// The outcome of `Action::MakeParents`.
    ParentsMade(Ticket, Outcome<()>),
    /// The outcome of `Action::List`: the children's names.
    Listed(Ticket, Outcome<Vec<String>>),
    /// The outcome of `Action::Probe`: the probed nodes that do not exist. It proves nothing about
    /// the nodes that it does not list.
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
    /// The data of a watched node changed, or the watched children changed. The watch has fired, so
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
