//! The one runtime thread per process: started on first use, and started anew in a forked child.

pub(crate) mod backoff;
pub(crate) mod clock;
pub(crate) mod fork;
pub(crate) mod offload;
pub(crate) mod random;
#[cfg(feature = "_simulation")]
pub mod simulation;
pub(crate) mod supervise;
pub(crate) mod sync;

use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use spawns_core::{Spawn, Task};
#[cfg(not(feature = "_simulation"))]
use tokio::runtime::Builder;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::{AbortHandle, JoinHandle};

use self::fork::ForkGuard;
#[cfg(not(feature = "_simulation"))]
use self::fork::PerProcess;
use self::supervise::watched;
use crate::error::{Error, ErrorKind, Result};

#[cfg(not(feature = "_simulation"))]
struct Runtime {
    handle: Handle,
    // Dropping it stops the thread; only the loser of a race to be first does.
    _stop: oneshot::Sender<()>,
}

thread_local! {
    /// Whether this is the library's own thread. Constant and without a destructor: it can be read at any time.
    static OURS: Cell<bool> = const { Cell::new(false) };
}

/// Whether this is called on the library's own thread, where nothing may wait.
pub(crate) fn is_current() -> bool {
    OURS.try_with(Cell::get).unwrap_or(false)
}

#[cfg(not(feature = "_simulation"))]
static RUNTIME: PerProcess<Runtime> = PerProcess::new();

/// The runtime thread's runtime. Starts the thread, unless it already runs.
#[cfg(not(feature = "_simulation"))]
fn handle() -> Result<Handle> {
    Ok(RUNTIME.get_or_try_init(start)?.handle.clone())
}

/// In a simulation nothing runs on a thread of its own: the caller's runtime takes everything.
#[cfg(feature = "_simulation")]
fn handle() -> Result<Handle> {
    Handle::try_current().map_err(|error| Error::new(ErrorKind::ConnectionFailed, error.to_string()))
}

/// Starts the thread, unless it already runs.
///
/// # Errors
/// As [`run`].
pub(crate) fn ready() -> Result<()> {
    handle().map(drop)
}

/// Runs `future` on the runtime thread.
///
/// # Errors
/// [`ConnectionFailed`](ErrorKind::ConnectionFailed) if the operating system refuses a thread.
pub(crate) fn spawn<F>(future: F) -> Result<JoinHandle<F::Output>>
where
    F: Future<Output: Send> + Send + 'static,
{
    Ok(handle()?.spawn(gated(future)))
}

/// A future running on the runtime thread; dropping it cancels the future.
#[derive(Debug)]
pub(crate) struct Background {
    task: AbortHandle,
    origin: ForkGuard,
}

impl Drop for Background {
    fn drop(&mut self) {
        // In a forked child the future exists in the parent only.
        if self.origin.is_here() {
            self.task.abort();
        }
    }
}

/// Runs `future` on the runtime thread, and hands its result to `deliver` there, which must not block: it shares the
/// thread with the heartbeats.
///
/// # Errors
/// [`ConnectionFailed`](ErrorKind::ConnectionFailed) if the operating system refuses a thread.
pub(crate) fn run<F>(future: F, deliver: impl FnOnce(F::Output) + Send + 'static) -> Result<Background>
where
    F: Future<Output: Send> + Send + 'static,
{
    let task = spawn(async move { deliver(future.await) })?;
    Ok(Background { task: task.abort_handle(), origin: ForkGuard::new() })
}

/// Sleeps by the library's own timers, wherever the future is awaited.
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

/// Puts the tasks that the client crate spawns on the runtime thread. The connections which they make follow the
/// settings of the client for which they were spawned. They catch their panics, so only their end shows one.
struct OnRuntime;

impl Spawn for OnRuntime {
    fn spawn(&self, task: Task) {
        let Task { future, .. } = task;
        let task = fragile(Part::Service, Pin::from(future));
        drop(tokio::spawn(gated(zklock_transport::inherit(watched(task)))));
    }
}

/// What becomes a task of its own passes through here, so that a simulation can stop a client. Nothing happens to it
/// otherwise.
#[cfg(not(feature = "_simulation"))]
pub(crate) fn gated<F: Future>(future: F) -> F {
    future
}

/// The same for what a simulation makes panic.
#[cfg(not(feature = "_simulation"))]
pub(crate) fn fragile<F: Future>(_: Part, future: F) -> F {
    future
}

/// What a simulation makes panic.
#[cfg(not(feature = "_simulation"))]
pub(crate) enum Part {
    Service,
    Request,
}

#[cfg(feature = "_simulation")]
pub(crate) use self::simulation::gate::{Part, fragile, gated};

/// For a simulation: what the client crate spawns while `body` runs is put on the caller's runtime.
#[cfg(feature = "_simulation")]
pub(crate) fn adopt<R>(body: impl FnOnce() -> R) -> R {
    let _scope = spawns_core::enter(&OnRuntime);
    body()
}

#[cfg(not(feature = "_simulation"))]
fn start() -> Result<Runtime> {
    let failed = |error: std::io::Error| {
        let message = format!("cannot start the runtime thread: {error}");
        Error::new(ErrorKind::ConnectionFailed, message).because(error)
    };
    let runtime = Builder::new_current_thread()
        .enable_io()
        .enable_time()
        // Blocking threads serve one purpose, to resolve host names, and end as soon as they are idle. A lookup that
        // hangs keeps its thread, so there are enough for others.
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
            OURS.set(true);
            let _scope = spawns_core::enter(&OnRuntime);
            // Ends with an error when the sender is dropped, which means that the thread is to stop.
            runtime.block_on(stopped).ok();
        })
        .map_err(failed)?;
    Ok(Runtime { handle, _stop: stop })
}

/// Blocks all signals on the calling thread, so that the host program's threads, which expect them, receive them.
#[doc(hidden)]
pub fn block_signals() {
    // SAFETY: plain calls on a local set.
    unsafe {
        let mut all = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, std::ptr::null_mut());
    }
}
