//! The actions that a queue requests from its driver.

use super::event::{JoinId, Refusal, Ticket};
use super::node_name::NodeName;

/// An action that a queue requests from its driver.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Create an ephemeral sequential node for a contender. The string is the name without the
    /// sequence number.
    Create(Ticket, JoinId, String),
    /// Create an ephemeral node with exactly this name for a contender. If a writer is given, one
    /// transaction creates the node and checks that the writer's node exists. Special outcomes are:
    ///
    /// - `NoNode` if the writer's node does not exist.
    /// - `Event::CheckForbidden` if the session is not permitted to make the check.
    /// - Success if the new node already exists and belongs to this session.
    /// - Lost if the new node already exists and belongs to another session.
    CreateInPlace(Ticket, JoinId, String, Option<NodeName>),
    /// Create the lock directory and its parents.
    MakeParents(Ticket),
    /// List the lock directory. With `sync`, list it after a sync on the same connection.
    List {
        /// The ticket that the outcome returns.
        ticket: Ticket,
        /// `true` to send a sync first.
        sync: bool,
    },
    /// Like [`List`](Self::List), but also watch the children. A change is reported as
    /// `Event::Changed` with this ticket.
    ListAndWatch {
        /// The ticket that the outcome and the change event return.
        ticket: Ticket,
        /// `true` to send a sync first.
        sync: bool,
    },
    /// Ask in one request which of these nodes exist.
    Probe(Ticket, Vec<NodeName>),
    /// Read the Stat of a node that carries one of our uuids.
    Verify(Ticket, NodeName),
    /// Watch a node for its deletion. Leave no watch behind if the node does not exist.
    Watch(Ticket, NodeName),
    /// Remove the watch that was set with this ticket.
    Unwatch(Ticket),
    /// Delete a node of ours.
    Delete(Ticket, NodeName),
    /// The contender holds the lock through this node with this czxid.
    Grant(JoinId, NodeName, i64),
    /// The contender cannot have the lock. It has left the queue.
    Refuse(JoinId, Refusal),
    /// This node is gone, and so is the hold that the node identified.
    NodeLost(NodeName),
    /// The hold on this node is over. The node is deleted, or the queue deletes it in the
    /// background.
    Released(NodeName),
    /// The directory has a child that does not count as a contender. Reported once.
    Ignored(String),
}
