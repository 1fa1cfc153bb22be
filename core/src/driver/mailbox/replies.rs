//! What a look at a node shows, for those that show locks without taking part in any queue.

use crate::driver::mailbox::node_watch::NodeWatch;
use crate::queue::contender::Contender;

/// A node's children, and how they came and went.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// The children's names, in no order.
    pub names: Vec<String>,
    /// The zxid that created the node: another one is another node, whose count begins again.
    pub czxid: i64,
    /// How many children have been created below the node so far.
    pub created: u32,
}

impl Listing {
    /// As a server tells it: its `cversion` counts what came and what went, and the difference of the two is there.
    pub(crate) fn new(names: Vec<String>, czxid: i64, cversion: i32, number: i32) -> Self {
        let created = i64::from(cversion).saturating_add(i64::from(number)) / 2;
        Self { names, czxid, created: u32::try_from(created).unwrap_or_default() }
    }

    /// How many children have gone so far.
    #[must_use]
    pub fn gone(&self) -> u32 {
        self.created.saturating_sub(u32::try_from(self.names.len()).unwrap_or(u32::MAX))
    }
}

/// A node, and whose it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeContent {
    /// The data.
    pub data: Vec<u8>,
    /// The zxid that created it: a contender's fencing token.
    pub czxid: i64,
    /// The session that it ends with, or 0.
    pub session_id: i64,
    /// When it was created, by the clock of the server that led then: milliseconds since 1970.
    pub created: i64,
}

/// The first contender in a directory.
pub(crate) struct First {
    /// None if there is no contender.
    pub(crate) contender: Option<Contender>,
    /// Fires when another one may be first, if it was requested and there was room for it. Set before what is told here
    /// was read, so no change falls between the two.
    pub(crate) changed: Option<NodeWatch>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_and_what_went() {
        // Five came, three went: eight changes, two are there.
        let listing = Listing::new(vec![String::new(); 2], 1, 8, 2);
        assert_eq!((listing.created, listing.gone()), (5, 3));
        assert_eq!(Listing::new(Vec::new(), 1, -5, 0).created, 0, "a server may say anything");
    }
}
