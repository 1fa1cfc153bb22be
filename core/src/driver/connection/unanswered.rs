//! Tracks the requests that the server has not answered yet (rule 16).

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::task::AbortHandle;

use crate::runtime::clock::BootInstant;

/// Unanswered requests of one session.
#[derive(Default)]
pub(super) struct Unanswered {
    /// The time when the connection was established, if there is one.
    connected: Option<BootInstant>,
    /// Start of the current wait for a reply that can *prove the session* (show that it is alive).
    /// `None` if no such reply is awaited.
    proof_awaited_since: Option<BootInstant>,
    /// Shared token for requests whose replies can prove the session. Each such request keeps a
    /// clone until its reply arrives. So the reference count shows whether one of them is
    /// unanswered.
    proof_token: Arc<()>,
    /// All other requests in the order in which they were sent, each with the start of its wait.
    /// The next call removes the answered requests at the front.
    requests: VecDeque<(AbortHandle, BootInstant)>,
}

impl Unanswered {
    /// Returns the token for a request whose reply can prove the session. The task of the request
    /// keeps the token until the reply arrives.
    pub(super) fn proof_token(&self) -> Arc<()> {
        Arc::clone(&self.proof_token)
    }

    /// Records that a request was sent whose reply can prove the session.
    pub(super) fn note_proof_request(&mut self) {
        if self.connected.is_some() {
            self.proof_awaited_since.get_or_insert_with(BootInstant::now);
        }
    }

    /// Records a request whose reply cannot prove the session. Its task ends when the reply
    /// arrives. `from` is the start of its wait.
    pub(super) fn note_request(&mut self, task: AbortHandle, from: BootInstant) {
        self.forget_answered();
        self.requests.push_back((task, from));
    }

    fn forget_answered(&mut self) {
        while self.requests.front().is_some_and(|(task, _)| task.is_finished()) {
            self.requests.pop_front();
        }
    }

    /// Records a reply that can prove the session. If another such request is unanswered, its wait
    /// is now counted from this reply.
    pub(super) fn note_proof_reply(&mut self) {
        self.proof_awaited_since = (Arc::strong_count(&self.proof_token) > 1).then(BootInstant::now);
    }

    /// Records that a connection was established. The waits of pending requests are counted from
    /// now, because these requests are only now sent.
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
