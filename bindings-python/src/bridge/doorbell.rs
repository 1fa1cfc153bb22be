//! A socket that wakes an event loop. Unlike a callback, it needs neither the interpreter nor the delivery
//! thread: the thread that completes an operation writes a byte, and the loop continues the task.
//!
//! Only the class of loops that asyncio uses by default on Unix has a doorbell. Such a loop owns the end that
//! it watches, through its callback. So this end is closed only when the loop no longer watches it, and no
//! other descriptor can have its number before that. From then on, the delivery thread wakes the loop, or
//! finds that it is closed.

use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::PyException;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use zklock::internal::ForkGuard;

use crate::bridge::asyncio_tasks::running_loop;
use crate::bridge::loop_inbox::{Awaited, Inbox, resume_all};
use crate::modules::{attribute, interned};

/// The loop might use `select`, which supports only descriptors below this number.
const SELECTABLE: i32 = 1024;

/// The end to which threads write. `None` if the event loop does not watch the other end.
#[derive(Default)]
pub(crate) struct Doorbell(Mutex<Option<UnixStream>>);

impl Doorbell {
    /// Locks the end. Ignores poisoning, because a panic cannot leave it half changed. No thread waits for the
    /// interpreter while it has this lock.
    fn lock(&self) -> MutexGuard<'_, Option<UnixStream>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts an operation into the inbox and wakes the loop. Returns `false` if the loop has no doorbell.
    pub(crate) fn ring(&self, inbox: &Inbox, operation: Arc<dyn Awaited>) -> bool {
        // Keep the lock, so that the operation is in the inbox before the loop can stop to watch.
        let end = self.lock();
        let Some(mut end) = end.as_ref() else { return false };
        if inbox.push(operation) {
            // Fails only if the socket is full. The loop then wakes anyway.
            end.write_all(&[0]).ok();
        }
        true
    }
}

/// Makes an event loop watch the doorbell of its inbox, if it can. Runs on the thread of the loop.
pub(crate) fn install(event_loop: &Bound<'_, PyAny>, inbox: &Arc<Inbox>) -> PyResult<()> {
    static LOOP: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    static CONTEXT: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let py = event_loop.py();
    if !event_loop.get_type().is(attribute(&LOOP, py, "asyncio", "SelectorEventLoop")?) {
        return Ok(());
    }
    let Ok((end, watched)) = UnixStream::pair() else { return Ok(()) };
    let number = watched.as_raw_fd();
    if number >= SELECTABLE || end.set_nonblocking(true).is_err() || watched.set_nonblocking(true).is_err() {
        return Ok(());
    }
    // If the program has closed a socket that the loop still watches, the loop would believe that it watches
    // the new socket with the same number already.
    for remove in [interned!(py, "remove_writer")?, interned!(py, "remove_reader")?] {
        unless_interrupted(py, event_loop.call_method1(remove, (number,)))?;
    }
    let answer = Bound::new(py, Answer { watched, inbox: Arc::clone(inbox), origin: ForkGuard::new() })?;
    // In an empty context, because the loop keeps it.
    let context = attribute(&CONTEXT, py, "contextvars", "Context")?.call0()?;
    let add = event_loop.getattr(interned!(py, "add_reader")?)?;
    let added = context.call_method1(interned!(py, "run")?, (add, number, answer));
    if unless_interrupted(py, added)? {
        *inbox.doorbell.lock() = Some(end);
    }
    Ok(())
}

/// Returns `false` if the loop refused. Passes on exceptions such as `KeyboardInterrupt`.
fn unless_interrupted(py: Python<'_>, called: PyResult<Bound<'_, PyAny>>) -> PyResult<bool> {
    match called {
        Err(error) if !error.is_instance_of::<PyException>(py) => Err(error),
        called => Ok(called.is_ok()),
    }
}

/// The callback that the event loop calls when the doorbell has rung. It owns the end that the loop watches.
#[pyclass(frozen)]
struct Answer {
    watched: UnixStream,
    inbox: Arc<Inbox>,
    origin: ForkGuard,
}

#[pymethods]
impl Answer {
    fn __call__(&self, py: Python<'_>) -> PyResult<()> {
        // A forked child shares the socket, and must leave the byte to its parent.
        if !self.origin.is_here() {
            return Ok(());
        }
        // Read before taking the operations: another byte announces those that arrive later.
        (&self.watched).read(&mut [0; 8]).map(drop).ok();
        let operations = self.inbox.lock().take();
        running_loop(py)?.map_or(Ok(()), |event_loop| resume_all(&event_loop, operations))
    }

    /// Visits the tasks that this callback will continue, because the event loop, this callback in it and the
    /// tasks form a cycle.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        let Some(arrived) = self.inbox.try_lock() else { return Ok(()) };
        arrived.all().iter().try_for_each(|operation| operation.traverse(&visit))
    }
}

impl Drop for Answer {
    /// The loop is closed, was collected, or no longer watches the socket. The delivery thread finds out which.
    fn drop(&mut self) {
        // In a forked child, do nothing: a thread of the parent can have locked the doorbell at the fork.
        if self.origin.is_here() {
            self.inbox.doorbell.lock().take();
            let left = self.inbox.lock().take();
            for operation in left {
                operation.deliver();
            }
        }
    }
}
