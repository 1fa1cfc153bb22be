//! Numbers of connections and names of clients.

/// The number of a connection.
pub type Id = u64;

/// Clients have numbers. When a client is closed, its replacement gets the same number plus
/// `CLIENTS`, so fewer than `CLIENTS` clients can exist at the same time.
pub const CLIENTS: usize = 100;

/// Larger than the number of servers.
const SERVERS: Id = 16;

/// Returns the id of a connection. The id encodes the connection's consecutive number and its
/// server.
pub fn connection(number: u64, server: usize) -> Id {
    number * SERVERS + server as Id
}

/// Returns the server of a connection.
pub fn server_of(id: Id) -> Id {
    id % SERVERS
}
