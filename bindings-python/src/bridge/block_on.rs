//! Lets a Python thread wait for an operation of the core. During the wait, other threads can use the
//! interpreter, and the thread reacts to signals.

use std::cell::Cell;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use zklock::ErrorKind;
use zklock::internal::{ForkGuard, error};

use crate::bridge::gevent;
use crate::bridge::gevent::Hub;
use crate::bridge::log;
use crate::bridge::loop_inbox::Abandonable;
use crate::bridge::trio;
use crate::errors::Failure;
use crate::exit;

/// Interval at which a waiting main thread checks for signals. Ctrl-C must take effect within 0.1 seconds.
/// The interval is half of that time, which leaves time for the signal handler.
const SIGNAL_INTERVAL: Duration = Duration::from_millis(50);

/// Prepares this thread for a request. Call this before sending anything to a server.
pub(crate) fn begin(py: Python<'_>) -> PyResult<()> {
    exit::pause(py)?;
    prepare(py)
}

/// Like [`begin`], for a call that might wait. Fails where a wait is impossible, such as in a trio task.
pub(crate) fn admit(py: Python<'_>) -> PyResult<()> {
    gevent::refuse_eventlet(py)?;
    trio::refuse(py)?;
    begin(py)
}

/// Returns the output if the future completes on its first poll. For example, the release of a re-entry
/// completes immediately.
pub(crate) fn at_once<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    match Pin::new(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

fn prepare(py: Python<'_>) -> PyResult<()> {
    if exit::prepare(py)? {
        // Read the log level now, because events of the first request can arrive before this thread runs
        // again.
        log::ask(py)?;
    }
    Ok(())
}

/// Waits for `future` while other threads can use the interpreter.
///
/// If a signal handler on the main thread raises an exception, such as `KeyboardInterrupt`, the wait ends
/// with that exception. The future is dropped first, so the waiter has already left the queue. If a signal
/// handler forks and returns, the wait fails in the child, where it could never complete. With gevent, other
/// greenlets run during the wait.
pub(crate) fn block_on<F>(py: Python<'_>, future: F) -> PyResult<F::Output>
where
    F: Future<Output: Send> + Send,
{
    unlimited(block_on_for(py, future, None, None)?)
}

/// Like [`block_on`], for a result that the caller must release, such as a lease. If gevent destroys the hub
/// of the waiting greenlet during the wait, the result is released.
pub(crate) fn block_to_own<F>(py: Python<'_>, future: F) -> PyResult<F::Output>
where
    F: Future<Output: Send> + Send + 'static,
{
    if let Some(hub) = hub(py)? {
        return unlimited(hub.wait_to_own(future)?);
    }
    begin(py)?;
    unlimited(block_thread(py, pin!(future), None)?)
}

fn unlimited<T>(output: Option<T>) -> PyResult<T> {
    output.ok_or_else(|| PyRuntimeError::new_err("a wait without a time limit ended without a result"))
}

/// Returns the hub in which the caller waits, if the caller is a greenlet.
fn hub(py: Python<'_>) -> PyResult<Option<Hub<'_>>> {
    let hub = Hub::of_this_thread(py)?;
    if hub.is_some() {
        // Do not call `begin`: while the process exits, it would pause the whole thread, including the
        // greenlet that ends the process.
        prepare(py)?;
    }
    Ok(hub)
}

/// Like [`block_on`], with a time limit. If gevent destroys the hub of a waiting greenlet, `claim` (the
/// operation for which the greenlet waits) is abandoned.
pub(crate) fn block_on_for<F>(
    py: Python<'_>,
    future: F,
    limit: Option<Duration>,
    claim: Option<Arc<dyn Abandonable>>,
) -> PyResult<Option<F::Output>>
where
    F: Future<Output: Send> + Send,
{
    if let Some(hub) = hub(py)? {
        return hub.wait(Box::pin(future), limit, claim);
    }
    begin(py)?;
    block_thread(py, pin!(future), limit)
}

/// Waits on a thread without greenlets.
fn block_thread<F>(
    py: Python<'_>,
    mut future: Pin<&mut F>,
    limit: Option<Duration>,
) -> PyResult<Option<F::Output>>
where
    F: Future<Output: Send> + Send,
{
    let deadline = limit.and_then(|limit| Instant::now().checked_add(limit));
    // An operation that needs no reply from a server, such as re-entry, completes on the first poll.
    if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        exit::wait_if_signalled(py);
        return Ok(Some(output));
    }
    log::refresh(py)?;
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let main_thread = is_main_thread(py)?;
    let interval = main_thread.then_some(SIGNAL_INTERVAL);
    let origin = ForkGuard::new();
    loop {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let time = interval.into_iter().chain(left).min();
        let output = py.detach(|| {
            let output = poll_for(future.as_mut(), &waker, time);
            // Never block the main thread, because it finalizes the interpreter itself, and this wait might
            // be in a finalizer.
            if !main_thread {
                exit::block_if_finalizing();
            }
            output
        });
        if output.is_some() || left.is_some_and(|left| left.is_zero()) {
            exit::pause(py)?;
            return Ok(output);
        }
        py.check_signals()?;
        if !origin.is_here() {
            let message = "a signal handler forked during this wait, which belongs to the parent process; call it again";
            return Err(Failure::from(error(ErrorKind::Forked, message)).into());
        }
    }
}

/// Returns `true` if this thread runs signal handlers. Caches the result per thread and process, which is
/// safe because only gevent changes the identifier of a thread, and threads with greenlets do not wait here.
fn is_main_thread(py: Python<'_>) -> PyResult<bool> {
    thread_local! {
        static KNOWN: Cell<Option<(ForkGuard, bool)>> = const { Cell::new(None) };
    }
    if let Some((origin, main_thread)) = KNOWN.get()
        && origin.is_here()
    {
        return Ok(main_thread);
    }
    let main_thread = exit::is_main_thread(py)?;
    KNOWN.set(Some((ForkGuard::new(), main_thread)));
    Ok(main_thread)
}

/// Polls until there is an output or the time has elapsed.
fn poll_for<F: Future>(mut future: Pin<&mut F>, waker: &Waker, time: Option<Duration>) -> Option<F::Output> {
    let deadline = time.map(|time| Instant::now() + time);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(waker)) {
            return Some(output);
        }
        match deadline.map(|deadline| deadline.saturating_duration_since(Instant::now())) {
            None => thread::park(),
            Some(Duration::ZERO) => return None,
            Some(left) => thread::park_timeout(left),
        }
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}
