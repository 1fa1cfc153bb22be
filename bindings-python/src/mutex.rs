//! `zklock.Mutex`.

use pyo3::prelude::*;

use crate::arguments::lock_options;
use crate::errors::Failure;
use crate::lock::Lock;
use crate::source::Source;

/// A fair, exclusive lock; reentrant, unless made with `reentrant=False`.
///
///     with zklock.Mutex(client, "/locks/report") as lease: ...
#[pyclass(frozen, extends = Lock, module = "zklock")]
pub(crate) struct Mutex;

#[pymethods]
impl Mutex {
    #[new]
    #[pyo3(
        signature = (client, path, *, reentrant=true, label=None, naming="curator")
    )]
    fn new(
        client: Source,
        path: &str,
        reentrant: bool,
        label: Option<String>,
        naming: &str,
    ) -> Result<PyClassInitializer<Self>, Failure> {
        let mut options = lock_options(label, naming)?;
        options.reentrant = reentrant;
        let inner = zklock::Mutex::with_options(client.0, path, options)?;
        Ok(PyClassInitializer::from(Lock::new(inner, "Mutex").reentrant(reentrant)).add_subclass(Self))
    }
}
