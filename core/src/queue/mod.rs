//! The queue of one lock directory as one client sees it: a state machine without I/O, clock or async.
//!
//! [`Event`]s go in, [`Action`]s come out, each request with a [`Ticket`] that its outcome brings back.
//! One queue serves all waiters of its client on its path, so one listing answers every create sent before it.
//! The same code runs in production and under the property tests, which play the server and the network.
//!
//! What the queue relies on, and its driver provides:
//! * actions are carried out in order, and outcomes and watch events come in the order in which the server sent them;
//! * every request has exactly one outcome; one whose reply was lost, or that was answered on another connection
//!   than it was meant for, is [`Lost`](Outcome::Lost);
//! * [`Disconnected`](Event::Disconnected) comes before the lost outcomes that it causes.

mod machine;
pub(crate) mod mutants;
mod name;
mod view;

use std::collections::BTreeSet;

pub use machine::Queue;
pub use name::{Kind, Naming, NodeName};

/// One attempt to hold the lock, from the wish to the end of the hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JoinId(pub u64);

/// Tells requests apart. Grows with every request of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// Whether somebody waits in the queue or only tries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Intent {
    /// Queues up and waits.
    Wait,
    /// Looks first, and queues only if the lock seems free (rule 14).
    Try,
    /// Joins the readers in the place of this writer, which its owner holds: a downgrade, as Curator does it.
    Downgrade(JoinId),
}

/// What came of a request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Outcome<T> {
    /// The server did it.
    Done(T),
    /// The node, or its parent, does not exist.
    NoNode,
    /// No one knows: the connection was lost before the reply came.
    Lost,
    /// The server refused, and will again.
    Refused(Refusal),
}

/// Why a contender cannot have the lock.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// Somebody else has it, and the contender only tried.
    Busy,
    /// The directory's sequence counter is close to its end.
    SequenceExhausted,
    /// The access control lists do not permit it.
    NotAuthorized,
    /// The server refuses for another reason.
    Server(String),
}

/// What happens to a queue.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// A local contender wants the lock.
    Join(JoinId, Naming, Kind, Intent),
    /// A reader's owner holds as this writer now: the reader takes its place instead of waiting for it.
    Downgrade(JoinId, JoinId),
    /// A contender no longer wants it. Ignored once it holds: then only a release ends it.
    Leave(JoinId),
    /// A holder is done.
    Release(JoinId),
    /// A holder has held for long enough to watch its own node (rule 12).
    Guard(JoinId),
    /// A session began; the seed is random, for the names of this session's nodes.
    SessionBegan(u64),
    /// The session is over, and its nodes with it.
    SessionLost,
    /// The session has a connection.
    Connected,
    /// The session has lost its connection.
    Disconnected,
    /// The session's term runs: its nodes are certain to stand until it ends.
    TermBegan,
    /// The session's term is over: somebody else may hold already what this client believes to hold. Its holders are
    /// released by whoever tells this.
    TermEnded,
    /// Nothing was heard for long: look again (rule 10).
    LookAgain,
    /// The outcome of [`Action::Create`]: the node's name and czxid.
    Created(Ticket, Outcome<(String, i64)>),
    /// The outcome of [`Action::MakeParents`].
    ParentsMade(Ticket, Outcome<()>),
    /// The outcome of [`Action::List`]: the children's names.
    Listed(Ticket, Outcome<Vec<String>>),
    /// The outcome of [`Action::Verify`]: the node's czxid if it is this session's, else `None`.
    Verified(Ticket, Outcome<Option<i64>>),
    /// The outcome of [`Action::Watch`].
    Watched(Ticket, Outcome<()>),
    /// A watched node went.
    Gone(Ticket),
    /// The heartbeat found that a node of ours is gone.
    Missing(NodeName),
    /// A watched node's data, or the watched children, changed, which used up the watch.
    Changed(Ticket),
    /// The outcome of [`Action::Delete`].
    Deleted(Ticket, Outcome<()>),
}

impl Event {
    /// Whether this is an outcome that says nothing.
    pub(crate) fn is_lost(&self) -> bool {
        matches!(
            self,
            Self::Created(_, Outcome::Lost)
                | Self::ParentsMade(_, Outcome::Lost)
                | Self::Listed(_, Outcome::Lost)
                | Self::Verified(_, Outcome::Lost)
                | Self::Watched(_, Outcome::Lost)
                | Self::Deleted(_, Outcome::Lost)
        )
    }
}

/// What a queue wants done.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Create an ephemeral sequential node for a contender, with this name before the sequence number.
    Create(Ticket, JoinId, String),
    /// Create an ephemeral node of just this name for a contender. That it exists already is [`Outcome::Lost`]: it may
    /// be ours.
    CreateInPlace(Ticket, JoinId, String),
    /// Create the lock directory and its parents.
    MakeParents(Ticket),
    /// List the lock directory; with `sync`, after a sync on the same connection.
    List {
        /// Comes back with the outcome.
        ticket: Ticket,
        /// Whether to send a sync before.
        sync: bool,
    },
    /// Like [`List`](Self::List), and watch the children: a change is [`Event::Changed`] with this ticket.
    ListAndWatch {
        /// Comes back with the outcome, and with the change.
        ticket: Ticket,
        /// Whether to send a sync before.
        sync: bool,
    },
    /// Read the Stat of a node that carries our uuid.
    Verify(Ticket, NodeName),
    /// Watch a node for its deletion, leaving no watch behind if it does not exist.
    Watch(Ticket, NodeName),
    /// Drop the watch that was set with this ticket.
    Unwatch(Ticket),
    /// Delete a node of ours.
    Delete(Ticket, NodeName),
    /// The contender holds the lock, through this node with this czxid.
    Grant(JoinId, NodeName, i64),
    /// The contender cannot have the lock, and has left.
    Refuse(JoinId, Refusal),
    /// The holder's node is gone, and the hold with it.
    NodeLost(JoinId),
    /// The holder's node is deleted, or as good as.
    Released(JoinId),
    /// A child does not count; said once.
    Ignored(String),
}

/// Distinct foreign names of one listing.
type Names = BTreeSet<NodeName>;
