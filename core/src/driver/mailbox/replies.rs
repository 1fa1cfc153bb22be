//! Replies to queries about nodes, for programs that display locks.

use crate::driver::mailbox::node_watch::NodeWatch;
use crate::queue::contender::Contender;

/// A node's children, and the number of children that were ever created.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// The children's names, in no order.
    pub names: Vec<String>,
    /// The zxid that created the node. If it changes, the node was deleted and created again, and
    /// its counts start from zero.
    pub czxid: i64,
    /// Number of children created below the node so far.
    pub created: u32,
}

impl Listing {
    /// Creates a listing from a server's reply. `cversion` is the number of created children plus
    /// the number of deleted children. `number` is the created minus the deleted children.
    pub(crate) fn new(names: Vec<String>, czxid: i64, cversion: i32, number: i32) -> Self {
        let created = i64::from(cversion).saturating_add(i64::from(number)) / 2;
        Self { names, czxid, created: u32::try_from(created).unwrap_or_default() }
    }

    /// Returns the number of children deleted so far.
    #[must_use]
    pub fn gone(&self) -> u32 {
        self.created.saturating_sub(u32::try_from(self.names.len()).unwrap_or(u32::MAX))
    }
}

/// A node's data and owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeContent {
    /// The data.
    pub data: Vec<u8>,
    /// The zxid that created the node: a contender's fencing token.
    pub czxid: i64,
    /// The session that owns the node if it is ephemeral, or 0.
    pub session_id: i64,
    /// The node's creation time in milliseconds since 1970, by the clock of the server that was the
    /// leader at that time.
    pub created: i64,
}

/// The first contender in a directory.
pub(crate) struct First {
    /// `None` if there is no contender.
    pub(crate) contender: Option<Contender>,
    /// Fires when another contender might have become the first. `None` if no watch was requested
    /// or it does not fit in the watch budget. The watch is set before the contender is read, so no
    /// change is missed.
    pub(crate) changed: Option<NodeWatch>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_and_what_went() {
        let listing = Listing::new(vec![String::new(); 2], 1, 8, 2);
        assert_eq!((listing.created, listing.gone()), (5, 3));
        assert_eq!(Listing::new(Vec::new(), 1, -5, 0).created, 0, "a server may say anything");
    }
}
