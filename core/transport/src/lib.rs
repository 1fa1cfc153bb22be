//! The transport of zklock's requests: sockets and timers on tokio, below the `zookeeper-client`
//! crate.
//!
//! The client crate imports its sockets from `async-net` and its timers from `async-io`. Stand-in
//! crates with these names provide the types of this crate instead. The client crate cannot pass
//! options on to a connection, such as encryption, a pause before connecting, or a size limit for
//! replies. So the [`Settings`] are attached to the task that uses the connection.

mod attempt;
mod connect;
mod connect_log;
mod connect_throttle;
pub mod escape;
mod frame_validator;
mod server_contact;
mod settings;
#[cfg(feature = "_simulation")]
#[doc(hidden)]
pub mod simulated;
mod socket;
mod srvr_probe;
mod stream;
mod timer;
#[cfg_attr(not(feature = "_tls"), path = "no_tls.rs")]
mod tls;
mod tls_failure;
mod write_coalescing;

pub use connect::{four_letter_word, resolve};
pub use connect_log::{ConnectOutcome, ServerAttempt};
pub use connect_throttle::Urgency;
pub use frame_validator::{Limits, TooLarge};
pub use server_contact::{ContactRecorder, LastContact};
pub use settings::{Settings, inherit};
pub use stream::TcpStream;
pub use timer::{Timer, set_clock_start};
pub use tls::Encryption;
pub use tls_failure::Distrust;
pub use tls_failure::PemError;

/// Returns `true` if these sockets and timers were used. They are not used in a program without the
/// stand-in crates.
#[must_use]
pub fn used() -> bool {
    connect::used() && timer::used()
}
