//! Lets other threads read the driver's directories while the driver is idle. A diagnostic query
//! about a hanging program must not wait for the driver's thread, because that thread might be the
//! one that hangs.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use zklock_transport::Settings;

use super::Directory;
use crate::driver::connection;
use crate::driver::mailbox::DirectoryId;
use crate::error::server_report::{ServerReport, Servers};
use crate::lease::report::{DriverSnapshot, Inspector};
use crate::runtime;
use crate::runtime::clock::BootInstant;

/// Maximum time that a query waits for the driver. The driver handles a single input in
/// microseconds, and a batch of hundreds of commands in milliseconds.
const LONGEST_WAIT: Duration = Duration::from_millis(100);

/// Pause between two attempts to lock the directories.
const STEP: Duration = Duration::from_micros(500);

/// The lock directories of a client.
pub(in crate::driver) type All = BTreeMap<DirectoryId, Box<Directory>>;

/// The directories and the settings that a query reads. The driver locks the mutex once for each
/// batch of input, and unlocks it after the batch. Usually there is no contention.
pub(in crate::driver) struct SharedDirectories {
    directories: Mutex<All>,
    settings: Settings,
    /// The client's label, which applies to every lock without its own label.
    label: Option<String>,
}

impl SharedDirectories {
    pub(in crate::driver) fn new(settings: Settings, label: Option<String>) -> Self {
        Self { directories: Mutex::default(), settings, label }
    }

    pub(in crate::driver) fn lock(&self) -> MutexGuard<'_, All> {
        self.directories.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the directories for a query from another thread. Returns `None` if the driver keeps
    /// them locked for longer than [`LONGEST_WAIT`].
    fn look(&self) -> Option<MutexGuard<'_, All>> {
        let mut waited = Duration::ZERO;
        loop {
            match self.directories.try_lock() {
                Ok(directories) => return Some(directories),
                Err(TryLockError::Poisoned(directories)) => return Some(directories.into_inner()),
                // On the runtime thread, the query runs inside the driver, for example from the
                // program's `tracing` subscriber. Waiting would be a deadlock.
                Err(TryLockError::WouldBlock) if runtime::is_current() || waited >= LONGEST_WAIT => {
                    return None;
                }
                Err(TryLockError::WouldBlock) => std::thread::sleep(STEP),
            }
            waited += STEP;
        }
    }
}

impl Inspector for SharedDirectories {
    fn inspect(&self) -> DriverSnapshot {
        let server = connection::server(&self.settings);
        let queues = self.look().map(|directories| {
            let (mut waits, mut holds) = (Vec::new(), Vec::new());
            for directory in directories.values() {
                directory.report(&mut waits, &mut holds);
            }
            drop(directories);
            waits.sort_by(|one, other| one.path.cmp(&other.path));
            holds.sort_by(|one, other| one.path.cmp(&other.path));
            for label in waits
                .iter_mut()
                .map(|wait| &mut wait.label)
                .chain(holds.iter_mut().map(|hold| &mut hold.label))
            {
                *label = label.take().or_else(|| self.label.clone());
            }
            (waits, holds)
        });
        DriverSnapshot { server, queues }
    }

    fn last_answer(&self) -> Option<BootInstant> {
        self.settings.last_answer().map(BootInstant)
    }

    fn servers(&self, hosts: &str) -> Servers {
        ServerReport::all(hosts, &self.settings.entries()).into()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread;

    use super::*;

    #[test]
    fn a_look_from_another_thread_waits_for_the_driver_but_not_for_long() {
        let shared = Arc::new(SharedDirectories::new(Settings::probe(), None));
        let look = || {
            let shared = Arc::clone(&shared);
            thread::spawn(move || shared.inspect().queues.is_some())
        };
        let held = shared.lock();
        assert!(!look().join().expect("no panic"), "the driver keeps the directories");
        let looking = look();
        drop(held);
        assert!(looking.join().expect("no panic"), "the driver has put them back");
    }
}
