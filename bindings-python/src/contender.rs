//! `zklock.Contender`.

use std::borrow::Cow;

use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;

use crate::pending::IntoPython;

/// One contender in the queue of a lock.
#[pyclass(frozen, get_all, eq, module = "zklock")]
#[derive(PartialEq)]
pub(crate) struct Contender {
    position: usize,
    node: String,
    reader: bool,
    session_id: i64,
    fencing_token: i64,
    host: Option<String>,
    pid: Option<u32>,
    language: Option<String>,
    label: Option<String>,
    since: Option<f64>,
    data: Cow<'static, [u8]>,
}

impl From<zklock::Contender> for Contender {
    fn from(contender: zklock::Contender) -> Self {
        let about = contender.about;
        let of = |field: fn(&zklock::About) -> &String| about.as_ref().map(|about| field(about).clone());
        let since = about.as_ref().map(|about| std::time::Duration::from_millis(about.since).as_secs_f64());
        Self {
            position: contender.position,
            node: contender.node,
            reader: contender.reader,
            session_id: contender.session_id,
            fencing_token: contender.fencing_token,
            host: of(|about| &about.host),
            pid: about.as_ref().map(|about| about.pid),
            language: of(|about| &about.language),
            label: about.as_ref().and_then(|about| about.label.clone()),
            since,
            data: contender.data.into(),
        }
    }
}

impl IntoPython for Vec<zklock::Contender> {
    fn into_python(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.into_iter().map(Contender::from).collect::<Vec<_>>().into_py_any(py)
    }
}

#[pymethods]
impl Contender {
    fn __repr__(&self) -> String {
        let who = match (&self.host, self.pid) {
            (Some(host), Some(pid)) => format!(", process {pid} on {host}"),
            _ => String::new(),
        };
        format!("<zklock.Contender {} {}{who}>", self.position, self.node)
    }
}
