//! The actions that a queue requests from its driver.

use super::event::{JoinId, Refusal, Ticket};
use super::node_name::NodeName;

/// An action that a queue requests from its driver.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Create an ephemeral sequential node for a contender. The string is the name without the
    /// sequence number.
    Create(Ticket, JoinId, String),
    /// Create an ephemeral node with exactly this name for a contender. If the last field contains
    /// a writer's node, one transaction creates the node and checks that the writer's node exists.
    /// These outcomes have a special meaning:
    ///
    /// - `NoNode`: the writer's node does not exist.
    /// - `Event::CheckForbidden`: the session is not permitted to make the check.
    /// - `Done`: the node was created, or it already exists and belongs to this session.
    /// - `Lost`: the outcome is unknown, or the node already exists and belongs to another session.
    CreateInPlace(Ticket, JoinId, String, Option<NodeName>),
    /// Create the lock directory and its parents.
    MakeParents(Ticket),
    /// List the lock directory. If `sync` is `true`, send a sync before the listing, on the same
    /// connection.
    List {
        /// The ticket that the outcome returns.
        ticket: Ticket,
        /// `true` to send a sync first.
        sync: bool,
    },
    /// List the directory like [`List`](Self::List), and also watch its children. A change of the
    /// children is reported as `Event::Changed` with this ticket.
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
    /// Watch a node to notice its deletion. If the node does not exist, leave no watch on the
    /// server.
    Watch(Ticket, NodeName),
    /// Remove the watch that was set with this ticket.
    Unwatch(Ticket),
    /// Delete a node of ours.
    Delete(Ticket, NodeName),
    /// The contender now holds the lock. The fields are its id, its node and the node's czxid.
    Grant(JoinId, NodeName, i64),
    /// The contender cannot have the lock. It has left the queue.
    Refuse(JoinId, Refusal),
    /// This node is gone, and so is the hold through it.
    NodeLost(NodeName),
    /// The hold on this node has ended. The node is deleted, or the queue deletes it in the
    /// background.
    Released(NodeName),
    /// The directory has a child that does not count as a contender. Sent only once.
    Ignored(String),
}
