//! [`PerProcessClient`]: a handle that gives each process its own client, for servers that fork
//! their workers.

use std::sync::Arc;

use crate::client::Client;
use crate::config::ClientOptions;
use crate::runtime::fork::PerProcess;

/// A client that connects when it is first used. A forked process that inherits this handle gets a
/// new client with its own session. Clones of a handle share the client.
///
/// If a process closes its client, the client stays closed in that process. (After a client from
/// [`Client::shared`] is closed, the next call of `Client::shared` creates a new client.) The
/// client also closes when its last handle in the process is dropped.
#[derive(Clone, Debug)]
pub struct PerProcessClient(Arc<Own>);

#[derive(Debug)]
struct Own {
    options: ClientOptions,
    client: PerProcess<Client>,
}

impl PerProcessClient {
    /// Creates the handle. Sends no request and starts no thread.
    #[must_use]
    pub fn new(options: ClientOptions) -> Self {
        Self(Arc::new(Own { options, client: PerProcess::new() }))
    }

    /// Returns this process's client.
    #[must_use]
    pub fn here(&self) -> &Client {
        self.0.client.get_or_init(|| Client::new(self.0.options.clone()))
    }

    pub(crate) fn options(&self) -> &ClientOptions {
        &self.0.options
    }

    /// Returns `true` if both handles belong to one client.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::status::ClientState;

    #[test]
    fn a_process_has_one_which_goes_with_the_last_handle() {
        let options = ClientOptions::new(Some("a")).unwrap();
        let client = PerProcessClient::new(options);
        let clone = client.clone();
        assert!(client.is_same(&clone) && client.here().is_same(clone.here()));
        assert_eq!(client.here().state(), ClientState::Idle);
        let mut states = client.here().states();
        drop(client);
        assert_eq!(clone.here().state(), ClientState::Idle);
        drop(clone);
        let next = std::future::Future::poll(
            std::pin::pin!(states.next()),
            &mut std::task::Context::from_waker(std::task::Waker::noop()),
        );
        assert_eq!(next, std::task::Poll::Ready(None));
    }
}
