//! Client options from environment variables, for options that the program does not set.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::ClientOptions;
use super::acl::Acl;
use super::secret_file;
use super::tls::{Tls, TlsFiles};
use crate::error::{Error, Result};

/// Path of a file with credentials.
const AUTH_FILE: &str = "ZKLOCK_AUTH_FILE";
/// Access control list of nodes and lock directories.
const ACL: &str = "ZKLOCK_ACL";
/// Access control list of the parents of lock directories.
const PARENT_ACL: &str = "ZKLOCK_PARENT_ACL";
/// Paths of PEM files for TLS.
const TLS_CA: &str = "ZKLOCK_TLS_CA";
const TLS_CERT: &str = "ZKLOCK_TLS_CERT";
const TLS_KEY: &str = "ZKLOCK_TLS_KEY";
/// The session timeout.
const SESSION_TIMEOUT: &str = "ZKLOCK_SESSION_TIMEOUT";

/// All variables of this module.
pub const VARIABLES: [&str; 7] = [AUTH_FILE, ACL, PARENT_ACL, TLS_CA, TLS_CERT, TLS_KEY, SESSION_TIMEOUT];

/// A setting, with the name of the environment variable from which it was read. The name is `None`
/// if the program set it.
#[derive(Clone, Debug)]
struct Setting<T> {
    value: T,
    variable: Option<&'static str>,
}

impl<T> Setting<T> {
    fn given(value: T) -> Self {
        Self { value, variable: None }
    }

    /// Adds the name of the variable to an error of this setting.
    fn explain(&self, error: Error) -> Error {
        match self.variable {
            Some(variable) => error.with_origin(format_args!(" (from the environment variable {variable})")),
            None => error,
        }
    }
}

/// Unparsed settings for a secured ensemble, from a command line or from the environment.
#[derive(Clone, Debug, Default)]
pub struct Secured {
    auth_file: Option<Setting<PathBuf>>,
    acl: Option<Setting<String>>,
    parent_acl: Option<Setting<String>>,
    ca: Option<Setting<PathBuf>>,
    cert: Option<Setting<PathBuf>>,
    key: Option<Setting<PathBuf>>,
    session_timeout: Option<Setting<String>>,
}

/// Flags that mark the options that the program sets itself. The environment does not override
/// these options.
#[derive(Clone, Copy, Debug, Default)]
#[allow(clippy::struct_excessive_bools, reason = "each is one property")]
pub struct SetByProgram {
    /// Credentials of any scheme.
    pub credentials: bool,
    /// The access control list.
    pub acl: bool,
    /// The access control list of the parents.
    pub parent_acl: bool,
    /// TLS.
    pub tls: bool,
    /// The session timeout.
    pub session_timeout: bool,
}

impl Secured {
    /// Creates settings from values that the program provides.
    #[must_use]
    pub fn new(
        auth_file: Option<PathBuf>,
        acl: Option<String>,
        parent_acl: Option<String>,
        (ca, cert, key): (Option<PathBuf>, Option<PathBuf>, Option<PathBuf>),
    ) -> Self {
        Self {
            auth_file: auth_file.map(Setting::given),
            acl: acl.map(Setting::given),
            parent_acl: parent_acl.map(Setting::given),
            ca: ca.map(Setting::given),
            cert: cert.map(Setting::given),
            key: key.map(Setting::given),
            session_timeout: None,
        }
    }

