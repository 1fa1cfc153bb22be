//! Arguments, checked before anything is sent.

use std::path::{Path, PathBuf};
use std::time::Duration;

use pyo3::prelude::*;
use zklock::{Acl, ClientOptions, ClientSource, LockOptions, Naming};

use crate::client::Client;
use crate::errors::Failure;

const SECOND: Duration = Duration::from_secs(1);

/// Who may re-enter a lock; `zklock.aio` keeps one for each task.
#[pyclass(frozen, module = "zklock._zklock")]
pub(crate) struct Owner(pub(crate) zklock::Owner);

#[pymethods]
impl Owner {
    #[new]
    fn new() -> Self {
        Self(zklock::Owner::new())
    }
}

/// The owner that the calling thread is. Thread identifiers of the system are reused; these are not.
pub(crate) fn this_thread() -> zklock::Owner {
    thread_local! {
        static OWNER: zklock::Owner = zklock::Owner::new();
    }
    OWNER.with(|owner| *owner)
}

/// `blocking` and `timeout` of an acquire, checked.
#[pyclass(frozen, module = "zklock._zklock")]
pub(crate) struct Patience(pub(crate) zklock::Patience);

#[pymethods]
impl Patience {
    #[new]
    #[pyo3(signature = (blocking, timeout), text_signature = "(blocking, timeout)")]
    fn new(blocking: bool, timeout: Option<f64>) -> Result<Self, Failure> {
        patience(blocking, timeout).map(Self)
    }
}

/// `blocking` and `timeout` with the meanings that `threading.Lock.acquire` gives them.
pub(crate) fn patience(blocking: bool, timeout: Option<f64>) -> Result<zklock::Patience, Failure> {
    #[expect(clippy::float_cmp, reason = "exactly -1 is a word for having no time-out")]
    let timeout = timeout.filter(|timeout| *timeout != -1.0);
    match (blocking, timeout) {
        (true, None) => Ok(zklock::Patience::Forever),
        (true, Some(timeout)) => Ok(zklock::Patience::from_timeout(timeout, SECOND)?),
        (false, None) => Ok(zklock::Patience::Try),
        (false, Some(_)) => {
            Err(Failure::bad_argument("timeout: cannot be given together with blocking=False"))
        }
    }
}

/// How long to wait for something else than a lock; `None` is for ever.
pub(crate) fn wait_limit(timeout: Option<f64>) -> Result<Option<Duration>, Failure> {
    Ok(match patience(true, timeout)? {
        zklock::Patience::Forever => None,
        zklock::Patience::For(time) => Some(time),
        zklock::Patience::Try => Some(Duration::ZERO),
    })
}

/// How to connect, from the arguments of a client.
pub(crate) fn client_options(
    hosts: Option<&str>,
    session_timeout: f64,
    connect_timeout: f64,
    identity: Identity,
    label: Option<String>,
) -> Result<ClientOptions, Failure> {
    let mut options = ClientOptions::new(hosts)?
        .session_timeout(zklock::duration("session_timeout", session_timeout, SECOND)?)?
        .connect_timeout(zklock::duration("connect_timeout", connect_timeout, SECOND)?)?
        .label(label)
        .language("python");
    let Identity { auth, acl, sasl, tls } = identity;
    for (scheme, Secret(credential)) in auth {
        options = options.auth(&scheme, credential)?;
    }
    if let Some(acl) = acl {
        options = options.acl(Acl::parse(&acl)?);
    }
    if let Some((user, password)) = sasl {
        options = options.sasl(&user, &password);
    }
    if let Some(tls) = tls {
        options = options.tls(tls.read()?);
    }
    Ok(options)
}

/// Who we are to the servers, and who may touch what we make.
pub(crate) struct Identity {
    pub(crate) auth: Vec<(String, Secret)>,
    pub(crate) acl: Option<String>,
    pub(crate) sasl: Option<(String, String)>,
    pub(crate) tls: Option<Tls>,
}

/// Encryption: files in PEM.
#[pyclass(frozen, from_py_object, module = "zklock")]
#[derive(Clone)]
pub(crate) struct Tls {
    ca: PathBuf,
    identity: Option<(PathBuf, PathBuf)>,
}

#[pymethods]
impl Tls {
    #[new]
    #[pyo3(signature = (ca, *, cert=None, key=None), text_signature = "(ca, *, cert=None, key=None)")]
    fn new(ca: PathBuf, cert: Option<PathBuf>, key: Option<PathBuf>) -> Result<Self, Failure> {
        let identity = match (cert, key) {
            (Some(cert), Some(key)) => Some((cert, key)),
            (None, None) => None,
            _ => return Err(Failure::bad_argument("tls: cert and key belong together")),
        };
        Ok(Self { ca, identity })
    }
}

impl Tls {
    fn read(&self) -> Result<zklock::Tls, Failure> {
        let tls = zklock::Tls::new(&read_file("ca", &self.ca)?)?;
        match &self.identity {
            Some((cert, key)) => Ok(tls.identity(&read_file("cert", cert)?, &read_file("key", key)?)?),
            None => Ok(tls),
        }
    }
}

fn read_file(argument: &str, path: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(path).map_err(|error| {
        Failure::bad_argument(&format!("tls: {argument}: cannot read {}: {error}", path.display()))
    })
}

/// A credential: text, or bytes.
pub(crate) struct Secret(Vec<u8>);

impl<'a, 'py> FromPyObject<'a, 'py> for Secret {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        match object.extract::<&str>() {
            Ok(text) => Ok(Self(text.as_bytes().to_vec())),
            Err(_) => object.extract().map(Self),
        }
    }
}

/// Where a lock's client comes from: a client, or a hosts string.
pub(crate) struct Source(pub(crate) ClientSource);

impl<'a, 'py> FromPyObject<'a, 'py> for Source {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(client) = object.cast::<Client>() {
            return Ok(Self(ClientSource::from(&client.get().inner)));
        }
        let Ok(hosts) = object.extract::<&str>() else {
            let given = object.get_type().fully_qualified_name()?;
            let message = format!("must be a zklock.Client or a hosts string, not {given}");
            return Err(pyo3::exceptions::PyTypeError::new_err(message));
        };
        let options = ClientOptions::new(Some(hosts)).map_err(Failure::from)?;
        Ok(Self(ClientSource::Shared(options.language("python"))))
    }
}

/// How a lock behaves, from its arguments.
pub(crate) fn lock_options(label: Option<String>, naming: &str) -> Result<LockOptions, Failure> {
    let mut options = LockOptions::default();
    options.label = label;
    options.naming = match naming {
        "curator" => Naming::Curator,
        "kazoo" => Naming::Kazoo,
        _ => return Err(Failure::bad_argument("naming: must be \"curator\" or \"kazoo\"")),
    };
    Ok(options)
}
