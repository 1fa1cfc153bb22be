//! A request without whose answer a client waits for a long time.

/// What a client may have asked for last for a long time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fateful {
    /// That a contender's node goes.
    Delete,
    /// Whatever comes behind a request that a node goes, which is still answered.
    BehindDelete,
    /// That there is a directory.
    Directory,
    /// That a slot is recorded.
    Record,
    /// Anything.
    Anything,
}
