//! The core's events on their way to Python's `logging`.
//!
//! A Python thread, started with the first event, takes them from here. Not the delivery thread: handlers are the
//! program's code, and one that blocks would hold up the outcomes that event loops wait for.

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

/// How long the logger's level stays valid. It is read again by threads that wait for a server anyway.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// The log of one process.
struct Log {
    began: Instant,
    /// When the logger's level was last read, in ms from the beginning; zero for never.
    asked: AtomicU64,
    listener: Arc<Listener>,
    inbox: Arc<Inbox>,
}

/// Where the thread waits.
#[derive(Default)]
struct Inbox {
    state: Mutex<State>,
    news: Condvar,
}

#[derive(Default)]
struct State {
    /// There may be an event to take.
    news: bool,
    /// The thread that takes them has been asked for.
    begun: bool,
    /// Nothing more comes.
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
            listener: Listener::new(None, move || wake.tell()),
            inbox,
        }
    }

    /// Whether it is time to read the level; if so, the caller must do it.
    fn is_due(&self) -> bool {
        let now = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX).max(1);
        let asked = self.asked.load(Ordering::Relaxed);
        let due = asked == 0 || Duration::from_millis(now - asked.min(now)) >= ASK_AGAIN;
        due && self.asked.compare_exchange(asked, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Fails with what a signal handler raises that runs meanwhile, as `KeyboardInterrupt`: that is not ours to catch.
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

    /// Called by any thread that has an event, mostly the core's.
    fn tell(&self) {
        let mut state = self.state();
        state.news = true;
        let first = !std::mem::replace(&mut state.begun, true);
        drop(state);
        self.news.notify_one();
        if first && delivery_thread::start().is_ok() {
            delivery_thread::send(Arc::new(Begin));
        }
    }

    fn end(&self) {
        self.state().ended = true;
        self.news.notify_one();
    }

    /// Waits for events. None when no more will come.
    fn take(&self, listener: &Listener) -> Option<Backlog> {
        loop {
            let backlog = listener.take();
            if !backlog.records.is_empty() {
                return Some(backlog);
            }
            let idle = |state: &mut State| !state.news && !state.ended;
            let mut state = self.news.wait_while(self.state(), idle).unwrap_or_else(PoisonError::into_inner);
            if !std::mem::take(&mut state.news) {
                return None;
            }
        }
    }
}

/// Reads the logger's level, if that was last done some time ago. For threads that are attached and about to wait.
pub(crate) fn refresh(py: Python<'_>) -> PyResult<()> {
    let log = LOG.get_or_init(Log::new);
    if log.is_due() { log.ask(py) } else { Ok(()) }
}

/// Reads the logger's level in any case: a client begins, or a process uses its first.
pub(crate) fn ask(py: Python<'_>) -> PyResult<()> {
    LOG.get_or_init(Log::new).ask(py)
}

/// Starts Python's thread, which needs the interpreter and so is done on the delivery thread.
struct Begin;

impl Deliver for Begin {
    fn deliver(self: Arc<Self>) -> bool {
        // It fails near the end of the process, when no thread may start.
        Python::try_attach(|py| drop(py.import("zklock._log").and_then(|log| log.call_method0("begin"))))
            .is_some()
    }
}

/// Ends Python's thread once it has handed on all events, and waits for that up to `limit`.
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
type Told = (&'static str, &'static str, &'static str, u32, f64, String, Vec<(&'static str, String)>);

fn told(record: &Record) -> Told {
    let Record { level, target, file, line, .. } = record;
    let fields = record.fields.iter().map(|(name, value)| (*name, value.to_string())).collect();
    (level.as_str(), target, file, *line, record.time.as_secs_f64(), record.to_string(), fields)
}

/// Wait for events, with the logger's verbosity; None when there will be no more. Also how many were dropped.
#[pyfunction]
pub(crate) fn next_events(py: Python<'_>, verbosity: usize) -> Option<(Vec<Told>, u64)> {
    let log = LOG.get()?;
    log.set_verbosity(verbosity);
    let backlog = py.detach(|| {
        let backlog = log.inbox.take(&log.listener);
        exit::stay_out_of_a_dying_interpreter();
        backlog
    })?;
    Some((backlog.records.iter().map(|record| told(record)).collect(), backlog.dropped))
}
