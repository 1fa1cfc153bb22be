//! How to reach the ensemble: options that every command has. No secret is one of them, for everyone on the machine can
//! read a command line.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use zklock::internal::TlsParts;
use zklock::{Acl, ClientOptions, Tls};

use crate::duration;
use crate::failure::Failure;

#[derive(Args, Debug)]
#[command(next_help_heading = "Connection")]
pub(crate) struct Connection {
    /// Servers, as HOST[:PORT],…[/CHROOT] [env: `ZKLOCK_HOSTS`] [default: 127.0.0.1:2181]
    #[arg(short = 'z', long, value_name = "HOSTS")]
    hosts: Option<String>,
    /// File with credentials, one a line: digest:USER:PASSWORD or sasl:USER:PASSWORD [env: `ZKLOCK_AUTH_FILE`]
    #[arg(long, value_name = "FILE")]
    auth_file: Option<PathBuf>,
    /// Who may use the nodes that are created: open, creator, or SCHEME:ID:PERMISSIONS,… [env: `ZKLOCK_ACL`]
    #[arg(long, value_name = "ACL")]
    acl: Option<String>,
    /// The same for the parents of lock directories [env: `ZKLOCK_PARENT_ACL`] [default: those of --acl, and everyone may
    /// read them and create nodes there]
    #[arg(long, value_name = "ACL")]
    parent_acl: Option<String>,
    /// Encrypt; trust the authorities whose certificates are in this file [env: `ZKLOCK_TLS_CA`]
    #[arg(long, value_name = "FILE")]
    tls_ca: Option<PathBuf>,
    /// The certificate to present to the servers [env: `ZKLOCK_TLS_CERT`]
    #[arg(long, value_name = "FILE")]
    tls_cert: Option<PathBuf>,
    /// The private key of that certificate [env: `ZKLOCK_TLS_KEY`]
    #[arg(long, value_name = "FILE")]
    tls_key: Option<PathBuf>,
    /// How long to wait for a first answer from any server
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration::parse)]
    connect_timeout: Duration,
}

/// What an option or else the environment says. An empty variable says nothing.
fn or_environment<T: Clone + From<OsString>>(option: Option<&T>, variable: &str) -> Option<T> {
    option.cloned().or_else(|| std::env::var_os(variable).filter(|value| !value.is_empty()).map(T::from))
}

/// The same for an access control list. One that cannot be read must not leave the nodes open to everyone.
fn list(option: Option<&String>, variable: &str) -> Result<Option<String>, Failure> {
    let given = or_environment(option.map(OsString::from).as_ref(), variable);
    let text = given.map(OsString::into_string).transpose();
    text.map_err(|_| Failure::usage(format!("{variable} is not UTF-8")))
}

impl Connection {
    /// Options of a client, which gives up connecting after `timeout` at the latest.
    pub(crate) fn options(&self, timeout: Option<Duration>) -> Result<ClientOptions, Failure> {
        let time = timeout.map_or(self.connect_timeout, |timeout| timeout.min(self.connect_timeout));
        // An attempt without patience still needs an answer.
        let time = if time.is_zero() { self.connect_timeout } else { time };
        let mut options = ClientOptions::new(self.hosts.as_deref())?.connect_timeout(time)?;
        if let Some(file) = or_environment(self.auth_file.as_ref(), "ZKLOCK_AUTH_FILE") {
            options = credentials(options, &file)?;
        }
        if let Some(acl) = self.acl()? {
            options = options.acl(Acl::parse(&acl)?);
        }
        if let Some(acl) = list(self.parent_acl.as_ref(), "ZKLOCK_PARENT_ACL")? {
            options =
                options.parent_acl(Acl::parse(&acl).map_err(|error| error.with_argument("parent_acl"))?);
        }
        if let Some(tls) = self.tls()? {
            options = options.tls(tls);
        }
        Ok(options)
    }

    /// Whether an access control list is given.
    pub(crate) fn restricts_access(&self) -> bool {
        matches!(self.acl(), Ok(Some(acl)) if acl != "open")
    }

