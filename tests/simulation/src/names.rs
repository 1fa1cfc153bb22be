//! What connections and clients are called.

/// The number of a connection.
pub type Id = u64;

/// More than there are clients at a time. A client that was closed has a successor, whose name is by this higher.
pub const CLIENTS: usize = 100;

/// More than there are servers.
const SERVERS: Id = 16;

/// The connection with this running number, which leads to this server.
pub fn connection(number: u64, server: usize) -> Id {
    number * SERVERS + server as Id
}

/// The server that a connection leads to.
pub fn server_of(id: Id) -> Id {
    id % SERVERS
}
