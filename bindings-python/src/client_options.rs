//! `zklock.ClientOptions`.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use zklock::internal::Identity;

use crate::args::arguments::PYTHON;
use crate::args::checked::{Auth, FilePath, Flag, Integer, Number, Sasl, TlsFiles, wrong_type};
use crate::args::credentials::{Tls, again};
use crate::args::names;
use crate::args::names::{Acl, Label, ParentAcl};
use crate::args::text::Text;
use crate::errors::Result;

/// The settings of the client that a lock uses if it is created with a hosts string.
///
/// >>> options = zklock.ClientOptions(session_timeout=5, label="reports")
/// >>> lock = zklock.Mutex("zk1:2181,zk2:2181", "/locks/report", options=options)
///
/// The arguments are those of `zklock.Client`, without `hosts` and `connect`. In each process, all locks with
/// the same hosts and equal options share one client. The constructor reads files and environment variables,
/// and sends nothing.
///
/// Options can be pickled, and so can a lock that has them, unless they contain a password. In that case use
/// `auth_file`, because only the name of that file is pickled.
///
/// Raise `BadArgument` for a malformed argument.
#[pyclass(frozen, from_py_object, module = "zklock")]
#[derive(Clone)]
pub(crate) struct ClientOptions {
    /// The options with the default hosts. The lock sets its own hosts.
    pub(crate) inner: zklock::ClientOptions,
    /// The keyword arguments, without secrets.
    keywords: Arc<Py<PyDict>>,
    /// Name of the argument that contains a secret, if there is one.
    secret: Option<&'static str>,
}

#[pymethods]
impl ClientOptions {
    #[new]
    #[expect(clippy::too_many_arguments, reason = "by keyword")]
    #[pyo3(
        signature = (*, session_timeout=None, connect_timeout=Number::of(10.0), auth=None, auth_file=None, acl=None, parent_acl=None, sasl=None, tls=None, label=None, identify=Flag::of(true), max_frame=Integer::of(16_777_216)),
        text_signature = "(*, session_timeout=None, connect_timeout=10.0, auth=None, auth_file=None, acl=None, parent_acl=None, sasl=None, tls=None, label=None, identify=True, max_frame=16777216)"
    )]
    fn new(
        py: Python<'_>,
        session_timeout: Option<Number<names::SessionTimeout>>,
        connect_timeout: Number<names::ConnectTimeout>,
        auth: Option<Auth>,
        auth_file: Option<FilePath<names::AuthFile>>,
        acl: Option<Text<Acl>>,
        parent_acl: Option<Text<ParentAcl>>,
        sasl: Option<Sasl>,
        tls: Option<TlsFiles>,
        label: Option<Text<Label>>,
        identify: Flag<names::Identify>,
        max_frame: Integer<names::MaxFrame>,
    ) -> Result<Self> {
        let given = GivenClientOptions {
            session_timeout,
            connect_timeout,
            auth,
            auth_file,
            acl,
            parent_acl,
            sasl,
            tls,
            label,
            identify,
            max_frame,
        };
        let (keywords, secret) = (given.keywords(py)?, given.secret());
        Ok(Self { inner: given.at(Some("localhost"))?, keywords: Arc::new(keywords.unbind()), secret })
    }

    /// Returns `true` if the options are equal. Locks on the same hosts with equal options share a client.
    fn __eq__(&self, other: &Self) -> bool {
        self.inner == other.inner
    }

    fn __hash__(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.inner.hash(&mut hasher);
        hasher.finish()
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        let Self { keywords, secret, .. } = slf.get();
        if let Some(secret) = secret {
            return Err(PyTypeError::new_err(format!(
                "cannot copy or pickle options with {secret}: they contain a password; write it into a file that only its owner can read, and give that as auth_file"
            )));
        }
        again(&slf.get_type(), keywords.bind(slf.py()).clone())
    }
}

/// Options of a lock's client.
pub(crate) struct LockClientOptions(pub(crate) ClientOptions);

impl<'a, 'py> FromPyObject<'a, 'py> for LockClientOptions {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        object.extract().map(Self).map_err(|_| wrong_type("options", "a zklock.ClientOptions", &object))
    }
}

/// The arguments for the options of a client.
pub(crate) struct GivenClientOptions {
    pub(crate) session_timeout: Option<Number<names::SessionTimeout>>,
    pub(crate) connect_timeout: Number<names::ConnectTimeout>,
    pub(crate) auth: Option<Auth>,
    pub(crate) auth_file: Option<FilePath<names::AuthFile>>,
    pub(crate) acl: Option<Text<Acl>>,
    pub(crate) parent_acl: Option<Text<ParentAcl>>,
    pub(crate) sasl: Option<Sasl>,
    pub(crate) tls: Option<TlsFiles>,
    pub(crate) label: Option<Text<Label>>,
    pub(crate) identify: Flag<names::Identify>,
    pub(crate) max_frame: Integer<names::MaxFrame>,
}

impl GivenClientOptions {
    /// Returns the options for these hosts.
    pub(crate) fn at(self, hosts: Option<&str>) -> Result<zklock::ClientOptions> {
        let tls = self.tls.map(|TlsFiles(Tls(files))| files.tls()).transpose()?;
        let who = Identity {
            auth: self.auth.map(|auth| auth.0),
            auth_file: self.auth_file.map(|file| file.0),
            acl: self.acl.map(String::from),
            parent_acl: self.parent_acl.map(String::from),
            sasl: self.sasl.map(|Sasl(pair)| pair),
            tls,
            identify: Some(self.identify.0),
        };
        Ok(PYTHON.client_options(
            hosts,
            self.session_timeout.map(|seconds| seconds.0),
            Some(self.connect_timeout.0),
            self.label.map(String::from),
            Some(self.max_frame.0),
            who,
        )?)
    }

    /// Name of the argument that contains a secret, if there is one.
    fn secret(&self) -> Option<&'static str> {
        let auth = self.auth.as_ref().filter(|auth| !auth.0.is_empty()).map(|_| "auth");
        auth.or(self.sasl.as_ref().map(|_| "sasl"))
    }

    /// Returns the given arguments by name, without secrets.
    fn keywords<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let keywords = PyDict::new(py);
        if let Some(seconds) = &self.session_timeout {
            keywords.set_item("session_timeout", seconds.0)?;
        }
        keywords.set_item("connect_timeout", self.connect_timeout.0)?;
        if self.auth.as_ref().is_some_and(|auth| auth.0.is_empty()) {
            keywords.set_item("auth", ())?;
        }
        if let Some(file) = &self.auth_file {
            keywords.set_item("auth_file", &file.0)?;
        }
        for (name, text) in [
            ("acl", self.acl.as_deref()),
            ("parent_acl", self.parent_acl.as_deref()),
            ("label", self.label.as_deref()),
        ] {
            if let Some(text) = text {
                keywords.set_item(name, text)?;
            }
        }
        if let Some(TlsFiles(tls)) = &self.tls {
            keywords.set_item("tls", tls.clone())?;
        }
        keywords.set_item("identify", self.identify.0)?;
        keywords.set_item("max_frame", self.max_frame.0)?;
        Ok(keywords)
    }
}
