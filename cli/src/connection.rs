//! Connection options that every command has. Secrets are read from files, because every user of
//! the machine can read the command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use zklock::ClientOptions;
use zklock::internal::{Secured, SetByProgram};

use crate::duration;
use crate::failure::Failure;

#[derive(Args, Debug)]
#[command(next_help_heading = "Connection")]
pub(crate) struct Connection {
    /// Servers, as HOST[:PORT],…[/CHROOT] [env: `ZKLOCK_HOSTS`] [default: 127.0.0.1:2181]
    #[arg(short = 'z', long, value_name = "HOSTS")]
    hosts: Option<String>,
    /// File with credentials, one per line: digest:USER:PASSWORD or sasl:USER:PASSWORD [env:
    /// `ZKLOCK_AUTH_FILE`]
    #[arg(long, value_name = "FILE")]
    auth_file: Option<PathBuf>,
    /// Access rights of the nodes that are created: open, creator, or SCHEME:ID:PERMISSIONS,… [env:
    /// `ZKLOCK_ACL`]
    #[arg(long, value_name = "ACL")]
    acl: Option<String>,
    /// Access rights of the parents of lock directories [env: `ZKLOCK_PARENT_ACL`] [default: the
    /// rights in --acl, and all clients may read the parents and create nodes in them]
    #[arg(long, value_name = "ACL")]
    parent_acl: Option<String>,
    /// Encrypt the connection; trust the authorities whose certificates are in this file [env:
    /// `ZKLOCK_TLS_CA`]
    #[arg(long, value_name = "FILE")]
    tls_ca: Option<PathBuf>,
    /// The certificate to present to the servers [env: `ZKLOCK_TLS_CERT`]
    #[arg(long, value_name = "FILE")]
    tls_cert: Option<PathBuf>,
    /// The private key of that certificate [env: `ZKLOCK_TLS_KEY`]
    #[arg(long, value_name = "FILE")]
    tls_key: Option<PathBuf>,
    /// How long to wait for the first reply from any server
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration::parse)]
    connect_timeout: Duration,
}

impl Connection {
    /// Returns the options of a client. The client stops trying to connect after `timeout` at the
    /// latest.
    pub(crate) fn options(&self, timeout: Option<Duration>) -> Result<ClientOptions, Failure> {
        let time = timeout.map_or(self.connect_timeout, |timeout| timeout.min(self.connect_timeout));
        // A command that does not wait for the lock (a timeout of 0) still needs time for a reply.
        let time = if time.is_zero() { self.connect_timeout } else { time };
        let options = ClientOptions::new(self.hosts.as_deref())?.connect_timeout(time)?;
        self.secured()?.apply(options).map_err(|error| self.names_options(error))
    }

    fn secured(&self) -> Result<Secured, Failure> {
        let files = (self.tls_ca.clone(), self.tls_cert.clone(), self.tls_key.clone());
        let given = Secured::new(self.auth_file.clone(), self.acl.clone(), self.parent_acl.clone(), files);
        Ok(given.or_environment(SetByProgram::default())?)
    }

    /// Converts an error of the library to a failure. Adds the names of the command's TLS options,
    /// which the library does not know.
    fn names_options(&self, error: zklock::Error) -> Failure {
        let given = [&self.tls_ca, &self.tls_cert, &self.tls_key].into_iter().any(Option::is_some);
        let of_tls = given && error.argument() == Some("tls");
        let mut failure = Failure::from(error);
        if let Some(message) = failure.message.as_mut().filter(|_| of_tls) {
            message.push_str(" (--tls-ca, --tls-cert, --tls-key)");
        }
        failure
    }

    /// Returns whether an access control list is given.
    pub(crate) fn restricts_access(&self) -> bool {
        self.secured().is_ok_and(|secured| secured.restricts_access())
    }

    /// Returns whether connections are encrypted.
    pub(crate) fn is_encrypted(&self) -> bool {
        self.secured().is_ok_and(|secured| secured.is_encrypted())
    }
}

pub(crate) fn with_session_timeout(
    options: ClientOptions,
    given: Option<Duration>,
) -> Result<ClientOptions, Failure> {
    Ok(match given {
        Some(time) => options.session_timeout(time)?,
        None => options,
    })
}