    /// Adds settings from the environment for everything that is not yet set.
    ///
    /// # Errors
    /// [`BadArgument`](crate::ErrorKind::BadArgument) for a variable that is not UTF-8.
    pub fn or_environment(self, set: SetByProgram) -> Result<Self> {
        let file = |given: Option<Setting<PathBuf>>, set: bool, name: &'static str| {
            given.or_else(|| {
                let value = variable(name).filter(|_| !set)?;
                Some(Setting { value: value.into(), variable: Some(name) })
            })
        };
        let text = |given: Option<Setting<String>>, set: bool, name: &'static str, argument: &str| match (
            given,
            variable(name).filter(|_| !set),
        ) {
            (None, Some(value)) => match value.into_string() {
                Ok(value) => Ok(Some(Setting { value, variable: Some(name) })),
                Err(_) => Err(Error::bad_argument(argument, format_args!("{name} is not valid UTF-8"))),
            },
            (given, _) => Ok(given),
        };
        Ok(Self {
            auth_file: file(self.auth_file, set.credentials, AUTH_FILE),
            acl: text(self.acl, set.acl, ACL, "acl")?,
            parent_acl: text(self.parent_acl, set.parent_acl, PARENT_ACL, "parent_acl")?,
            ca: file(self.ca, set.tls, TLS_CA),
            cert: file(self.cert, set.tls, TLS_CERT),
            key: file(self.key, set.tls, TLS_KEY),
            session_timeout: text(
                self.session_timeout,
                set.session_timeout,
                SESSION_TIMEOUT,
                "session_timeout",
            )?,
        })
    }

    /// Returns `true` if the access control list is not open to every client.
    #[must_use]
    pub fn restricts_access(&self) -> bool {
        self.acl.as_ref().is_some_and(|acl| acl.value != "open")
    }

    /// Returns `true` if connections are encrypted.
    #[must_use]
    pub fn is_encrypted(&self) -> bool {
        self.ca.is_some()
    }

    /// Applies these settings to `options`. Reads the files.
    ///
    /// # Errors
    /// [`BadArgument`](crate::ErrorKind::BadArgument) if a setting is malformed, if a file cannot
    /// be read, or if other users than the owner can access a file of credentials.
    pub fn apply(&self, mut options: ClientOptions) -> Result<ClientOptions> {
        if let Some(file) = &self.auth_file {
            options = auth_file(options, &file.value).map_err(|error| file.explain(error))?;
        }
        if let Some(acl) = &self.acl {
            options = options.acl(Acl::parse(&acl.value).map_err(|error| acl.explain(error))?);
        }
        if let Some(acl) = &self.parent_acl {
            let parsed = Acl::parse(&acl.value).map_err(|error| error.with_argument("parent_acl"));
            options = options.parent_acl(parsed.map_err(|error| acl.explain(error))?);
        }
        if let Some(tls) = self.tls()? {
            options = options.tls(tls);
        }
        if let Some(timeout) = &self.session_timeout {
            let parsed = parse_duration(&timeout.value)
                .map_err(|problem| Error::bad_argument("session_timeout", problem));
            options = parsed
                .and_then(|time| options.session_timeout(time))
                .map_err(|error| timeout.explain(error))?;
        }
        Ok(options)
    }

    fn tls(&self) -> Result<Option<Tls>> {
        let part = self.cert.as_ref().or(self.key.as_ref());
        let Some(ca) = &self.ca else {
            let Some(part) = part else { return Ok(None) };
            let problem =
                "a certificate or key is given, but ca, the file of trusted authorities, is missing";
            return Err(part.explain(Error::bad_argument("tls", problem)));
        };
        let identity = match (&self.cert, &self.key) {
            (Some(cert), Some(key)) => Some((cert.value.clone(), key.value.clone())),
            (None, None) => None,
            _ => {
                let error = Error::bad_argument("tls", "cert and key must be given together");
                return Err(part.unwrap_or(ca).explain(error));
            }
        };
        // Keep the file names in addition to the content, because the certificates in these files
        // can be renewed while a client runs.
        let tls = Tls::from_files(&TlsFiles { ca: ca.value.clone(), identity });
        // The message itself names the file.
        Ok(Some(tls.map_err(|error| ca.explain(error))?))
    }
}

