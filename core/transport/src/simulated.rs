//! In-memory connections for the simulation in `tests/simulation`. They resolve no names and open
//! no sockets.

use std::cell::RefCell;
use std::future::Future;
use std::io::Result;
use std::pin::Pin;
use std::rc::Rc;

use tokio::io::{AsyncRead, AsyncWrite};

/// An in-memory connection.
pub trait Stream: AsyncRead + AsyncWrite + std::fmt::Debug + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + std::fmt::Debug + Send + Unpin> Stream for S {}

/// The return type of [`Network::connect`].
pub type Connecting = Pin<Box<dyn Future<Output = Result<Box<dyn Stream>>> + Send>>;

/// A network in which all connections of the current thread are made.
pub trait Network {
    /// Connects to a host by its name.
    fn connect(&self, host: &str, port: u16) -> Connecting;
}

thread_local! {
    static NETWORK: RefCell<Option<Rc<dyn Network>>> = const { RefCell::new(None) };
}

/// Runs `body`. All connections that this thread makes during that time are made in `network`.
pub fn enter<R>(network: Rc<dyn Network>, body: impl FnOnce() -> R) -> R {
    NETWORK.set(Some(network));
    let result = body();
    NETWORK.set(None);
    result
}

/// Connects in the current thread's network, if it has one.
pub(crate) async fn connect(host: &str, port: u16) -> Option<Result<Box<dyn Stream>>> {
    let connecting =
        NETWORK.with_borrow(|network| network.as_ref().map(|network| network.connect(host, port)));
    Some(connecting?.await)
}
