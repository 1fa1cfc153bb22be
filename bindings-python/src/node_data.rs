//! `zklock.NodeData`.

use std::borrow::Cow;

use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use zklock::internal::Escaped;

use crate::bridge::pending::IntoPython;

/// The data of a node and its version, as read by `Client.get()`. Immutable.
///
/// >>> with lock as lease:
/// ...     lease.transaction().create("/report", b"draft").commit()
/// >>> client.get("/report").version
/// 0
#[pyclass(frozen, get_all, eq, module = "zklock")]
#[derive(PartialEq)]
pub(crate) struct NodeData {
    /// The data.
    data: Cow<'static, [u8]>,
    /// The number of times that the data was set. Pass it to a transaction as `version`.
    version: i32,
}

#[pymethods]
impl NodeData {
    fn __repr__(&self) -> String {
        let text = String::from_utf8_lossy(&self.data);
        format!("<zklock.NodeData version {}: {}>", self.version, Escaped(&text))
    }
}

impl From<zklock::NodeData> for NodeData {
    fn from(found: zklock::NodeData) -> Self {
        Self { data: found.data.into(), version: found.version }
    }
}

impl IntoPython for Option<zklock::NodeData> {
    fn into_python(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.map(NodeData::from).into_py_any(py)
    }
}
