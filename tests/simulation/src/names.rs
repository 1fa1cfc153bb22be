//! Numbers of connections and names of clients.

/// The number of a connection.
pub type Id = u64;

/// Larger than the number of clients that exist at the same time. The name of a client that
/// replaces a closed one is larger by this number.
pub const CLIENTS: usize = 100;

/// Larger than the number of servers.
const SERVERS: Id = 16;

/// Returns the number of a connection from its running number and its server.
pub fn connection(number: u64, server: usize) -> Id {
    number * SERVERS + server as Id
}

/// Returns the server of a connection.
pub fn server_of(id: Id) -> Id {
    id % SERVERS
}
