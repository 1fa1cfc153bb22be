//! Describes the threads, tasks and greenlets that hold locks or wait for them, for `dump()`. They are looked
//! up only when a dump is made, so an acquire has no extra cost.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError, Weak};

use pyo3::prelude::*;
use zklock::internal::OwnerId;

use crate::bridge::owner::Owner;
use crate::modules::interned;

/// The threads that have used a lock. Each entry consists of the owner, the thread identifier, and a weak
/// reference that expires with the thread.
///
/// Only threads that are attached to the interpreter lock this mutex, and they stay attached until they
/// unlock it. So it is never locked when another thread forks.
static THREADS: Mutex<Vec<(OwnerId, u64, Weak<()>)>> = Mutex::new(Vec::new());

/// Locks a mutex. Ignores poisoning, because a panic cannot leave the value half changed.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Records that `owner` represents the calling thread. `mark` expires when the thread ends.
pub(crate) fn thread_begins(py: Python<'_>, owner: OwnerId, mark: Weak<()>) -> PyResult<()> {
    let original = py.import("zklock._unpatched_threading")?.getattr("original")?;
    let ident = original.call1(("get_ident",))?.call0()?.extract()?;
    let mut threads = lock(&THREADS);
    if threads.len() == threads.capacity() {
        // Remove ended threads only when the list must grow, so that the amortized cost is constant.
        threads.retain(|(_, _, mark)| mark.strong_count() > 0);
    }
    threads.push((owner, ident, mark));
    Ok(())
}

/// Returns a description of each known owner. Leaves out owners that cannot be described, because a dump must
/// also work in a program that misbehaves.
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

/// Adds the tasks or greenlets that `function` of `zklock._callers` returns, if the program has imported the
/// module `needed`.
fn owners(py: Python<'_>, function: &str, needed: &str, all: &mut HashMap<OwnerId, String>) -> PyResult<()> {
    if py.import("sys")?.getattr(interned!(py, "modules")?)?.contains(needed)? {
        for found in py.import("zklock._callers")?.call_method0(function)?.try_iter()? {
            let (owner, text) = found?.extract::<(PyRef<'_, Owner>, String)>()?;
            all.insert(owner.id, text);
        }
    }
    Ok(())
}