impl ClientOptions {
    /// Creates options for `hosts` like [`new`](Self::new), and applies environment variables.
    ///
    /// Use this function if operators, and not the program, configure the access to a secured
    /// ensemble. Options that the program sets afterwards override the variables. An empty variable
    /// counts as unset.
    ///
    /// | Variable | Option |
    /// |---|---|
    /// | `ZKLOCK_HOSTS` | The hosts, if `hosts` is `None` |
    /// | `ZKLOCK_AUTH_FILE` | Credentials: see [`auth_file`](Self::auth_file) |
    /// | `ZKLOCK_ACL`, `ZKLOCK_PARENT_ACL` | [`acl`](Self::acl) and [`parent_acl`](Self::parent_acl), in the syntax of [`Acl::parse`] |
    /// | `ZKLOCK_TLS_CA`, `ZKLOCK_TLS_CERT`, `ZKLOCK_TLS_KEY` | [`tls`](Self::tls): paths of PEM files, which are read again for each new connection |
    /// | `ZKLOCK_SESSION_TIMEOUT` | [`session_timeout`](Self::session_timeout): `10s`, `500ms`, or a number of seconds |
    ///
    /// ```
    /// use zklock::ClientOptions;
    ///
    /// # fn main() -> zklock::Result<()> {
    /// let options = ClientOptions::from_env(None)?;
    /// # drop(options);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`BadArgument`](crate::ErrorKind::BadArgument) if a variable is malformed, or if it names a
    /// file that cannot be read, has invalid content, or contains credentials that other users than
    /// its owner can access. The message names the variable.
    pub fn from_env(hosts: Option<&str>) -> Result<Self> {
        Self::new(hosts)?.with_environment(SetByProgram::default())
    }

    /// Applies the environment variables to the options that the program does not set.
    pub(crate) fn with_environment(self, set: SetByProgram) -> Result<Self> {
        Secured::default().or_environment(set)?.apply(self)
    }

    /// Adds the credentials in a file. The file is read once, during this call.
    ///
    /// Each line is `digest:USER:PASSWORD`, `sasl:USER:PASSWORD`, or another `SCHEME:CREDENTIAL`.
    /// Empty lines and lines that begin with `#` are ignored.
    ///
    /// ```no_run
    /// # fn main() -> zklock::Result<()> {
    /// let options = zklock::ClientOptions::new(Some("zk1,zk2,zk3"))?.auth_file("/etc/app/zookeeper")?;
    /// # drop(options);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`BadArgument`](crate::ErrorKind::BadArgument) if the file cannot be read, if a line is
    /// malformed, or if other users than the owner can access the file. Exception: the group can
    /// have read permission for a file that belongs to root, as is usual in a container. On
    /// Windows, the system and the administrators can also have access.
    pub fn auth_file(self, file: impl AsRef<Path>) -> Result<Self> {
        auth_file(self, file.as_ref())
    }
}

/// Returns the value of a variable. An empty value counts as unset.
fn variable(name: &str) -> Option<OsString> {
    env::var_os(name).filter(|value| !value.is_empty())
}

/// Parses a duration such as `1m30s` or `500ms`, or a number of seconds.
///
/// # Errors
/// A description of the problem.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    if let Ok(seconds) = text.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string());
    }
    humantime::parse_duration(text).map_err(|error| format!("{error}; write 30, 1.5, 500ms or 1m30s"))
}

