//! What carries zklock's requests: sockets and timers on tokio, below the `zookeeper-client` crate.
//!
//! The client crate takes its sockets from `async-net` and its timers from `async-io`; stand-ins with these names hand
//! it ours. It knows nothing of them but the names, so what a connection is to do (encrypt, wait before it dials, refuse
//! to read more than so much) does not pass through it: [`Settings`] travel along with the task.

mod attempt;
mod bundle;
mod connect;
mod diary;
mod distrust;
mod guard;
mod heard;
mod pace;
mod pem;
mod question;
mod settings;
#[cfg(feature = "_simulation")]
#[doc(hidden)]
pub mod simulated;
mod socket;
mod stream;
mod timer;
#[cfg_attr(not(feature = "_tls"), path = "no_tls.rs")]
mod tls;

pub use diary::{Entry, Outcome};
pub use distrust::Distrust;
pub use guard::{Limits, TooLarge};
pub use heard::{Heard, Scribe};
pub use pace::Urgency;
pub use pem::PemError;
pub use settings::{Settings, inherit};
pub use stream::TcpStream;
pub use timer::Timer;
pub use tls::Encryption;

/// Whether these sockets and timers have carried anything. A program that lacks the stand-ins has others.
#[must_use]
pub fn used() -> bool {
    connect::used() && timer::used()
}
