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
    /// Start of the time in which this connection has unanswered proof requests and no reply to any
    /// of them.
    proofs: Option<BootInstant>,
    /// Cloned by every request that can prove the session and held until its reply, so the
    /// reference count tells whether one is unanswered.
    writes: Arc<()>,
    /// Requests that prove nothing, in the order in which they were sent, each with its time.
    /// Finished ones are removed from the front at the next call.
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

    /// Records a request whose reply proves nothing. It counts as unanswered from `from` on, and
    /// its task ends with the reply.
    pub(super) fn asks(&mut self, task: AbortHandle, from: BootInstant) {
        self.forget_answered();
        self.questions.push_back((task, from));
    }

    fn forget_answered(&mut self) {
        while self.questions.front().is_some_and(|(task, _)| task.is_finished()) {
            self.questions.pop_front();
        }
    }

    /// Records that the server has answered a request that could prove the session. If a later one
    /// is still unanswered, its time counts from now on, because no other request might follow.
    pub(super) fn proof_is_answered(&mut self) {
        self.proofs = (Arc::strong_count(&self.writes) > 1).then(BootInstant::now);
    }

    /// Records that a connection was established. Requests made in between are sent on it.
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
