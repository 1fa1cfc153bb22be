//! Passes log events of the core to Python's `logging`.
//!
//! A separate Python thread, `zklock._log`, takes the events from the core and calls the log handlers. It
//! starts with the first event. The delivery thread must not run log handlers, because they belong to the
//! program. A handler that blocks would delay the outcomes that event loops wait for.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use zklock::internal::PerProcess;
use zklock::internal::log::{Backlog, Listener, LogLevel, Record};

use crate::bridge::delivery_thread;
use crate::bridge::delivery_thread::Deliver;
use crate::exit;
use crate::modules::attribute;

/// Maximum age of the cached logger level. After this time, the next thread that waits for a server reads the
/// level again.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// Log state of one process.
struct Log {
    began: Instant,
    /// Time of the last read of the logger's level, in milliseconds since `began`. Zero if the level was
    /// never read.
    asked: AtomicU64,
    listener: Arc<Listener>,
    inbox: Arc<Inbox>,
}

/// The state on which the Python thread waits.
#[derive(Default)]
struct Inbox {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// `true` if there might be an event to take.
    has_event: bool,
    /// `true` once the start of the Python thread has been requested.
    begun: bool,
    /// `true` once no more events will arrive.
    ended: bool,
}

static LOG: PerProcess<Log> = PerProcess::new();

impl Log {
    fn new() -> Self {
        let inbox = Arc::<Inbox>::default();
        let wake = Arc::clone(&inbox);
        Self {
            began: Instant::now(),
            asked: AtomicU64::new(0),
            listener: Listener::new(None, move || wake.notify()),
            inbox,
        }
    }

    /// Returns `true` if the cached level is too old and no other thread reads it now. The caller must then
    /// read it.
    fn is_due(&self) -> bool {
        let now = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX).max(1);
        let asked = self.asked.load(Ordering::Relaxed);
        let due = asked == 0 || Duration::from_millis(now - asked.min(now)) >= ASK_AGAIN;
        due && self.asked.compare_exchange(asked, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Reads the logger's level. If a signal handler raises an exception meanwhile, such as
    /// `KeyboardInterrupt`, returns this exception.
    fn ask(&self, py: Python<'_>) -> PyResult<()> {
        static VERBOSITY: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let asked = attribute(&VERBOSITY, py, "zklock._log", "verbosity")?.call0()?.extract();
        self.set_verbosity(asked?);
        Ok(())
    }

    fn set_verbosity(&self, verbosity: usize) {
        if self.inbox.state().ended {
            return;
        }
        self.listener.set_level(verbosity.checked_sub(1).and_then(|last| LogLevel::ALL.get(last)).copied());
    }
}

impl Inbox {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Signals that there is an event. Any thread can call this function. Usually the core's thread calls it.
    fn notify(&self) {
        let mut state = self.state();
        state.has_event = true;
        let first = !std::mem::replace(&mut state.begun, true);
        drop(state);
        self.changed.notify_one();
        if first && delivery_thread::start().is_ok() {
            delivery_thread::send(Arc::new(StartLogThread));
        }
    }

    fn end(&self) {
        self.state().ended = true;
        self.changed.notify_one();
    }

    /// Waits for events. Returns `None` when no more will arrive.
    fn take(&self, listener: &Listener) -> Option<Backlog> {
        loop {
            let backlog = listener.take();
            if !backlog.records.is_empty() {
                return Some(backlog);
            }
            let idle = |state: &mut State| !state.has_event && !state.ended;
            let mut state =
                self.changed.wait_while(self.state(), idle).unwrap_or_else(PoisonError::into_inner);
            if !std::mem::take(&mut state.has_event) {
                return None;
            }
        }
    }
}

/// Reads the logger's level if the cached one is too old. A thread calls this before it waits for a server,
/// while it is still attached to the interpreter.
pub(crate) fn refresh(py: Python<'_>) -> PyResult<()> {
    let log = LOG.get_or_init(Log::new);
    if log.is_due() { log.ask(py) } else { Ok(()) }
}

/// Reads the logger's level, even if the cached level is recent. Called when a client is created, and when a
/// process first uses a client.
pub(crate) fn ask(py: Python<'_>) -> PyResult<()> {
    LOG.get_or_init(Log::new).ask(py)
}

/// Starts the Python thread that logs. The delivery thread does this, because it needs the interpreter.
struct StartLogThread;

impl Deliver for StartLogThread {
    fn deliver(self: Arc<Self>) -> bool {
        // Fails if threads can no longer start, because the process is exiting.
        Python::try_attach(|py| drop(py.import("zklock._log").and_then(|log| log.call_method0("begin"))))
            .is_some()
    }
}

/// Makes the Python thread stop once it has passed on all events. Waits up to `limit` until it has stopped.
pub(crate) fn end(py: Python<'_>, limit: Duration) {
    let Some(log) = LOG.get() else { return };
    log.listener.set_level(None);
    log.inbox.end();
    if log.inbox.state().begun {
        let joined =
            py.import("zklock._log").and_then(|log| log.call_method1("join", (limit.as_secs_f64(),)));
        drop(joined);
    }
}

/// Level, target, file, line, time, text and fields of an event.
type LogEvent = (&'static str, &'static str, &'static str, u32, f64, String, Vec<(&'static str, String)>);

fn log_event(record: &Record) -> LogEvent {
    let Record { level, target, file, line, .. } = record;
    let fields = record.fields.iter().map(|(name, value)| (*name, value.to_string())).collect();
    (level.as_str(), target, file, *line, record.time.as_secs_f64(), record.to_string(), fields)
}

/// Wait for events. Return them with the number of dropped events, or None when no more events can arrive.
///
/// Before the wait, set the core's verbosity to the logger's.
#[pyfunction]
pub(crate) fn next_events(py: Python<'_>, verbosity: usize) -> Option<(Vec<LogEvent>, u64)> {
    let log = LOG.get()?;
    log.set_verbosity(verbosity);
    let backlog = py.detach(|| {
        let backlog = log.inbox.take(&log.listener);
        exit::block_if_finalizing();
        backlog
    })?;
    Some((backlog.records.iter().map(|record| log_event(record)).collect(), backlog.dropped))
}
