//! The callers that wait and hold, for a dump: found when it is asked for, so that an acquire does not pay for it.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError, Weak};

use pyo3::prelude::*;
use zklock::internal::OwnerId;

use crate::bridge::owner::Owner;
use crate::modules::interned;

/// The threads that have used a lock, by their identifiers; each with a mark that goes with it.
///
/// Locked by attached threads only, which do not detach meanwhile: no fork comes in between.
static THREADS: Mutex<Vec<(OwnerId, u64, Weak<()>)>> = Mutex::new(Vec::new());

/// A panic cannot leave half a change.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Notes that the calling thread is this owner, for as long as it has the mark.
pub(crate) fn thread_begins(py: Python<'_>, owner: OwnerId, mark: Weak<()>) -> PyResult<()> {
    let original = py.import("zklock._unpatched_threading")?.getattr("original")?;
    let ident = original.call1(("get_ident",))?.call0()?.extract()?;
    let mut threads = lock(&THREADS);
    if threads.len() == threads.capacity() {
        // When it would grow, so that this costs nothing on average.
        threads.retain(|(_, _, mark)| mark.strong_count() > 0);
    }
    threads.push((owner, ident, mark));
    Ok(())
}

/// A description of each owner that is known. Owners that cannot be found are left out: a dump is for programs in trouble.
pub(crate) fn all(py: Python<'_>) -> HashMap<OwnerId, String> {
    let mut all = HashMap::new();
    threads(py, &mut all).ok();
    for (module, needed) in [("tasks", "zklock.aio._tasks"), ("greenlets", "zklock._gevent")] {
        owners(py, module, needed, &mut all).ok();
    }
    all
}

fn threads(py: Python<'_>, all: &mut HashMap<OwnerId, String>) -> PyResult<()> {
    let known: Vec<_> = {
        let threads = lock(&THREADS);
        let alive = threads.iter().filter(|(_, _, mark)| mark.strong_count() > 0);
        alive.map(|(owner, ident, _)| (*owner, *ident)).collect()
    };
    let described = py.import("zklock._callers")?.call_method0("threads")?;
    for (owner, ident) in known {
        if let Ok(text) = described.get_item(ident).and_then(|text| text.extract()) {
            all.insert(owner, text);
        }
    }
    Ok(())
}

/// The owners that have objects in Python, if the module is there in which these are kept.
fn owners(py: Python<'_>, function: &str, needed: &str, all: &mut HashMap<OwnerId, String>) -> PyResult<()> {
    if py.import("sys")?.getattr(interned!(py, "modules")?)?.contains(needed)? {
        for found in py.import("zklock._callers")?.call_method0(function)?.try_iter()? {
            let (owner, text) = found?.extract::<(PyRef<'_, Owner>, String)>()?;
            all.insert(owner.id, text);
        }
    }
    Ok(())
}
