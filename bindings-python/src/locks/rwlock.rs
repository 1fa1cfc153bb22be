//! `zklock.ReadWriteLock`.

use pyo3::prelude::*;
use zklock::internal::{Escaped, GivenOptions, shown_hosts};

use crate::args::arguments::PYTHON;
use crate::args::checked::{Integer, Number};
use crate::args::names;
use crate::args::names::{Label, Naming, Path};
use crate::args::text::Text;
use crate::client_options::LockClientOptions;
use crate::errors::Result;
use crate::locks::client_arg::Source;
use crate::locks::lock::Lock;
use crate::locks::pickle::{Recipe, keywords};

/// A fair, reentrant read/write lock, compatible with Curator's `InterProcessReadWriteLock`.
///
/// >>> catalogue = zklock.ReadWriteLock(client, "/locks/catalogue")
/// >>> with catalogue.read_lock:
/// ...     print("reading, with others")
/// reading, with others
///
/// Several readers can hold it together; a writer holds it alone. A reader that arrives after a waiting
/// writer waits behind that writer.
///
/// A writer can also acquire the read lock, and keep it when it releases the write lock. No other writer can
/// hold the lock in between:
///
/// >>> with catalogue.write_lock:
/// ...     catalogue.read_lock.acquire()
/// True
/// >>> catalogue.read_lock.release()
///
/// The reverse would be a deadlock: a reader that requests the write lock gets `UpgradeRefused` immediately.
///
/// The arguments are the same as for `Mutex`. `max_hold`, in seconds, limits a hold of the read lock and a
/// hold of the write lock separately. `max_waiters` counts the waiters of both halves. `cohort` applies only
/// to the write lock, `linger` to both halves. Do not compare the fencing tokens of readers that hold the
/// lock together. A mutex and a read/write lock on the same path do not exclude each other: give them
/// different paths.
#[pyclass(frozen, weakref, module = "zklock")]
pub(crate) struct ReadWriteLock {
    read_lock: Py<Lock>,
    write_lock: Py<Lock>,
    recipe: Recipe,
}

#[pymethods]
impl ReadWriteLock {
    #[new]
    #[expect(clippy::too_many_arguments, reason = "by keyword")]
    #[pyo3(
        signature = (client, path, *, label=None, naming=Text::of("curator"), max_hold=None, grace=None, max_waiters=None, cohort=Integer::of(0), linger=Number::of(0.0), options=None),
        text_signature = "(client, path, *, label=None, naming='curator', max_hold=None, grace=None, max_waiters=None, cohort=0, linger=0.0, options=None)"
    )]
    fn new(
        py: Python<'_>,
        client: Source,
        path: Text<Path>,
        label: Option<Text<Label>>,
        naming: Text<Naming>,
        max_hold: Option<Number<names::MaxHold>>,
        grace: Option<Number<names::Grace>>,
        max_waiters: Option<Integer<names::MaxWaiters>>,
        cohort: Integer<names::Cohort>,
        linger: Number<names::Linger>,
        options: Option<LockClientOptions>,
    ) -> Result<Self> {
        let given = GivenOptions {
            label: label.map(String::from),
            naming: Some(naming.into()),
            max_hold: max_hold.map(|seconds| seconds.0),
            grace: grace.map(|seconds| seconds.0),
            max_waiters: max_waiters.map(|waiters| waiters.to_number()),
            cohort: (cohort.0 != 0).then(|| cohort.to_number()),
            linger: (linger.0 != 0.0).then_some(linger.0),
            ..Default::default()
        };
        let keywords = keywords(py, &given)?;
        let source = client.with_options(options, &keywords)?;
        let recipe = Recipe::new(client.given(), &path, keywords);
        let inner = zklock::ReadWriteLock::with_options(source, &path, PYTHON.lock_options(given)?)?;
        let read_lock = Lock::new(inner.read_lock, "ReadWriteLock.read_lock", true, recipe.clone());
        let write_lock = Lock::new(inner.write_lock, "ReadWriteLock.write_lock", true, recipe.clone());
        Ok(Self { read_lock: Py::new(py, read_lock)?, write_lock: Py::new(py, write_lock)?, recipe })
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        slf.get().recipe.reduce(&slf.get_type())
    }

    /// The lock path.
    #[getter]
    fn path(&self) -> &str {
        self.read_lock.get().path()
    }

    /// The half that several readers can hold together.
    #[getter]
    fn read_lock(&self, py: Python<'_>) -> Py<Lock> {
        self.read_lock.clone_ref(py)
    }

    /// The half that only one writer can hold.
    #[getter]
    fn write_lock(&self, py: Python<'_>) -> Py<Lock> {
        self.write_lock.clone_ref(py)
    }

    fn __repr__(&self) -> String {
        let lock = &self.read_lock.get().inner;
        format!("<zklock.ReadWriteLock {} on {}>", Escaped(lock.path()), shown_hosts(lock))
    }
}
