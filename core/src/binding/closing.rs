//! Closing the clients of a part of the process, such as a thread with an environment of its own.

use std::sync::mpsc;
use std::time::Duration;

use crate::client::Client;
use crate::runtime;

/// Closes clients, and waits for the servers' acknowledgements for up to `limit`.
pub fn close_all<'a>(clients: impl IntoIterator<Item = &'a Client>, limit: Duration) {
    // This line begins to close them all; what is left is to wait.
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
    use crate::options::ClientOptions;
    use crate::state::ClientState;

    #[test]
    fn all_are_closed() {
        let options = ClientOptions::new(Some("127.0.0.1:1")).unwrap();
        let clients = [Client::new(options.clone()), Client::new(options)];
        close_all(&clients, Duration::from_secs(5));
        assert!(clients.iter().all(|client| client.state() == ClientState::Closed));
    }
}
