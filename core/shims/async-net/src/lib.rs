//! Stand-in for the `async-net` crate: only the TCP stream that `zookeeper-client` uses.

pub use zklock_transport::TcpStream;
