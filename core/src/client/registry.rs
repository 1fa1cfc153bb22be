//! The drivers of this process, so that its end can close them all. A client without handles may still be
//! closing.

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
use crate::{driver, runtime};

/// A driver that has not ended yet.
struct Running {
    options: ClientOptions,
    status: Arc<Status>,
    input: mpsc::WeakUnboundedSender<Input>,
    task: JoinHandle<()>,
}

static DRIVERS: PerProcess<Mutex<Vec<Running>>> = PerProcess::new();

/// A panic while it was locked left it usable: every change is a single insertion or removal.
fn lock(drivers: &Mutex<Vec<Running>>) -> MutexGuard<'_, Vec<Running>> {
    drivers.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts a driver for what is in its inbox and will come. If no thread can be started for it, the inbox stays.
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

/// The options of each client of this process that has a driver, and how it is, in the order in which they began.
pub(crate) fn health_of_all() -> Vec<(ClientOptions, Health)> {
    let Some(drivers) = DRIVERS.get() else { return Vec::new() };
    // Looking at one may take a moment, for which nobody is kept from making another.
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

/// Closes all, and waits until they have ended, for up to `limit`.
pub(crate) fn close_all(limit: Duration) {
    let Some(drivers) = DRIVERS.get() else { return };
    let drivers = std::mem::take(&mut *lock(drivers));
    for driver in drivers.iter().filter_map(|driver| driver.input.upgrade()) {
        drop(close(&driver));
    }
    // Not a channel of the standard library: those ask which thread waits, which the end of a process cannot answer.
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

/// How long the end of the process may take because of it.
pub(crate) const LIMIT: Duration = Duration::from_secs(1);

/// The function that closes all clients within a time.
static CLOSE_ALL: OnceLock<fn(Duration)> = OnceLock::new();

/// From now on the end of this process closes all clients, by this function, however it returns from `main` or calls
/// `exit`. For programs in Rust: in the other languages an interpreter ends the library, and before its own end.
pub(crate) fn close_at_exit(close_all: fn(Duration)) {
    // A forked child inherits the registration.
    CLOSE_ALL.get_or_init(|| {
        // SAFETY: a function without arguments, which lives as long as this code. It does not unwind.
        let refused = unsafe { libc::atexit(at_exit) } != 0;
        if refused {
            tracing::warn!("the end of the process will not close its clients: call `shutdown` there");
        }
        close_all
    });
}

extern "C" fn at_exit() {
    // On the library's own thread there is no one to wait for: it would be itself.
    if runtime::is_current() {
        return;
    }
    // In a forked child there are no clients but its own. The thread's local data is gone by now: nothing here, nor
    // below, may park the thread, or ask who it is, by the means of the standard library.
    if let Some(close_all) = CLOSE_ALL.get() {
        catch_unwind(|| close_all(LIMIT)).ok();
    }
}
