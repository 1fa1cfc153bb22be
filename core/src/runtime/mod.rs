//! The library's runtime thread. Each process has only one. It starts on first use, also in a
//! forked child.

pub(crate) mod backoff;
pub(crate) mod clock;
pub(crate) mod fork;
pub(crate) mod offload;
pub(crate) mod random;
pub mod same_thread;
#[cfg(feature = "_simulation")]
pub mod simulation;
pub(crate) mod supervise;
pub(crate) mod sync;

use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;
#[cfg(not(feature = "_simulation"))]
use std::time::Instant;

use spawns_core::{Spawn, Task};
#[cfg(not(feature = "_simulation"))]
use tokio::runtime::Builder;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::{AbortHandle, JoinHandle};
#[cfg(not(feature = "_simulation"))]
use zklock_transport::set_clock_start;

use self::fork::ForkGuard;
#[cfg(not(feature = "_simulation"))]
use self::fork::PerProcess;
use self::supervise::watched;
use crate::error::{Error, ErrorKind, Result};
#[cfg(not(feature = "_simulation"))]
use crate::system::block_signals;

#[cfg(not(feature = "_simulation"))]
struct Runtime {
    handle: Handle,
    // Dropping the sender stops the thread. This happens only if two threads start the runtime at
    // the same time: one of the two runtimes is then dropped.
    _stop: oneshot::Sender<()>,
}

thread_local! {
    /// `true` on the library's own thread. The value is constant and has no destructor, so it can
    /// be read at any time.
    static OURS: Cell<bool> = const { Cell::new(false) };
}

/// Returns `true` on the library's own thread, which must never block.
pub(crate) fn is_current() -> bool {
    OURS.try_with(Cell::get).unwrap_or(false)
}

#[cfg(not(feature = "_simulation"))]
static RUNTIME: PerProcess<Runtime> = PerProcess::new();

/// Returns the handle of the library's runtime. Starts the thread if it is not running.
#[cfg(not(feature = "_simulation"))]
fn handle() -> Result<Handle> {
    Ok(RUNTIME.get_or_try_init(start)?.handle.clone())
}

/// Returns the caller's runtime, because in a simulation all tasks run on the caller's thread.
#[cfg(feature = "_simulation")]
fn handle() -> Result<Handle> {
    Handle::try_current().map_err(|error| Error::new(ErrorKind::ConnectionFailed, error.to_string()))
}

/// Starts the thread if it is not running.
///
/// # Errors
/// Same as [`run`].
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

/// A future that runs on the library's thread. Dropping this handle cancels the future.
#[derive(Debug)]
pub(crate) struct Background {
    task: AbortHandle,
    origin: ForkGuard,
}

impl Drop for Background {
    fn drop(&mut self) {
        // In a forked child, the future exists only in the parent.
        if self.origin.is_here() {
            self.task.abort();
        }
    }
}

/// Runs `future` on the library's thread and passes its result to `deliver` on the same thread.
/// `deliver` must not block, because the heartbeats run on this thread.
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

/// Waits for `time` on the library's own timers, on any executor.
///
/// # Errors
/// Same as [`run`].
pub(crate) async fn sleep(time: Duration) -> Result<()> {
    let (wake, awake) = oneshot::channel::<()>();
    let timer = async move { tokio::time::sleep(time).await };
    let _timer = run(timer, move |()| drop(wake))?;
    awake.await.ok();
    Ok(())
}

/// Spawns the tasks of the ZooKeeper client crate on the library's thread. The connections that a
/// task opens use the settings of the client that spawned the task. The client crate catches the
/// tasks' panics, so a panic is visible only as the end of a task.
struct OnRuntime;

impl Spawn for OnRuntime {
    fn spawn(&self, task: Task) {
        let Task { future, .. } = task;
        let task = fragile(Part::Service, Pin::from(future));
        drop(tokio::spawn(gated(zklock_transport::inherit(watched(task)))));
    }
}

/// Wraps every future that becomes a task, so that a simulation can stop a client. Outside a
/// simulation, this function does nothing.
#[cfg(not(feature = "_simulation"))]
pub(crate) fn gated<F: Future>(future: F) -> F {
    future
}

/// Wraps a future in which a simulation can inject a panic. Outside a simulation, this function
/// does nothing.
#[cfg(not(feature = "_simulation"))]
pub(crate) fn fragile<F: Future>(_: Part, future: F) -> F {
    future
}

/// The kinds of futures in which a simulation injects panics.
#[cfg(not(feature = "_simulation"))]
pub(crate) enum Part {
    Service,
    Request,
}

#[cfg(feature = "_simulation")]
pub(crate) use self::simulation::gate::{Part, fragile, gated};

/// Runs `body` in a simulation. The tasks that the client crate starts during that time are spawned
/// on the caller's runtime.
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
    let clock_start = Instant::now();
    let runtime = Builder::new_current_thread()
        .enable_io()
        .enable_time()
        // The blocking threads only resolve host names, and exit as soon as they are idle. If a
        // lookup hangs, it occupies its thread, so the limit permits several threads.
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
            set_clock_start(clock_start);
            let _scope = spawns_core::enter(&OnRuntime);
            // The runtime runs until the sender is dropped, which ends `stopped` with an error.
            runtime.block_on(stopped).ok();
        })
        .map_err(failed)?;
    Ok(Runtime { handle, _stop: stop })
}
