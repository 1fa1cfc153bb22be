//! `zklock.Deadlock`.

use pyo3::prelude::*;
use zklock::internal::Escaped;

use crate::contender::Contender;

/// Two owners that waited for each other, as reported by `LockTimeout.deadlock`. Immutable.
///
/// >>> try:
/// ...     with taken.hold(timeout=0.5):
/// ...         print("held")
/// ... except zklock.LockTimeout as error:
/// ...     found = error.deadlock
/// ...     if found:
/// ...         print(f"take {found.held} and {found.waited} in one order")
/// ...     else:
/// ...         print("taken")
/// taken
#[pyclass(frozen, get_all, eq, module = "zklock")]
#[derive(PartialEq)]
pub(crate) struct Deadlock {
    /// The path of the lock that the caller held and the other owner waited for.
    held: String,
    /// The path of the lock that the caller waited for.
    waited: String,
    /// The other owner's contender, ahead of the caller in the queue of `waited`.
    other: Contender,
}

impl From<&zklock::Deadlock> for Deadlock {
    fn from(deadlock: &zklock::Deadlock) -> Self {
        let zklock::Deadlock { held, waited, other, .. } = deadlock.clone();
        Self { held, waited, other: other.into() }
    }
}

/// The fields in pickled form: errors travel between processes.
type Parts = (String, String, Contender);

#[pymethods]
impl Deadlock {
    #[staticmethod]
    fn _of(parts: Parts) -> Self {
        let (held, waited, other) = parts;
        Self { held, waited, other }
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (Parts,))> {
        let parts = (self.held.clone(), self.waited.clone(), self.other.clone());
        Ok((py.get_type::<Self>().getattr("_of")?, (parts,)))
    }

    fn __repr__(&self) -> String {
        format!("<zklock.Deadlock held {}, waited {}>", Escaped(&self.held), Escaped(&self.waited))
    }
}
