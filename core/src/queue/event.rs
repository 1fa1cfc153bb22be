//! What a queue is told: its events, and the words that they are made of.

use super::node_name::{Kind, Naming, NodeName};

/// One attempt to hold the lock. It ends when it is granted or refused: a hold is identified by its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JoinId(pub u64);

/// Tells a queue's requests apart: each has a higher ticket than the request before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// How a contender joins.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Intent {
    /// Queues up and waits.
    Wait,
    /// Looks first, and queues only if the lock seems free (rule 14).
    Try,
    /// Looks first, and queues only if the lock seems free or fewer than this number of contenders wait for it (rule 14).
    /// Waits like any other from then on.
    WaitIfFewer(u32),
    /// Takes, as a reader, the place of this writer's node, through which its owner holds: a downgrade, as Curator does
    /// it. A reader that finds the place gone proceeds like any other.
    Downgrade {
        /// The writer's node. On the heap: few intents have one, and each waiter has an intent.
        writer: Box<NodeName>,
        /// Whether the reader only tries: it never waits, with or without the place (rule 21).
        tries: bool,
    },
}

impl Intent {
    /// Whether the contender only tries. That stays so whatever becomes of the place that it was to take.
    #[must_use]
    pub fn only_tries(&self) -> bool {
        matches!(self, Self::Try | Self::Downgrade { tries: true, .. })
    }

    /// Whether the contender looks at the queue before it creates a node.
    #[must_use]
    pub(super) fn looks_first(&self) -> bool {
        matches!(self, Self::Try | Self::WaitIfFewer(_))
    }

    /// The same for the place of this writer's node.
    #[must_use]
    pub fn in_place_of(&self, writer: NodeName) -> Self {
        Self::Downgrade { writer: Box::new(writer), tries: self.only_tries() }
    }

    /// The same without the place of a writer.
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
    /// The server did it.
    Done(T),
    /// The node, or its parent, does not exist.
    NoNode,
    /// Unknown: the connection was lost before the reply came.
    Lost,
    /// The server refused, and would refuse again.
    Refused(Refusal),
}

/// Why a contender cannot have the lock.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// Another contender has it, and this one only tried.
    Busy,
    /// Another contender has it, and this number of contenders wait: no fewer than this one permits.
    Full(usize),
    /// The directory's sequence counter is close to where it wraps.
    SequenceExhausted,
    /// The access control lists do not permit it.
    NotAuthorized,
    /// A candidate of an election stands beside this node, which is named as kazoo's locks name theirs: kazoo does not see
    /// candidates, and would lead at the same time.
    BesideKazoo(NodeName),
    /// The directory is too large to list; says how large.
    TooLarge(String),
    /// The server refuses for another reason.
    Server(String),
}

/// What happens to a queue.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// A local contender wants the lock.
    Join(JoinId, Naming, Kind, Intent),
    /// A reader's owner now holds through this writer's node: the reader takes the writer's place instead of waiting
    /// for it.
    Downgrade(JoinId, NodeName),
    /// A contender no longer wants the lock. Ignored once it holds: then only a release ends it.
    Leave(JoinId),
    /// The holder through this node is done.
    Release(NodeName),
    /// The holder through this node has held for long enough to watch it (rule 12).
    WatchHold(NodeName),
    /// A session began. The seed is random; the names of the session's nodes come from it.
    SessionBegan(u64),
    /// The session is over, and its nodes with it.
    SessionLost,
    /// The session has a connection.
    Connected,
    /// The session has lost its connection.
    Disconnected,
    /// The session is proven on this connection, and enough of its term is left for a hold to begin: until the term ends,
    /// the session's nodes are certain to exist.
    TermBegan,
    /// No longer so. If the term is over, another client may already hold what this client believes it holds; the driver
    /// releases this client's holds before it says so.
    TermEnded,
    /// The server has said nothing about this directory for a long time: look again (rule 10).
    LookAgain,
    /// So much time has passed that the create that was in doubt with this ticket can no longer be carried out (rule 8).
    Certain(Ticket),
    /// The outcome of `Action::Create`: the node's name and czxid.
    Created(Ticket, Outcome<(String, i64)>),
    /// The outcome of `Action::CreateInPlace`, if the session has no right to check the writer's node. Nothing was
    /// created.
    CheckForbidden(Ticket),
    /// The outcome of `Action::MakeParents`.
    ParentsMade(Ticket, Outcome<()>),
    /// The outcome of `Action::List`: the children's names.
    Listed(Ticket, Outcome<Vec<String>>),
    /// The outcome of `Action::Probe`: those of the nodes that do not exist. Of the others that is not certain.
    Probed(Ticket, Outcome<Vec<NodeName>>),
    /// The outcome of `Action::Verify`: the node's czxid if it is this session's, else `None`.
    Verified(Ticket, Outcome<Option<i64>>),
    /// The outcome of `Action::Watch`.
    Watched(Ticket, Outcome<()>),
    /// A watched node is gone.
    Gone(Ticket),
    /// The heartbeat found that a node of ours is gone.
    Missing(NodeName),
    /// A watched node's data, or the watched children, changed. This used up the watch.
    Changed(Ticket),
    /// The outcome of `Action::Delete`.
    Deleted(Ticket, Outcome<()>),
}

impl Event {
    /// Whether this is the outcome of a request whose reply was lost.
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

    /// Whether this is the outcome of a write.
    pub(crate) fn is_written(&self) -> bool {
        matches!(self, Self::Created(..) | Self::ParentsMade(..) | Self::Deleted(..))
    }

    /// Whether this is the outcome of a request.
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