/// Adds the credentials in the file's lines. No message contains the text of a line, because it is
/// secret.
fn auth_file(mut options: ClientOptions, file: &Path) -> Result<ClientOptions> {
    for (index, line) in secret_file::read(file)?.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let bad = || {
            let form = "digest:USER:PASSWORD, sasl:USER:PASSWORD or another SCHEME:CREDENTIAL";
            let problem = format!("{}, line {}: is not {form}", file.display(), index + 1);
            Error::bad_argument("auth_file", problem)
        };
        let (scheme, credential) = line.split_once(':').ok_or_else(bad)?;
        options = match (scheme, credential.split_once(':')) {
            ("sasl", Some((user, password))) => options.sasl(user, password)?,
            ("digest" | "sasl", None) => return Err(bad()),
            _ => options.auth(scheme, credential)?,
        };
    }
    Ok(options)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::config::secret_file::write_private;

    fn options() -> ClientOptions {
        ClientOptions::new(Some("a")).unwrap()
    }

    /// Runs `body` with a temporary file that has this text and is its owner's alone.
    fn with_file<T>(name: &str, text: &str, body: impl FnOnce(&Path) -> T) -> T {
        let file = env::temp_dir().join(format!("zklock-{name}-{}", std::process::id()));
        write_private(&file, text);
        let told = body(&file);
        fs::remove_file(&file).unwrap();
        told
    }

    #[test]
    fn lines_of_a_file_are_credentials() {
        let text = "# ours\n\ndigest:app:pass:word\nsasl:app:secret\nother:x\n";
        let options = with_file("auth", text, |file| options().auth_file(file).unwrap());
        let expected = [("digest", "app:pass:word"), ("other", "x")];
        let shown = expected.map(|(scheme, secret)| options.clone().auth(scheme, secret).unwrap());
        for (index, shown) in shown.iter().enumerate() {
            assert_eq!(shown.credentials[2], options.credentials[index]);
        }
        assert_eq!((options.credentials.len(), options.login.is_some()), (2, true));
    }

    #[test]
    fn a_malformed_line_is_named_by_its_number_alone() {
        let text = "# ours\n\ndigest:app:pass:word\ndigest:secret\n";
        let refused = with_file("malformed", text, |file| options().auth_file(file).unwrap_err());
        let message = refused.to_string();
        assert!(message.contains("line 4") && !message.contains("secret"), "{message}");
    }

    #[test]
    fn errors_name_the_variable() {
        let from =
            |variable, value: &str| Some(Setting { value: value.to_owned(), variable: Some(variable) });
        let file = |variable, value: &str| Some(Setting { value: value.into(), variable: Some(variable) });
        let error = |secured: Secured| secured.apply(options()).unwrap_err().to_string();
        let acl = error(Secured { acl: from(ACL, "all"), ..Secured::default() });
        assert!(
            acl.starts_with("acl: ") && acl.ends_with(" (from the environment variable ZKLOCK_ACL)"),
            "{acl}"
        );
        for (secured, variable) in [
            (Secured { parent_acl: from(PARENT_ACL, "all"), ..Secured::default() }, PARENT_ACL),
            (
                Secured { session_timeout: from(SESSION_TIMEOUT, "soon"), ..Secured::default() },
                SESSION_TIMEOUT,
            ),
            (Secured { session_timeout: from(SESSION_TIMEOUT, "0"), ..Secured::default() }, SESSION_TIMEOUT),
            (Secured { auth_file: file(AUTH_FILE, "/no/such/file"), ..Secured::default() }, AUTH_FILE),
            (Secured { ca: file(TLS_CA, "/no/such/file"), ..Secured::default() }, TLS_CA),
            (Secured { cert: file(TLS_CERT, "c"), ..Secured::default() }, TLS_CERT),
            (Secured { ca: file(TLS_CA, "a"), key: file(TLS_KEY, "k"), ..Secured::default() }, TLS_KEY),
        ] {
            let error = error(secured);
            assert!(error.ends_with(&format!(" (from the environment variable {variable})")), "{error}");
        }
        // An argument that the program sets has no variable.
        let secured = Secured::new(None, Some("all".to_owned()), None, (None, None, None));
        assert!(!error(secured).contains("environment"));
    }

    #[test]
    fn a_session_timeout_is_in_seconds_unless_it_says_otherwise() {
        let timeout = |text: &str| {
            let session_timeout = Some(Setting::given(text.to_owned()));
            Secured { session_timeout, ..Secured::default() }.apply(options()).unwrap().session_timeout
        };
        assert_eq!(timeout("6"), Duration::from_secs(6));
        assert_eq!(timeout("500ms"), Duration::from_millis(500));
    }

    #[test]
    fn durations_may_go_without_a_unit() {
        assert_eq!(parse_duration("2.5").unwrap(), Duration::from_millis(2500));
        assert_eq!(parse_duration("0").unwrap(), Duration::ZERO);
        assert_eq!(parse_duration("1m30s").unwrap(), Duration::from_secs(90));
        for wrong in ["-1", "NaN", "inf", "", "soon", "5 parsecs"] {
            assert!(parse_duration(wrong).is_err(), "{wrong}");
        }
    }
}
