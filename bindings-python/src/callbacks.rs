//! The thread that runs the program's callbacks, and nothing else.
//!
//! A Python thread, as that of log handlers is, started when the first callback is registered. A callback that blocks
//! delays other callbacks only: outcomes and losses reach event loops by the delivery thread. And if it still blocks when
//! the process ends, the interpreter ends its thread as any other daemon thread's, in Python's frames, not in ours.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pyo3::prelude::*;
use zklock::internal::PerProcess;

use crate::bridge::delivery_thread;
use crate::exit;

/// Something that may have a callback to be called.
pub(crate) trait Caller: Send + Sync {
    /// The callback that is due, and its argument; None if there is none now.
    fn next_due(self: Arc<Self>, py: Python<'_>) -> Option<(Py<PyAny>, Py<PyAny>)>;
}

/// The callbacks that may be due, in the order in which that was found out.
#[derive(Default)]
struct Queue {
    state: Mutex<State>,
    news: Condvar,
}

#[derive(Default)]
struct State {
    due: VecDeque<Arc<dyn Caller>>,
    /// The thread has been started.
    begun: bool,
    /// Nothing more comes.
    ended: bool,
}

static QUEUE: PerProcess<Queue> = PerProcess::new();

impl Queue {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the next; None when no more will come.
    fn take(&self) -> Option<Arc<dyn Caller>> {
        let idle = |state: &mut State| state.due.is_empty() && !state.ended;
        let mut state = self.news.wait_while(self.state(), idle).unwrap_or_else(PoisonError::into_inner);
        state.due.pop_front()
    }
}

/// Starts this process's thread when the first callback is registered.
pub(crate) fn start(py: Python<'_>) -> PyResult<()> {
    let queue = QUEUE.get_or_init(Queue::default);
    if std::mem::replace(&mut queue.state().begun, true) {
        return Ok(());
    }
    let begun = py.import("zklock._callbacks").and_then(|callbacks| callbacks.call_method0("begin"));
    if begun.is_err() {
        queue.state().begun = false;
        // No thread starts at the end of the process, and nothing is called any more.
        return if exit::is_ending() { Ok(()) } else { begun.map(drop) };
    }
    Ok(())
}

/// Has the thread see whether a callback is due. Called by any thread, mostly the core's.
pub(crate) fn send(caller: Arc<dyn Caller>) {
    if let Some(queue) = QUEUE.get() {
        queue.state().due.push_back(caller);
        queue.news.notify_one();
    }
}

/// Ends the thread once it has called what is due, and waits for that up to `limit`.
pub(crate) fn end(py: Python<'_>, limit: Duration) {
    let Some(queue) = QUEUE.get() else { return };
    let begun = {
        let mut state = queue.state();
        state.ended = true;
        state.begun
    };
    queue.news.notify_one();
    if begun {
        let joined =
            py.import("zklock._callbacks").and_then(|all| all.call_method1("join", (limit.as_secs_f64(),)));
        drop(joined);
    }
}

/// Wait for a callback that is due, and return it with its argument; None when there will be no more.
#[pyfunction]
pub(crate) fn next_callback(py: Python<'_>) -> Option<(Py<PyAny>, Py<PyAny>)> {
    delivery_thread::mark_this_thread();
    let queue = QUEUE.get()?;
    loop {
        let caller = py.detach(|| {
            let caller = queue.take();
            exit::stay_out_of_a_signalled_process();
            exit::stay_out_of_a_dying_interpreter();
            caller
        })?;
        if let Some(due) = Arc::clone(&caller).next_due(py) {
            // It may have more to tell, which comes next.
            queue.state().due.push_front(caller);
            return Some(due);
        }
    }
}

/// Report what a callback has raised to `sys.unraisablehook`.
#[pyfunction]
pub(crate) fn report_unraisable(error: &Bound<'_, PyAny>, callback: &Bound<'_, PyAny>) {
    PyErr::from_value(error.clone()).write_unraisable(callback.py(), Some(callback));
}
