//! Stand-in for the `async-io` crate: only the timers that `zookeeper-client` uses.

pub use zklock_transport::Timer;
