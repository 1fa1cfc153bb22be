//! Tracks the requests that the server has not answered yet (rule 16). A request can *prove the
//! session* if its reply shows that the session is alive.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::task::AbortHandle;

use crate::runtime::clock::BootInstant;

/// Unanswered requests of one session.
#[derive(Default)]
pub(super) struct Unanswered {
    /// The time when the connection was established, if there is one.
    connected: Option<BootInstant>,
    /// Start of the current wait for a reply that proves the session, or `None` if no such reply is
    /// awaited.
    proof_awaited_since: Option<BootInstant>,
    /// Shared token. Each request that can prove the session keeps a clone until its reply arrives,
    /// so the reference count shows whether such a request is unanswered.
    proof_token: Arc<()>,
    /// All other requests in the order of the calls of `note_request`, each with the start of its
    /// wait. The next call removes the answered requests at the front.
    requests: VecDeque<(AbortHandle, BootInstant)>,
}

impl Unanswered {
    /// Returns the token, which the request's task keeps until the reply arrives.
    pub(super) fn proof_token(&self) -> Arc<()> {
        Arc::clone(&self.proof_token)
    }

    pub(super) fn note_proof_request(&mut self) {
        if self.connected.is_some() {
            self.proof_awaited_since.get_or_insert_with(BootInstant::now);
        }
    }

    /// Records the task of a request that cannot prove the session. The task ends when the reply
    /// arrives. `from` is the start of the wait.
    pub(super) fn note_request(&mut self, task: AbortHandle, from: BootInstant) {
        self.forget_answered();
        self.requests.push_back((task, from));
    }

    fn forget_answered(&mut self) {
        while self.requests.front().is_some_and(|(task, _)| task.is_finished()) {
            self.requests.pop_front();
        }
    }

    /// Records a reply that proves the session. If other such requests are unanswered, their wait
    /// now starts at this reply.
    pub(super) fn note_proof_reply(&mut self) {
        self.proof_awaited_since = (Arc::strong_count(&self.proof_token) > 1).then(BootInstant::now);
    }

    /// Records that a connection was established. Pending requests are sent only now, so their
    /// waits start now.
    pub(super) fn note_connected(&mut self) {
        self.connected = Some(BootInstant::now());
        self.note_proof_reply();
    }

    /// Records that the connection was lost.
    pub(super) fn note_disconnected(&mut self) {
        (self.connected, self.proof_awaited_since) = (None, None);
    }

    /// Returns the start of the longest wait for a reply, or `None` if no request is unanswered.
    pub(super) fn since(&mut self) -> Option<BootInstant> {
        self.forget_answered();
        let request =
            self.connected.and_then(|from| self.requests.front().map(|(_, asked)| from.max(*asked)));
        [self.proof_awaited_since, request].into_iter().flatten().min()
    }
}
