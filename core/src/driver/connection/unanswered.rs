//! What was asked of the server and is not answered yet (rule 16).

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::task::AbortHandle;

use crate::runtime::clock::BootInstant;

/// Of one session.
#[derive(Default)]
pub(super) struct Unanswered {
    /// When the connection came, if there is one.
    connected: Option<BootInstant>,
    /// Since when proofs have been asked for on this connection, and nothing was answered that could have been one.
    proofs: Option<BootInstant>,
    /// Held by all that was asked for and could prove the session, until it is answered.
    writes: Arc<()>,
    /// What was asked that proves nothing, and when, in this order. The first is not answered yet, or was not when somebody
    /// last looked.
    questions: VecDeque<(AbortHandle, BootInstant)>,
}

impl Unanswered {
    /// To be held by something that could prove the session, until it is answered.
    pub(super) fn write(&self) -> Arc<()> {
        Arc::clone(&self.writes)
    }

    /// Something is asked whose answer could be a proof.
    pub(super) fn asks_proof(&mut self) {
        if self.connected.is_some() {
            self.proofs.get_or_insert_with(BootInstant::now);
        }
    }

    /// Something is asked, from this moment on, whose answer is no proof; the task ends with the answer.
    pub(super) fn asks(&mut self, task: AbortHandle, from: BootInstant) {
        self.forget_answered();
        self.questions.push_back((task, from));
    }

    fn forget_answered(&mut self) {
        while self.questions.front().is_some_and(|(task, _)| task.is_finished()) {
            self.questions.pop_front();
        }
    }

    /// What could have been a proof is answered. What was asked later is asked in vain from now on: perhaps nobody asks for
    /// anything else.
    pub(super) fn proof_is_answered(&mut self) {
        self.proofs = (Arc::strong_count(&self.writes) > 1).then(BootInstant::now);
    }

    /// There is a connection, on which everything goes out that was asked for in between.
    pub(super) fn connects(&mut self) {
        self.connected = Some(BootInstant::now());
        self.proof_is_answered();
    }

    /// There is none.
    pub(super) fn disconnects(&mut self) {
        (self.connected, self.proofs) = (None, None);
    }

    /// Since when something is asked in vain.
    pub(super) fn since(&mut self) -> Option<BootInstant> {
        self.forget_answered();
        let question =
            self.connected.and_then(|from| self.questions.front().map(|(_, asked)| from.max(*asked)));
        [self.proofs, question].into_iter().flatten().min()
    }
}
