//! Registry of the process's drivers, so that the process can close all clients at exit. It lists
//! drivers instead of clients, because a driver can still be closing its session after all handles
//! of its client are dropped.

use std::panic::catch_unwind;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::client::health::Health;
use crate::config::{ClientOptions, NATIVE};
use crate::driver::mailbox::{Inbox, Input, close};
use crate::driver::status::Status;
use crate::error::Result;
use crate::runtime::fork::PerProcess;
use crate::{driver, runtime, system};

/// A driver that was still running when the registry was last pruned.
struct Running {
    options: ClientOptions,
    status: Arc<Status>,
    input: mpsc::WeakUnboundedSender<Input>,
    task: JoinHandle<()>,
}

static DRIVERS: PerProcess<Mutex<Vec<Running>>> = PerProcess::new();

/// Locks the list and ignores poisoning. Every change is a single insertion or removal, so a panic
/// leaves it consistent.
fn lock(drivers: &Mutex<Vec<Running>>) -> MutexGuard<'_, Vec<Running>> {
    drivers.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts a driver for the commands in `inbox` and takes the inbox. Leaves the inbox in place if
/// the library's thread cannot be started.
///
/// Never inlined: the driver's future takes tens of kilobytes of the stack here, and each thread
/// that acquires a lock would pay for them.
#[cold]
#[inline(never)]
pub(crate) fn start(options: &ClientOptions, inbox: &mut Option<Inbox>) -> Result<()> {
    options.check()?;
    runtime::ready()?;
    if options.language == NATIVE {
        close_at_exit(close_all);
    }
    let Some(inbox) = inbox.take() else { return Ok(()) };
    let mut drivers = lock(DRIVERS.get_or_init(Mutex::default));
    let (input, status) = (inbox.sender.downgrade(), Arc::clone(&inbox.status));
    let task = runtime::spawn(driver::drive(options.clone(), inbox))?;
    drivers.retain(|driver| !driver.task.is_finished());
    drivers.push(Running { options: options.clone(), status, input, task });
    Ok(())
}

/// Returns the options and health of each client with a driver in this process, in the order in
/// which they started.
pub(crate) fn health_of_all() -> Vec<(ClientOptions, Health)> {
    let Some(drivers) = DRIVERS.get() else { return Vec::new() };
    // Copy the list first, because reading a client's health can take a moment and must not block
    // the start of another client.
    let all: Vec<_> = {
        let drivers = lock(drivers);
        let running = drivers.iter().filter(|driver| !driver.task.is_finished());
        running.map(|driver| (driver.options.clone(), Arc::clone(&driver.status))).collect()
    };
    let health = |(options, status): (ClientOptions, Arc<Status>)| {
        let health = Health::of(&options, &status);
        (options, health)
    };
    all.into_iter().map(health).collect()
}

/// Closes all clients and waits until their drivers have stopped, at most for `limit`.
pub(crate) fn close_all(limit: Duration) {
    let Some(drivers) = DRIVERS.get() else { return };
    let drivers = std::mem::take(&mut *lock(drivers));
    for driver in drivers.iter().filter_map(|driver| driver.input.upgrade()) {
        drop(close(&driver));
    }
    // A channel of the standard library would not work here: it uses the handle of the current
    // thread, which is not available while the process exits.
    let ended = Arc::new((Mutex::new(false), Condvar::new()));
    let end = Arc::clone(&ended);
    let all_ended = runtime::spawn(async move {
        for driver in drivers {
            driver.task.await.ok();
        }
        *end.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        end.1.notify_all();
    });
    if all_ended.is_ok() {
        let waiting = ended.0.lock().unwrap_or_else(PoisonError::into_inner);
        drop(ended.1.wait_timeout_while(waiting, limit, |ended| !*ended));
    }
}

/// Maximum time for which the process delays its exit to close the clients.
pub(crate) const CLOSE_LIMIT: Duration = Duration::from_secs(1);

/// The function that closes all clients within a time limit.
static CLOSE_ALL: OnceLock<fn(Duration)> = OnceLock::new();

/// Registers an exit hook: `close_all` runs when this process returns from `main` or calls `exit`.
/// Only Rust programs need this hook. In the other languages, the interpreter shuts the library
/// down before it exits. On Windows, a hook does not run after `std::process::exit`, and code in a
/// DLL cannot have one: see [`system::at_exit`].
pub(crate) fn close_at_exit(close_all: fn(Duration)) {
    // A forked child inherits the registration.
    CLOSE_ALL.get_or_init(|| {
        if !system::at_exit(at_exit) {
            tracing::warn!("clients are not closed when the process exits: call `shutdown` before");
        }
        close_all
    });
}

extern "C" fn at_exit() {
    // The library's own thread must not wait for itself.
    if runtime::is_current() {
        return;
    }
    // In a forked child this closes only the child's own clients. Because the thread's local data
    // is already destroyed here, code called from here must not use the standard library to park
    // the thread or to ask for the current thread.
    if let Some(close_all) = CLOSE_ALL.get() {
        catch_unwind(|| close_all(CLOSE_LIMIT)).ok();
    }
}
