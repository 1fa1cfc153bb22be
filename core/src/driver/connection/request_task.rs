//! The task of a request.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::sync::mpsc;

use crate::driver::mailbox::{Input, SessionEvent};
use crate::runtime::supervise::poll_caught;

/// A task that runs on the session. It implements `Future` by hand to save memory: an async block
/// would store the inner task twice. An acquire and its release use two of these tasks.
pub(super) struct RequestTask<F> {
    task: F,
    epoch: u64,
    sender: mpsc::UnboundedSender<Input>,
    /// Held until the task ends, if the reply can prove the session.
    _unanswered: Option<Arc<()>>,
}

impl<F> RequestTask<F> {
    pub(super) fn new(
        task: F,
        epoch: u64,
        sender: mpsc::UnboundedSender<Input>,
        unanswered: Option<Arc<()>>,
    ) -> Self {
        Self { task, epoch, sender, _unanswered: unanswered }
    }
}

impl<F: Future<Output = ()>> Future for RequestTask<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        // SAFETY: nothing is moved out of `self`, and `task` stays pinned as long as `self` does.
        let this = unsafe { self.get_unchecked_mut() };
        // SAFETY: as above.
        let task = unsafe { Pin::new_unchecked(&mut this.task) };
        if let Err(panic) = ready!(poll_caught(task, cx)) {
            this.sender.send(Input::Session(SessionEvent::Panicked(this.epoch, panic))).ok();
        }
        Poll::Ready(())
    }
}
