//! The delivery thread passes the outcomes of operations to event loops and greenlets. The core's thread
//! cannot do this, because it must never wait for the Python interpreter.
//!
//! The delivery thread runs no user code, because a callback that blocks would delay every outcome and every
//! report of a loss.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use pyo3::prelude::*;
use zklock::ErrorKind;
use zklock::internal::{PerProcess, block_signals, error};

use crate::errors::Result;
use crate::exit;

/// An operation that the delivery thread polls, and whose result it passes to the interpreter.
pub(crate) trait Deliver: Send + Sync {
    /// Polls the operation, and delivers its result if there is one. Runs on the delivery thread. Returns
    /// `false` if the interpreter no longer exists.
    fn deliver(self: Arc<Self>) -> bool;
}

/// Name of the delivery thread.
pub(crate) const NAME: &str = "zklock-deliver";

enum Message {
    Deliver(Arc<dyn Deliver>),
    /// Stop the thread. It drops this sender when it has stopped.
    Stop(Sender<()>),
}

/// Sender of messages to the delivery thread.
static DELIVERY: PerProcess<Sender<Message>> = PerProcess::new();

/// Starts the delivery thread of this process on first use.
pub(crate) fn start() -> Result<()> {
    let begin = || {
        let (sender, messages) = channel();
        let thread = std::thread::Builder::new().name(NAME.to_owned());
        thread.spawn(move || deliver(messages)).map(|_| sender)
    };
    DELIVERY.get_or_try_init(begin).map_err(|problem| {
        error(ErrorKind::ConnectionFailed, format!("cannot start the delivery thread: {problem}"))
    })?;
    Ok(())
}

/// Passes an operation that can make progress to the delivery thread.
pub(crate) fn send(operation: Arc<dyn Deliver>) {
    if let Some(delivery) = DELIVERY.get() {
        // Fails if the thread has stopped because the process is exiting.
        delivery.send(Message::Deliver(operation)).ok();
    }
}

/// Stops the delivery thread, and waits up to `limit` until it has stopped. The thread must not enter the
/// interpreter while the interpreter is being destroyed.
pub(crate) fn stop(limit: Duration) {
    let Some(delivery) = DELIVERY.get() else { return };
    let (stopped, end) = channel();
    if delivery.send(Message::Stop(stopped)).is_ok() {
        end.recv_timeout(limit).ok();
    }
}

thread_local! {
    static IS_BINDING_THREAD: Cell<bool> = const { Cell::new(false) };
}

/// Returns `true` on the delivery thread and the callback thread. The delivery thread must not wait for an
/// outcome, because it would have to deliver that outcome itself.
pub(crate) fn is_binding_thread() -> bool {
    IS_BINDING_THREAD.get()
}

/// Marks the calling thread as one of the binding's threads.
pub(crate) fn mark_this_thread() {
    IS_BINDING_THREAD.set(true);
}

fn deliver(messages: Receiver<Message>) {
    mark_this_thread();
    // Block signals on this thread, so that they are delivered to Python's main thread and interrupt a system
    // call there.
    block_signals();
    // Attach only once, and detach between deliveries. For each new attachment CPython creates and deletes
    // thread state under a lock. If another thread forks at that moment, the lock stays locked in the child,
    // which then hangs (3.11, in `PyOS_AfterFork_Child`).
    let stopped = Python::try_attach(|py| {
        py.detach(move || {
            loop {
                match messages.recv() {
                    Ok(Message::Deliver(operation)) => {
                        exit::block_if_signalled();
                        if !operation.deliver() {
                            // The interpreter no longer exists, so this thread must not return into it.
                            loop {
                                std::thread::park();
                            }
                        }
                    }
                    Ok(Message::Stop(stopped)) => return Some(stopped),
                    Err(_) => return None,
                }
            }
        })
    });
    // The thread has now left the interpreter, so report that it has stopped.
    drop(stopped);
}
