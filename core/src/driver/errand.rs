//! What runs on a session, and is not to end the driver with its panic.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::sync::mpsc;

use crate::mailbox::{Input, News};
use crate::supervision::poll_caught;

/// Something that runs on the session. A future by hand: one that the compiler makes out of it keeps what it runs twice,
/// once as it was given and once as it is run, and there are three of them in an acquire and its release.
pub(super) struct Errand<F> {
    task: F,
    epoch: u64,
    sender: mpsc::UnboundedSender<Input>,
    /// Held until it is over, if its answer could prove the session.
    _unanswered: Option<Arc<()>>,
}

impl<F> Errand<F> {
    pub(super) fn new(
        task: F,
        epoch: u64,
        sender: mpsc::UnboundedSender<Input>,
        unanswered: Option<Arc<()>>,
    ) -> Self {
        Self { task, epoch, sender, _unanswered: unanswered }
    }
}

impl<F: Future<Output = ()>> Future for Errand<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        // SAFETY: nothing is moved out of it, and the task stays pinned where it is for as long as this is.
        let this = unsafe { self.get_unchecked_mut() };
        // SAFETY: as above.
        let task = unsafe { Pin::new_unchecked(&mut this.task) };
        if let Err(panic) = ready!(poll_caught(task, cx)) {
            this.sender.send(Input::News(News::Panicked(this.epoch, panic))).ok();
        }
        Poll::Ready(())
    }
}
