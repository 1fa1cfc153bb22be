//! Where a driver leaves its queues while it waits for something to happen, so that others can look at them: a question
//! about a program that hangs must not wait for the thread that may be what hangs.

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

/// For how long the driver is waited for. What it does at a time takes microseconds; a batch of hundreds of commands,
/// milliseconds.
const LONGEST_WAIT: Duration = Duration::from_millis(100);

/// How often it is tried meanwhile.
const STEP: Duration = Duration::from_micros(500);

/// The lock directories of a client.
pub(in crate::driver) type All = BTreeMap<DirectoryId, Box<Directory>>;

/// The driver holds the lock whenever it is not waiting, which costs it one uncontended lock for each batch.
pub(in crate::driver) struct SharedDirectories {
    directories: Mutex<All>,
    settings: Settings,
    /// The label of the client, which its locks have unless they have their own.
    label: Option<String>,
}

impl SharedDirectories {
    pub(in crate::driver) fn new(settings: Settings, label: Option<String>) -> Self {
        Self { directories: Mutex::default(), settings, label }
    }

    /// For the driver. After a panic of its nothing is in there.
    pub(in crate::driver) fn lock(&self) -> MutexGuard<'_, All> {
        self.directories.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// For anyone else.
    fn look(&self) -> Option<MutexGuard<'_, All>> {
        let mut waited = Duration::ZERO;
        loop {
            match self.directories.try_lock() {
                Ok(directories) => return Some(directories),
                Err(TryLockError::Poisoned(directories)) => return Some(directories.into_inner()),
                // The driver asks this of itself, as from a program's subscriber to its events: nobody would let go.
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
            // Stable: what is at one path stays in the order of its queue.
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
