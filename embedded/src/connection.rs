//! Connections' names.

/// Names a connection. Whoever feeds a [`Machine`](crate::Machine) chooses the numbers, each once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConnectionId(pub u64);
