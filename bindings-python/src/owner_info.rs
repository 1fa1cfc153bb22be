//! `zklock.OwnerInfo` and `zklock.OwnerReport`.

use std::fmt;

use pyo3::prelude::*;
use zklock::internal::Escaped;

/// The description of a contender's owner, such as a thread or task of its program. Immutable.
///
/// >>> with lock:
/// ...     lock.contenders()[0].owner.name
/// 'MainThread'
#[pyclass(frozen, get_all, eq, hash, from_py_object, module = "zklock")]
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct OwnerInfo {
    /// The number of the owner. It is unique in the owner's process, and never reused there.
    number: u64,
    /// The first 64 bytes of the owner's name, or None if it has no name.
    name: Option<String>,
    /// A number that distinguishes processes with the same host name and process id, as in containers.
    process: u64,
}

impl From<zklock::OwnerInfo> for OwnerInfo {
    fn from(owner: zklock::OwnerInfo) -> Self {
        let zklock::OwnerInfo { number, name, process, .. } = owner;
        Self { number, name, process }
    }
}

/// The fields in pickled form.
type Parts = (u64, Option<String>, u64);

#[pymethods]
impl OwnerInfo {
    #[staticmethod]
    fn _of(parts: Parts) -> Self {
        let (number, name, process) = parts;
        Self { number, name, process }
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (Parts,))> {
        let parts = (self.number, self.name.clone(), self.process);
        Ok((py.get_type::<Self>().getattr("_of")?, (parts,)))
    }

    fn __repr__(&self) -> String {
        format!("<zklock.OwnerInfo {self}>")
    }
}

impl fmt::Display for OwnerInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write(f, self.number, self.name.as_deref())
    }
}

/// The owner of a wait or a hold, in `Client.health()`. Immutable.
///
/// >>> with lock:
/// ...     client.health().holds[0].owner.name
/// 'MainThread'
#[pyclass(frozen, get_all, eq, hash, module = "zklock")]
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct OwnerReport {
    /// The number of the owner. It is unique in this process, and never reused.
    number: u64,
    /// The name of the thread, task or greenlet when it requested the lock, or None.
    name: Option<String>,
}

impl From<&zklock::Owner> for OwnerReport {
    fn from(owner: &zklock::Owner) -> Self {
        Self { number: owner.number(), name: owner.name().map(str::to_owned) }
    }
}

#[pymethods]
impl OwnerReport {
    fn __repr__(&self) -> String {
        format!("<zklock.OwnerReport {self}>")
    }
}

impl fmt::Display for OwnerReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write(f, self.number, self.name.as_deref())
    }
}

fn write(f: &mut fmt::Formatter<'_>, number: u64, name: Option<&str>) -> fmt::Result {
    write!(f, "{number}")?;
    name.map_or(Ok(()), |name| write!(f, " ({})", Escaped(name)))
}
