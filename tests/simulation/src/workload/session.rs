//! Actions of contenders that concern their clients: waiting for a session, and closing a client.

use std::time::Duration;

use tokio::time::timeout;
use zklock::{ClientState, ErrorKind, LeaseState, LossReason, States};

use super::{Contender, milliseconds};
use crate::clients::CONNECT_TIMEOUT;
use crate::network;

impl Contender {
    /// Waits until the client has a session.
    pub(super) async fn wait_for_session(&mut self) {
        self.now_does("waits for a session");
        let (client, began) = (self.client(), self.now());
        let ready = client.ready().await.map_err(|error| error.kind());
        let state = client.state();
        let calm = self.oracle.borrow().calm.lasts_since(began.at);
        if self.is_late(began, milliseconds(CONNECT_TIMEOUT)) {
            self.violation(&format!("waited for a session for {} ms: {ready:?}", began.took()));
        }
        let expected = match ready {
            Ok(()) => !calm || state == ClientState::Connected,
            Err(ErrorKind::ConnectionFailed) => !calm,
            Err(kind) => kind == ErrorKind::ClientClosed && state == ClientState::Closed,
        };
        // A client that was closed in the meantime reports that.
        if !(expected || calm && state == ClientState::Closed) {
            self.violation(&format!("waited for a session: {ready:?}, and the client is {state}"));
        }
    }

    /// Closes the client. This also ends the leases and waits of all other contenders that use it.
    pub(super) async fn close(&mut self) {
        self.now_does("closes its client");
        let (name, _) = self.clients.named_now(self.of);
        let client = self.clients.replace(self.of);
        self.oracle.borrow_mut().closed(client.session_id());
        let held = self.oracle.borrow().held_by(client.session_id());
        let calm = self.oracle.borrow().calm.lasts_since(self.now().at);
        let mut states = client.states();
        client.close().await.ok();
        network::with(|network| network.witness.ends(name));
        self.expect_end(&mut states).await;
        if client.state() != ClientState::Closed {
            self.violation(&format!("its client is closed, but reports that it is {}", client.state()));
        }
        for lease in held {
            let (node, state) = (lease.node(), lease.state());
            let otherwise = calm && state == LeaseState::Lost(LossReason::SessionExpired);
            if otherwise || matches!(state, LeaseState::Held | LeaseState::Suspended) {
                self.violation(&format!("{node} is {state:?}, and its client is closed"));
            }
        }
        if self.chance.percent(50) {
            self.wait_for_session().await;
        }
    }

    /// Checks that `Closed` is the last state that the client reports.
    async fn expect_end(&self, states: &mut States) {
        let mut last = None;
        loop {
            match timeout(Duration::ZERO, states.next()).await {
                Ok(Some(state)) => last = Some(state),
                Ok(None) if last == Some(ClientState::Closed) => break,
                end => {
                    return self
                        .violation(&format!("its client is closed, but reports {last:?} and then {end:?}"));
                }
            }
        }
    }
}
