//! The gate that stops one client's tasks in the simulation while other clients run. Compiled only
//! for the simulation.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

tokio::task_local! {
    /// Number of the client that the current task works for.
    static CLIENT: usize;
}

/// Decides whether a client's tasks can run now. If they cannot, the gate keeps the context's waker
/// and wakes the task later.
pub trait Gate {
    /// Returns `true` if the tasks of this client can run.
    fn open(&self, client: usize, cx: &mut Context<'_>) -> bool;

    /// Returns `true` if this part of the client must panic now.
    fn breaks(&self, client: usize, part: Part) -> bool;
}

/// The parts of a client that can panic without ending the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// A task of the ZooKeeper client crate for a session, or for opening one.
    Service,
    /// A request of the driver, or another future that runs on a session.
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

/// Runs `future` as part of a client. When the client is stopped, the future and the tasks that it
/// spawns stop too.
pub fn of_client<F: Future>(client: usize, future: F) -> impl Future<Output = F::Output> {
    CLIENT.scope(client, Gated { client: Some(client), future: Box::pin(future) })
}

/// Wraps a task so that it stops together with the client whose task spawns it.
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

/// Wraps a future so that it panics when the gate requires it.
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
