//! Requests whose missing reply makes a client wait for a long time.

/// The last request before a connection becomes deaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fateful {
    /// The delete of a contender's node.
    Delete,
    /// The first request after a delete. The delete itself is still answered.
    BehindDelete,
    /// The creation of a directory.
    Directory,
    /// The record of a slot.
    Record,
    /// Any request.
    Anything,
}
