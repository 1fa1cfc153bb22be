//! A request without whose answer a client waits for a long time.

/// What a client may have asked for last for a long time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fateful {
    /// That a contender's node goes.
    Delete,
    /// That there is a directory.
    Directory,
}
