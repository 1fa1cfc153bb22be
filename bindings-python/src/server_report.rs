//! `zklock.ServerReport`.

use pyo3::prelude::*;

/// The result of the last attempt to use a server: an element of `ConnectionFailed.servers`.
///
/// >>> try:
/// ...     zklock.Client("127.0.0.1:1", connect_timeout=0.1)
/// ... except zklock.ConnectionFailed as error:
/// ...     [report] = error.servers
/// >>> report.server, report.problem
/// ('127.0.0.1:1', 'refused')
#[pyclass(frozen, get_all, eq, hash, module = "zklock")]
#[derive(PartialEq, Eq, Hash)]
pub(crate) struct ServerReport {
    /// The server, as `host:port`.
    server: String,
    /// The kind of the problem, for use in a program.
    ///
    /// `unknown host`, `refused`, `unreachable`, `silent`, `closed`, `not serving` (it has no quorum),
    /// `read-only`, `not zookeeper`, `certificate name`, `certificate expired`, `certificate authority`,
    /// `tls` (any other TLS problem), `not tried`, or `answered` (it answered at first, and then stopped
    /// answering).
    problem: String,
    /// The problem as a text for people: the message of the operating system, of TLS or of the server.
    detail: String,
}

#[pymethods]
impl ServerReport {
    #[new]
    fn new(server: String, problem: String, detail: String) -> Self {
        Self { server, problem, detail }
    }

    fn __reduce__<'py>(
        &self,
        py: Python<'py>,
    ) -> (Bound<'py, pyo3::types::PyType>, (String, String, String)) {
        (py.get_type::<Self>(), (self.server.clone(), self.problem.clone(), self.detail.clone()))
    }

    fn __repr__(&self) -> String {
        format!("<zklock.ServerReport {} {}>", self.server, self.problem)
    }

    fn __str__(&self) -> String {
        format!("{} {}", self.server, self.detail)
    }
}

impl From<&zklock::ServerReport> for ServerReport {
    fn from(report: &zklock::ServerReport) -> Self {
        let zklock::ServerReport { server, problem, detail, .. } = report;
        Self { server: server.clone(), problem: problem.as_str().to_owned(), detail: detail.clone() }
    }
}
