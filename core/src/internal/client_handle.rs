//! [`ClientHandle`]: the client inside a binding's client object.

use std::ops::Deref;
use std::sync::mpsc;
use std::time::Duration;

use crate::client::Client;
use crate::client::per_process::PerProcessClient;
use crate::client::source::ClientSource;
use crate::config::ClientOptions;
use crate::error::Result;
use crate::error::escape::Escaped;
use crate::lock::any::AnyLock;
use crate::runtime;

/// A client of this process only, or a separate client for each process. The handle dereferences to
/// a [`Client`].
#[derive(Clone, Debug)]
pub enum ClientHandle {
    /// A client of one process. In another process every call fails with
    /// [`Forked`](crate::ErrorKind::Forked).
    One(Client),
    /// A client that connects again in every process.
    EachProcess(PerProcessClient),
}

impl ClientHandle {
    /// Creates a handle with a separate client for each process. Sends no request.
    #[must_use]
    pub fn of_each_process(options: ClientOptions) -> Self {
        Self::EachProcess(PerProcessClient::new(options))
    }

    /// Creates a handle for one client, which only this process can use. Sends no request.
    #[must_use]
    pub fn one(options: ClientOptions) -> Self {
        Self::One(Client::new(options))
    }

    /// Returns the client of a lock. If the lock uses a shared client, the returned client belongs
    /// to this process.
    ///
    /// # Errors
    /// [`Forked`](crate::ErrorKind::Forked).
    pub fn of_lock(lock: &AnyLock) -> Result<Self> {
        Ok(match lock.source() {
            ClientSource::EachProcess(client) => Self::EachProcess(client.clone()),
            ClientSource::Client(client) => Self::One(client.clone()),
            ClientSource::Shared(_) => Self::One(lock.client()?),
        })
    }

    /// Returns the client's connect string in readable form.
    #[must_use]
    pub fn shown_hosts(&self) -> String {
        Escaped(&self.source().hosts().to_string()).to_string()
    }

    /// Returns the source for locks on this client.
    #[must_use]
    pub fn source(&self) -> ClientSource {
        match self {
            Self::One(client) => ClientSource::Client(client.clone()),
            Self::EachProcess(client) => ClientSource::EachProcess(client.clone()),
        }
    }
}

impl Deref for ClientHandle {
    type Target = Client;

    fn deref(&self) -> &Client {
        match self {
            Self::One(client) => client,
            Self::EachProcess(client) => client.here(),
        }
    }
}

/// Returns the connect string of a lock's client in readable form.
#[must_use]
pub fn shown_hosts(lock: &AnyLock) -> String {
    Escaped(&lock.hosts().to_string()).to_string()
}

/// Closes clients and waits for the servers' acknowledgements for at most `limit`.
pub fn close_all<'a>(clients: impl IntoIterator<Item = &'a Client>, limit: Duration) {
    // `Client::close` starts to close the client immediately, so all clients close at the same
    // time.
    let closing: Vec<_> = clients.into_iter().map(Client::close).collect();
    if closing.is_empty() {
        return;
    }
    let (done, closed) = mpsc::channel();
    let wait = async move {
        for closed in closing {
            closed.await.ok();
        }
    };
    if let Ok(waiting) = runtime::run(wait, move |()| done.send(()).unwrap_or_default()) {
        closed.recv_timeout(limit).ok();
        drop(waiting);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ClientOptions;
    use crate::driver::status::ClientState;

    #[test]
    fn all_are_closed() {
        let options = ClientOptions::new(Some("127.0.0.1:1")).unwrap();
        let clients = [Client::new(options.clone()), Client::new(options)];
        close_all(&clients, Duration::from_secs(5));
        assert!(clients.iter().all(|client| client.state() == ClientState::Closed));
    }
}
