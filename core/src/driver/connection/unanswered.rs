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
    /// Time since which this connection has waited for a reply that can prove the session. `None`
    /// if it does not wait for such a reply.
    proofs: Option<BootInstant>,
    /// Token that requests clone and hold until their reply, if the reply can prove the session.
    /// Its reference count shows whether such a request is unanswered.
    writes: Arc<()>,
    /// Requests whose replies prove nothing, in the order in which they were sent, each with the
    /// time from which it counts as unanswered. Answered requests are removed from the front at the
    /// next call.
    questions: VecDeque<(AbortHandle, BootInstant)>,
}

impl Unanswered {
    /// Returns a token that a request holds until its reply, if the reply can prove the session.
    pub(super) fn write(&self) -> Arc<()> {
        Arc::clone(&self.writes)
    }

    /// Records that a request was sent whose reply can prove the session.
    pub(super) fn asks_proof(&mut self) {
        if self.connected.is_some() {
            self.proofs.get_or_insert_with(BootInstant::now);
        }
    }

    /// Records a request whose reply proves nothing and whose task ends with the reply. The request
    /// counts as unanswered from `from` on.
    pub(super) fn asks(&mut self, task: AbortHandle, from: BootInstant) {
        self.forget_answered();
        self.questions.push_back((task, from));
    }

    fn forget_answered(&mut self) {
        while self.questions.front().is_some_and(|(task, _)| task.is_finished()) {
            self.questions.pop_front();
        }
    }

    /// Records that the server has answered a request that could prove the session. If another such
    /// request is still unanswered, the wait for its reply counts from now. There might be no later
    /// request that would start the count.
    pub(super) fn proof_is_answered(&mut self) {
        self.proofs = (Arc::strong_count(&self.writes) > 1).then(BootInstant::now);
    }

    /// Records that a connection was established. Requests made while there was no connection are
    /// sent on it.
    pub(super) fn connects(&mut self) {
        self.connected = Some(BootInstant::now());
        self.proof_is_answered();
    }

    /// Records that the connection was lost.
    pub(super) fn disconnects(&mut self) {
        (self.connected, self.proofs) = (None, None);
    }

    /// Returns the time since which the oldest request has been unanswered.
    pub(super) fn since(&mut self) -> Option<BootInstant> {
        self.forget_answered();
        let question =
            self.connected.and_then(|from| self.questions.front().map(|(_, asked)| from.max(*asked)));
        [self.proofs, question].into_iter().flatten().min()
    }
}
