//! The delivery thread: it tells event loops and callbacks what has happened, so that the core's thread never waits for
//! the interpreter.

use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use zklock::{ErrorKind, binding};

use crate::errors::Result;

/// Something that can proceed, and then has something for the interpreter.
pub(crate) trait Deliver: Send + Sync {
    /// Proceeds. Runs on the delivery thread. False if there is no longer an interpreter.
    fn deliver(self: Arc<Self>) -> bool;
}

enum Message {
    Deliver(Arc<dyn Deliver>),
    /// End, and drop the sender.
    Stop(#[expect(dead_code, reason = "being dropped is its message")] Sender<()>),
}

/// The delivery thread of one process.
struct Delivery {
    process: u32,
    sender: Sender<Message>,
}

/// Replaced, and leaked, in a forked child: the thread exists in the parent only.
static DELIVERY: AtomicPtr<Delivery> = AtomicPtr::new(std::ptr::null_mut());

/// The delivery thread, if it was started in this process.
fn current() -> Option<&'static Delivery> {
    // SAFETY: null, or published by `start` and never freed from there on.
    unsafe { DELIVERY.load(Ordering::Acquire).as_ref() }
        .filter(|delivery| delivery.process == std::process::id())
}

/// Starts this process's delivery thread on first use.
pub(crate) fn start() -> Result<()> {
    if current().is_some() {
        return Ok(());
    }
    let (sender, messages) = channel();
    std::thread::Builder::new().name("zklock-deliver".to_owned()).spawn(move || deliver(&messages)).map_err(
        |error| {
            binding::error(ErrorKind::ConnectionFailed, format!("cannot start the delivery thread: {error}"))
        },
    )?;
    // If two threads come here at once, the loser's delivery thread merely has nothing to do.
    DELIVERY
        .store(Box::into_raw(Box::new(Delivery { process: std::process::id(), sender })), Ordering::Release);
    Ok(())
}

/// Has the delivery thread handle an operation that can proceed.
pub(crate) fn send(operation: Arc<dyn Deliver>) {
    if let Some(delivery) = current() {
        // Refused after the end of the thread, which is near the end of the process.
        delivery.sender.send(Message::Deliver(operation)).ok();
    }
}

/// Ends the delivery thread, and waits for that up to `limit`. It must not be on its way into the interpreter when
/// that goes away.
pub(crate) fn stop(limit: Duration) {
    let Some(delivery) = current() else { return };
    let (stopped, end) = channel();
    if delivery.sender.send(Message::Stop(stopped)).is_ok() {
        end.recv_timeout(limit).ok();
    }
}

fn deliver(messages: &Receiver<Message>) {
    block_signals();
    loop {
        let goes_on = match messages.recv() {
            Ok(Message::Deliver(operation)) => operation.deliver(),
            Ok(Message::Stop(_)) | Err(_) => false,
        };
        if !goes_on {
            return;
        }
    }
}

/// Leaves all signals to Python's main thread, whose system calls they must interrupt.
fn block_signals() {
    // SAFETY: plain calls on a local set.
    unsafe {
        let mut all = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, std::ptr::null_mut());
    }
}
