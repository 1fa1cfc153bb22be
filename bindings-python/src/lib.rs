//! `zklock._zklock`, the extension module behind the Python package `zklock`: it converts arguments, errors and
//! handles, and waits in the way that Python needs. What a lock does is decided in the core.
//!
//! Two rules hold throughout. The core's thread never waits for the interpreter, and drops no Python object: a busy
//! interpreter would delay heartbeats. And no lock of ours is held while waiting for anything.

#![expect(
    clippy::needless_pass_by_value,
    reason = "what Python passes in is extracted into values of our own"
)]

mod acquirable;
mod arguments;
mod callbacks;
mod client;
mod contender;
mod deliver;
mod election;
mod errors;
mod exit;
mod forgotten;
mod greenlets;
mod health;
mod identity;
mod inbox;
mod lease;
mod leases;
mod level;
mod lock;
mod lock_levels;
mod log;
mod modules;
mod multi;
mod mutex;
mod node_data;
mod notice;
mod owner;
mod pending;
mod recipe;
mod rwlock;
mod scope;
mod semaphore;
mod server_report;
mod shutdown;
mod source;
mod stats;
mod tasks;
mod testing;
mod text;
mod transaction;
mod wait;

/// The extension module. `zklock` exports what is public of it; the rest serves `zklock.aio`.
#[pyo3::pymodule]
mod _zklock {
    use pyo3::exceptions::PyImportError;
    use pyo3::prelude::*;

    /// Our threads attach to the main interpreter, and classes are made once for the process.
    #[pymodule_init]
    fn only_in_the_main_interpreter(_module: &Bound<'_, PyModule>) -> PyResult<()> {
        // SAFETY: attached, so there is a current interpreter. Its number cannot have run out: it is running.
        let interpreter = unsafe { pyo3::ffi::PyInterpreterState_GetID(pyo3::ffi::PyInterpreterState_Get()) };
        if interpreter == 0 {
            zklock::internal::on_forgotten(super::forgotten::warn);
            return Ok(());
        }
        Err(PyImportError::new_err(
            "zklock works in the main interpreter of a process only; with mod_wsgi, set WSGIApplicationGroup to %{GLOBAL}",
        ))
    }

    #[pymodule_export]
    use super::{
        acquirable::{
            Acquirable, Hold, SavedLevels, leave, newest, owned_by, push, start_acquire, take_newest,
        },
        arguments::{ReleaseTimeout, Timeout},
        callbacks::{next_callback, report_unraisable},
        client::{
            Client, lazy_client, start_break_lock, start_close, start_connect, start_get, start_revoke,
            start_set_shared_count,
        },
        contender::Contender,
        election::{
            Candidate, Election, Lead, Leaders, Leadership, keep, observe, start_campaign, start_candidates,
            start_leader, start_next_leader,
        },
        health::{Health, HoldReport, WaitReport, dump, dump_on},
        identity::Tls,
        lease::{Lease, pin, start_wait_lost},
        leases::Leases,
        level::{Leaving, Level, start_release},
        lock::{Lock, start_contenders, start_locked},
        log::next_events,
        multi::MultiLock,
        mutex::Mutex,
        node_data::NodeData,
        notice::{Notice, TellEventLoop},
        owner::Owner,
        pending::Pending,
        rwlock::ReadWriteLock,
        scope::{Scopes, Site},
        semaphore::{Semaphore, start_acquire_many},
        server_report::ServerReport,
        shutdown::shutdown,
        stats::{Histogram, Stats},
        testing::Server,
        transaction::{Transaction, start_commit},
    };

    #[pymodule_export]
    #[expect(non_upper_case_globals, reason = "the name that Python expects")]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
