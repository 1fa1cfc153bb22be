//! The one runtime thread per process: started on first use, told from the parent's after a fork.
//!
//! Everything that belongs to one process hangs on [`Process`]. A forked child has none of its parent's
//! threads, its locks may be held for ever by one of them, and its sockets are the parent's: the child
//! therefore abandons the whole `Process` and starts with a new one. Handles remember the generation that
//! they were made in and refuse to work in another.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::sync::{Mutex, Once, PoisonError};
use std::time::Duration;

use spawns_core::{Spawn, Task};
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

use crate::error::{Error, ErrorKind, Result};

/// What belongs to this process and must not be used by a forked child.
pub(crate) struct Process<T> {
    handle: Handle,
    // Dropping it stops the thread; only the loser of a race to be first does.
    _stop: oneshot::Sender<()>,
    /// State that other modules keep for the life of the process.
    pub(crate) state: Mutex<T>,
}

static PROCESS: AtomicPtr<Process<State>> = AtomicPtr::new(std::ptr::null_mut());
static GENERATION: AtomicU64 = AtomicU64::new(0);

/// The state that hangs on a process: its shared clients and all clients to be closed at exit.
pub(crate) type State = crate::client::Registry;

/// The count of forks between the process that first used the library and this one.
pub(crate) fn generation() -> u64 {
    static AT_FORK: Once = Once::new();
    AT_FORK.call_once(|| {
        // SAFETY: the handler only stores to atomics, which is allowed between fork and exec.
        unsafe { libc::pthread_atfork(None, None, Some(after_fork)) };
    });
    GENERATION.load(Ordering::Relaxed)
}

extern "C" fn after_fork() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
    // Leaked on purpose: dropping it would touch locks and sockets of the parent.
    PROCESS.store(std::ptr::null_mut(), Ordering::Release);
}

/// The process's runtime and state, if anything has used it yet.
pub(crate) fn existing() -> Option<&'static Process<State>> {
    // SAFETY: the pointer is null or comes from `Box::leak` in `process` and is never freed once published.
    unsafe { PROCESS.load(Ordering::Acquire).as_ref() }
}

/// The process's runtime and state; starts the runtime thread on first use.
pub(crate) fn process() -> Result<&'static Process<State>> {
    if let Some(process) = existing() {
        return Ok(process);
    }
    let ours = Box::into_raw(Box::new(start()?));
    match PROCESS.compare_exchange(std::ptr::null_mut(), ours, Ordering::AcqRel, Ordering::Acquire) {
        // SAFETY: published and never freed from here on.
        Ok(_) => Ok(unsafe { &*ours }),
        Err(theirs) => {
            // SAFETY: `ours` was never published; `theirs` was, and is never freed.
            drop(unsafe { Box::from_raw(ours) });
            Ok(unsafe { &*theirs })
        }
    }
}

impl<T> Process<T> {
    /// Runs `future` on the runtime thread.
    pub(crate) fn spawn<F>(&self, future: F) -> tokio::task::JoinHandle<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        self.handle.spawn(future)
    }

    /// The state. A panic while it was locked left it usable: every change is a single insertion or removal.
    pub(crate) fn state(&self) -> std::sync::MutexGuard<'_, T> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A future running on the runtime thread; dropping it cancels the future.
#[doc(hidden)]
#[derive(Debug)]
pub struct Background {
    task: tokio::task::AbortHandle,
    generation: u64,
}

impl Drop for Background {
    fn drop(&mut self) {
        // In a forked child the future exists in the parent only.
        if self.generation == generation() {
            self.task.abort();
        }
    }
}

/// Runs `future` on the library's own thread, for bindings that have no executor, and hands its result to
/// `deliver` there. `deliver` must not block: it shares the thread with the heartbeats.
///
/// # Errors
/// [`ConnectionFailed`](ErrorKind::ConnectionFailed) if the operating system refuses a thread.
#[doc(hidden)]
pub fn run<F>(future: F, deliver: impl FnOnce(F::Output) + Send + 'static) -> Result<Background>
where
    F: Future<Output: Send> + Send + 'static,
{
    let task = process()?.spawn(async move { deliver(future.await) });
    Ok(Background { task: task.abort_handle(), generation: generation() })
}

/// Sleeps by the library's own clock, wherever the future is awaited.
///
/// # Errors
/// As [`run`].
pub(crate) async fn sleep(time: Duration) -> Result<()> {
    let (wake, awake) = oneshot::channel::<()>();
    let timer = async move { tokio::time::sleep(time).await };
    let _timer = run(timer, move |()| drop(wake))?;
    awake.await.ok();
    Ok(())
}

/// Puts the tasks that the client crate spawns on the runtime thread.
struct OnRuntime;

impl Spawn for OnRuntime {
    fn spawn(&self, task: Task) {
        let Task { future, .. } = task;
        drop(tokio::spawn(Pin::from(future)));
    }
}

fn start() -> Result<Process<State>> {
    let failed = |error: std::io::Error| {
        Error::new(ErrorKind::ConnectionFailed, format!("cannot start the runtime thread: {error}"))
    };
    let runtime = Builder::new_current_thread()
        .enable_io()
        .enable_time()
        // Blocking threads serve one purpose, to resolve host names, and go as soon as they are idle. A lookup that hangs
        // keeps its thread, so there are enough for others.
        .thread_name("zklock-resolve")
        .thread_keep_alive(Duration::from_millis(1))
        .max_blocking_threads(64)
        .build()
        .map_err(failed)?;
    let handle = runtime.handle().clone();
    let (stop, stopped) = oneshot::channel::<()>();
    std::thread::Builder::new()
        .name("zklock".to_owned())
        .spawn(move || {
            block_signals();
            let _scope = spawns_core::enter(&OnRuntime);
            // Ends with an error when the sender is dropped, which is the wish to stop.
            runtime.block_on(stopped).ok();
        })
        .map_err(failed)?;
    Ok(Process { handle, _stop: stop, state: Mutex::default() })
}

/// Leaves all signals to the host program's threads, which expect them.
fn block_signals() {
    // SAFETY: plain calls on a local set.
    unsafe {
        let mut all = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, std::ptr::null_mut());
    }
}
