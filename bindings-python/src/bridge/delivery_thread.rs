//! The delivery thread: it tells event loops what has happened, so that the core's thread never waits for the
//! interpreter. It runs none of the program's code: a callback that blocks would hold up every outcome and every loss.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use pyo3::prelude::*;
use zklock::ErrorKind;
use zklock::internal::{PerProcess, block_signals, error};

use crate::errors::Result;
use crate::exit;

/// Something that can proceed, and then has something for the interpreter.
pub(crate) trait Deliver: Send + Sync {
    /// Proceeds. Runs on the delivery thread. False if there is no longer an interpreter.
    fn deliver(self: Arc<Self>) -> bool;
}

/// The thread's name.
pub(crate) const NAME: &str = "zklock-deliver";

enum Message {
    Deliver(Arc<dyn Deliver>),
    /// End, and drop the sender: that is its message.
    Stop(Sender<()>),
}

/// Leads to the delivery thread.
static DELIVERY: PerProcess<Sender<Message>> = PerProcess::new();

/// Starts this process's delivery thread on first use.
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

/// Has the delivery thread handle an operation that can proceed.
pub(crate) fn send(operation: Arc<dyn Deliver>) {
    if let Some(delivery) = DELIVERY.get() {
        // Refused after the end of the thread, which is near the end of the process.
        delivery.send(Message::Deliver(operation)).ok();
    }
}

/// Ends the delivery thread, and waits for that up to `limit`. It must not be on its way into the interpreter when
/// that goes away.
pub(crate) fn stop(limit: Duration) {
    let Some(delivery) = DELIVERY.get() else { return };
    let (stopped, end) = channel();
    if delivery.send(Message::Stop(stopped)).is_ok() {
        end.recv_timeout(limit).ok();
    }
}

thread_local! {
    static OURS: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread is one of the binding's own: the delivery thread, which must not wait for what it delivers itself,
/// or the one that runs callbacks.
pub(crate) fn is_thread_of_ours() -> bool {
    OURS.get()
}

/// Says that the calling thread is one of the binding's own.
pub(crate) fn mark_this_thread() {
    OURS.set(true);
}

fn deliver(messages: Receiver<Message>) {
    mark_this_thread();
    // They are for Python's main thread, whose system calls they must interrupt.
    block_signals();
    // Attached once for all deliveries, and detached in between: CPython makes and deletes what it knows of a thread
    // under a lock that a child which is forked at that moment never gets (3.11, in `PyOS_AfterFork_Child`).
    let stopped = Python::try_attach(|py| {
        py.detach(move || {
            loop {
                match messages.recv() {
                    Ok(Message::Deliver(operation)) => {
                        exit::stay_out_of_a_signalled_process();
                        if !operation.deliver() {
                            // The interpreter is gone, into which the way back leads.
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
    // Only now, outside the interpreter.
    drop(stopped);
}
