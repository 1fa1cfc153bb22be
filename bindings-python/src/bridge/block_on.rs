//! Waiting for the core on a Python thread: detached from the interpreter, and open to signals.

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
use crate::bridge::loop_inbox::Ended;
use crate::bridge::trio;
use crate::errors::Failure;
use crate::exit;

/// How often the main thread checks for signals while it waits. A tenth of a second is the most that Ctrl-C may
/// take to be noticed; half of it leaves room for what the handler does.
const SIGNAL_INTERVAL: Duration = Duration::from_millis(50);

/// Call this before sending anything to a server.
pub(crate) fn begin(py: Python<'_>) -> PyResult<()> {
    exit::pause(py)?;
    prepare(py)
}

/// The same where a wait may follow: refuses what cannot wait.
pub(crate) fn admit(py: Python<'_>) -> PyResult<()> {
    gevent::refuse_eventlet(py)?;
    trio::refuse(py)?;
    begin(py)
}

/// The output of what is done at once, such as the release of an inner level.
pub(crate) fn at_once<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    match Pin::new(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

fn prepare(py: Python<'_>) -> PyResult<()> {
    if exit::prepare(py)? {
        // The first request's events may come before this thread runs again.
        log::ask(py)?;
    }
    Ok(())
}

/// Waits for `future` with the interpreter free for other threads. On the main thread a signal handler that raises
/// ends the wait, as `KeyboardInterrupt` does: the future is dropped before the exception is raised, and so has left
/// the queue. One that forks and returns ends it in the child, where the wait could never end. A greenlet lets the
/// others run.
pub(crate) fn block_on<F>(py: Python<'_>, future: F) -> PyResult<F::Output>
where
    F: Future<Output: Send> + Send,
{
    unlimited(block_on_for(py, future, None, None)?)
}

/// The same for what is then the caller's own, such as a lease: a greenlet whose hub ends meanwhile gives it up.
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
    output.ok_or_else(|| PyRuntimeError::new_err("a wait without a limit has reached it"))
}

/// Where the caller waits if it is a greenlet.
fn hub(py: Python<'_>) -> PyResult<Option<Hub<'_>>> {
    let hub = Hub::of_this_thread(py)?;
    if hub.is_some() {
        // Held up at the end of the process, this greenlet would hold up the one that ends it.
        prepare(py)?;
    }
    Ok(hub)
}

/// Waits for at most this long. `claim`: what a greenlet whose hub ends meanwhile gives up.
pub(crate) fn block_on_for<F>(
    py: Python<'_>,
    future: F,
    limit: Option<Duration>,
    claim: Option<Arc<dyn Ended>>,
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

/// Waits where there are no greenlets to consider.
fn block_thread<F>(
    py: Python<'_>,
    mut future: Pin<&mut F>,
    limit: Option<Duration>,
) -> PyResult<Option<F::Output>>
where
    F: Future<Output: Send> + Send,
{
    let deadline = limit.and_then(|limit| Instant::now().checked_add(limit));
    // What needs no answer from a server, such as re-entry, is done at once.
    if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
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
            // The main thread itself ends the interpreter, and may wait in a finalizer meanwhile.
            if !main_thread {
                exit::stay_out_of_a_dying_interpreter();
            }
            output
        });
        if output.is_some() || left.is_some_and(|left| left.is_zero()) {
            exit::pause(py)?;
            return Ok(output);
        }
        py.check_signals()?;
        if !origin.is_here() {
            let message =
                "a signal handler forked during this wait, which is the parent process's; begin it again";
            return Err(Failure::from(error(ErrorKind::Forked, message)).into());
        }
    }
}

/// Whether this is the thread that runs signal handlers. Asked of Python once in each thread and process: where there
/// are no greenlets, the answer stays.
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

/// Polls until there is an output or the time is up.
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
