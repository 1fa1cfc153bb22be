//! Stops the tasks of one client while others run, in a simulation. Compiled for nothing else.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

tokio::task_local! {
    /// The number of the client for which the current task works.
    static CLIENT: usize;
}

/// Decides whether a client's tasks may run now; if not, keeps their context's waker for later.
pub trait Gate {
    /// Whether the tasks of this client may run.
    fn open(&self, client: usize, cx: &mut Context<'_>) -> bool;

    /// Whether this part of a client panics now.
    fn breaks(&self, client: usize, part: Part) -> bool;
}

/// What can panic, and is not to end the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// What the client crate runs for a session, and the search for one.
    Service,
    /// A request of the driver's, or something else that runs on a session.
    Request,
}

thread_local! {
    static GATE: RefCell<Option<Rc<dyn Gate>>> = const { RefCell::new(None) };
}

/// Runs `body` with this gate.
pub(crate) fn behind<R>(gate: Rc<dyn Gate>, body: impl FnOnce() -> R) -> R {
    GATE.set(Some(gate));
    let result = body();
    GATE.set(None);
    result
}

/// Runs `future` as a part of a client: it stops when the client is stopped, and so do the tasks that come of it.
pub fn of_client<F: Future>(client: usize, future: F) -> impl Future<Output = F::Output> {
    CLIENT.scope(client, Gated { client: Some(client), future: Box::pin(future) })
}

/// A task that stops with the client of the task that spawns it.
pub(crate) fn gated<F: Future>(future: F) -> impl Future<Output = F::Output> + use<F> {
    let client = CLIENT.try_with(|client| *client).ok();
    let gated = Gated { client, future: Box::pin(future) };
    async move {
        match client {
            Some(client) => CLIENT.scope(client, gated).await,
            None => gated.await,
        }
    }
}

/// A task that panics when the gate says so.
pub(crate) fn fragile<F: Future>(part: Part, future: F) -> impl Future<Output = F::Output> + use<F> {
    let mut future = Box::pin(future);
    std::future::poll_fn(move |cx| {
        let client = CLIENT.try_with(|client| *client).ok();
        let gate = GATE.with_borrow(Clone::clone);
        let breaks = client.zip(gate).is_some_and(|(client, gate)| gate.breaks(client, part));
        assert!(!breaks, "as planned: a panic in a {part:?}");
        future.as_mut().poll(cx)
    })
}

struct Gated<F> {
    client: Option<usize>,
    future: Pin<Box<F>>,
}

impl<F: Future> Future for Gated<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        if let Some(client) = self.client {
            let gate = GATE.with_borrow(Clone::clone);
            if gate.is_some_and(|gate| !gate.open(client, cx)) {
                return Poll::Pending;
            }
        }
        self.future.as_mut().poll(cx)
    }
}