    /// Whether connections are encrypted.
    pub(crate) fn is_encrypted(&self) -> bool {
        matches!(self.tls(), Ok(Some(_)))
    }

    fn acl(&self) -> Result<Option<String>, Failure> {
        list(self.acl.as_ref(), "ZKLOCK_ACL")
    }

    fn tls(&self) -> Result<Option<Tls>, Failure> {
        let ca = or_environment(self.tls_ca.as_ref(), "ZKLOCK_TLS_CA");
        let certificate = or_environment(self.tls_cert.as_ref(), "ZKLOCK_TLS_CERT");
        let key = or_environment(self.tls_key.as_ref(), "ZKLOCK_TLS_KEY");
        let Some(ca) = ca else {
            return match certificate.or(key) {
                Some(_) => {
                    Err(Failure::usage("a certificate or key is given, but no --tls-ca to trust servers by"))
                }
                None => Ok(None),
            };
        };
        let parts = TlsParts::<PathBuf>::new(ca, certificate, key)
            .map_err(|_| Failure::usage("--tls-cert and --tls-key are given together, or neither is"))?;
        // Files, not what they hold now: certificates may be renewed while a command runs for days.
        Ok(Some(parts.tls()?))
    }
}

/// Reads a file of credentials, unless others can read it too.
fn read(file: &Path) -> Result<String, Failure> {
    let problem = |error: &io::Error| Failure::usage(format!("cannot read {}: {error}", file.display()));
    let mut opened = File::open(file).map_err(|error| problem(&error))?;
    let about = opened.metadata().map_err(|error| problem(&error))?;
    // Of the file that is open: the name may be another file's a moment later.
    if let Some(mode) = too_open(about.mode(), about.uid()) {
        let file = file.display();
        return Err(Failure::usage(format!(
            "{file} has credentials, and others than its owner can use it (mode {mode:04o}): run `chmod 600 {file}`"
        )));
    }
    let mut text = String::new();
    opened.read_to_string(&mut text).map_err(|error| problem(&error))?;
    Ok(text)
}

/// The permissions of a file, if they are too many for a secret. A group may read what belongs to root, because that is
/// how a secret comes into a container whose user is another one.
fn too_open(mode: u32, owner: u32) -> Option<u32> {
    let too_many = if owner == 0 { 0o037 } else { 0o077 };
    (mode & too_many != 0).then_some(mode & 0o7777)
}

/// Adds what the lines of a file say. Their text is in no message: it is secret.
fn credentials(mut options: ClientOptions, file: &Path) -> Result<ClientOptions, Failure> {
    for (index, line) in read(file)?.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let bad = || {
            let form = "digest:USER:PASSWORD, sasl:USER:PASSWORD or another SCHEME:CREDENTIAL";
            Failure::usage(format!("{}, line {}: is not {form}", file.display(), index + 1))
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
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_secret_is_for_its_owner_alone() {
        let (root, user) = (0, 1000);
        for mode in [0o600, 0o400, 0o100_600] {
            assert_eq!(too_open(mode, user), None, "{mode:o}");
        }
        for mode in [0o644, 0o640, 0o604, 0o660, 0o601] {
            assert_eq!(too_open(0o100_000 | mode, user), Some(mode), "{mode:o}");
        }
        // As Kubernetes mounts a secret for the group of a pod.
        assert_eq!(too_open(0o440, root), None);
        for mode in [0o444, 0o660, 0o644] {
            assert_eq!(too_open(mode, root), Some(mode), "{mode:o}");
        }
    }

    #[test]
    fn a_line_that_is_wrong_is_named_by_its_number_alone() {
        let file = std::env::temp_dir().join(format!("zklock-auth-{}", std::process::id()));
        fs::write(&file, "# ours\n\ndigest:app:pass:word\ndigest:secret\n").unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
        let refused = credentials(ClientOptions::new(None).unwrap(), &file).unwrap_err().message.unwrap();
        fs::remove_file(&file).unwrap();
        assert!(refused.contains("line 4") && !refused.contains("secret"), "{refused}");
    }
}
