//! Requests whose missing reply makes a client wait for a long time.

/// The kind of request that makes a connection *deaf*. From that request on, the server replies
/// only to pings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CriticalRequest {
    /// The deletion of a contender's node.
    Delete,
    /// The first request after a deletion. The server still replies to the deletion itself.
    AfterDelete,
    /// The creation of a directory.
    Directory,
    /// The write of a slot record.
    Record,
    /// Any request.
    Anything,
}
