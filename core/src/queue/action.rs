//! What a queue wants done.

use super::event::{JoinId, Refusal, Ticket};
use super::node_name::NodeName;

/// What a queue wants done.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Create an ephemeral sequential node for a contender, with this name before the sequence number.
    Create(Ticket, JoinId, String),
    /// Create an ephemeral node with exactly this name for a contender, if given in one transaction with a check that
    /// this writer's node exists: without that, the outcome is `NoNode`, and `Event::CheckForbidden` if the session may
    /// not make the check. If the node exists already and is this session's, that is success; if it is not, the outcome
    /// is lost.
    CreateInPlace(Ticket, JoinId, String, Option<NodeName>),
    /// Create the lock directory and its parents.
    MakeParents(Ticket),
    /// List the lock directory; with `sync`, after a sync on the same connection.
    List {
        /// Comes back with the outcome.
        ticket: Ticket,
        /// Whether to send a sync first.
        sync: bool,
    },
    /// Like [`List`](Self::List), and watch the children: a change is `Event::Changed` with this ticket.
    ListAndWatch {
        /// Comes back with the outcome, and with the change.
        ticket: Ticket,
        /// Whether to send a sync first.
        sync: bool,
    },
    /// Ask, in one request, which of these nodes exist.
    Probe(Ticket, Vec<NodeName>),
    /// Read the Stat of a node that carries our uuid.
    Verify(Ticket, NodeName),
    /// Watch a node for its deletion. Leave no watch behind if it does not exist.
    Watch(Ticket, NodeName),
    /// Drop the watch that was set with this ticket.
    Unwatch(Ticket),
    /// Delete a node of ours.
    Delete(Ticket, NodeName),
    /// The contender holds the lock, through this node with this czxid.
    Grant(JoinId, NodeName, i64),
    /// The contender cannot have the lock, and has left the queue.
    Refuse(JoinId, Refusal),
    /// This node is gone, and with it the hold that it identified.
    NodeLost(NodeName),
    /// The hold that this node identified is over: the node is deleted, or the queue deletes it in the background.
    Released(NodeName),
    /// A child does not count. Said once.
    Ignored(String),
}
