//! `zklock._zklock`, the extension module of the Python package `zklock`. The crate `zklock` implements the
//! locks. This module converts arguments, errors and objects, and lets threads, asyncio tasks and greenlets
//! wait.
//!
//! Two rules hold everywhere:
//!
//! - The thread of the Rust client never waits for the interpreter, and drops no Python object. Otherwise a
//!   busy interpreter would delay heartbeats.
//! - A thread that has locked one of the binding's mutexes waits for nothing until it has unlocked it.

#![expect(
    clippy::needless_pass_by_value,
    reason = "what Python passes in is extracted into values of our own"
)]

mod args;
mod bridge;
mod callbacks;
mod client;
mod client_options;
mod contender;
mod deadlock;
mod errors;
mod exit;
mod health;
mod locks;
mod modules;
mod node_data;
mod notice;
mod owner_info;
mod server_report;
mod shutdown;
mod stats;
mod sync;
mod testing;
mod transaction;

/// The extension module. The package `zklock` exports its public items. Only `zklock.aio` uses the others.
#[pyo3::pymodule]
mod _zklock {
    use pyo3::exceptions::PyImportError;
    use pyo3::prelude::*;

    /// Rejects subinterpreters, because the binding's threads attach to the main interpreter, and each class
    /// is created once per process.
    #[pymodule_init]
    fn only_in_the_main_interpreter(_module: &Bound<'_, PyModule>) -> PyResult<()> {
        // SAFETY: the thread is attached, so there is a current interpreter. It is running, so it has a valid
        // id.
        let interpreter = unsafe { pyo3::ffi::PyInterpreterState_GetID(pyo3::ffi::PyInterpreterState_Get()) };
        if interpreter == 0 {
            zklock::internal::on_forgotten(crate::errors::warn_forgotten);
            return Ok(());
        }
        Err(PyImportError::new_err(
            "zklock works only in the main interpreter of a process; with mod_wsgi, set WSGIApplicationGroup to %{GLOBAL}",
        ))
    }

    #[pymodule_export]
    use crate::args::arguments::{ReleaseTimeout, Timeout};
    #[pymodule_export]
    use crate::args::credentials::Tls;
    #[pymodule_export]
    use crate::bridge::asyncio_tasks::admit;
    #[pymodule_export]
    use crate::bridge::log::next_events;
    #[pymodule_export]
    use crate::bridge::owner::Owner;
    #[pymodule_export]
    use crate::bridge::pending::Pending;
    #[pymodule_export]
    use crate::callbacks::{next_callback, report_unraisable};
    #[pymodule_export]
    use crate::client::{
        Client, lazy_client, start_break_lock, start_close, start_connect, start_get, start_revoke,
        start_set_shared_count,
    };
    #[pymodule_export]
    use crate::client_options::ClientOptions;
    #[pymodule_export]
    use crate::contender::Contender;
    #[pymodule_export]
    use crate::deadlock::Deadlock;
    #[pymodule_export]
    use crate::health::{Health, HoldReport, WaitReport, dump, dump_on};
    #[pymodule_export]
    use crate::locks::acquire::{Acquirable, Hold, SavedLevels};
    #[pymodule_export]
    use crate::locks::acquired::{Leaving, Level, start_release};
    #[pymodule_export]
    use crate::locks::asyncio::{leave, newest, owned_by, push, release_newest, start_acquire};
    #[pymodule_export]
    use crate::locks::election::{
        Candidate, Election, Lead, Leaders, Leadership, Rounds, keep, observe, start_campaign,
        start_candidates, start_leader, start_next_leader,
    };
    #[pymodule_export]
    use crate::locks::lease::{Lease, pin, start_wait_lost};
    #[pymodule_export]
    use crate::locks::leases::Leases;
    #[pymodule_export]
    use crate::locks::lock::{Lock, start_contenders, start_locked};
    #[pymodule_export]
    use crate::locks::multi::MultiLock;
    #[pymodule_export]
    use crate::locks::mutex::Mutex;
    #[pymodule_export]
    use crate::locks::once::{Slot, Turn, begin_turn, start_turn};
    #[pymodule_export]
    use crate::locks::rwlock::ReadWriteLock;
    #[pymodule_export]
    use crate::locks::scope::{Scopes, Site};
    #[pymodule_export]
    use crate::locks::semaphore::{Semaphore, start_acquire_many};
    #[pymodule_export]
    use crate::node_data::NodeData;
    #[pymodule_export]
    use crate::notice::{Notice, NotifyEventLoop};
    #[pymodule_export]
    use crate::owner_info::{OwnerInfo, OwnerReport};
    #[pymodule_export]
    use crate::server_report::ServerReport;
    #[pymodule_export]
    use crate::shutdown::{close_on_signals, shutdown};
    #[pymodule_export]
    use crate::stats::{Histogram, Stats};
    #[pymodule_export]
    use crate::testing::Server;
    #[pymodule_export]
    use crate::transaction::{Transaction, start_commit};

    #[pymodule_export]
    #[expect(non_upper_case_globals, reason = "the name that Python expects")]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
