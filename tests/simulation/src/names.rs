//! Numbers of connections and names of clients.

/// The number of a connection.
pub type Id = u64;

/// Difference between the name of a client that was closed and the name of the client that replaces
/// it. Larger than the number of clients that exist at the same time.
pub const CLIENTS: usize = 100;

/// Larger than the number of servers.
const SERVERS: Id = 16;

/// Returns the id of a connection, which contains its consecutive number and its server.
pub fn connection(number: u64, server: usize) -> Id {
    number * SERVERS + server as Id
}

/// Returns the server of a connection.
pub fn server_of(id: Id) -> Id {
    id % SERVERS
}
