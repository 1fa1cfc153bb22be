//! Converts arguments of commands to the library's types.

use std::path::Path;
use std::time::Duration;

use zklock::internal::{Language, Spelling};
use zklock::{Acl, ClientOptions, Error, Tls, Transaction};

use crate::answers::Failure;
use crate::command::{self, Identity, Operation, Options};

pub(crate) const RUST: Language =
    Language { name: "rust", unit: Duration::from_secs(1), spelling: Spelling::Snake };

/// Returns the options of a client on these hosts.
pub(crate) fn options(hosts: Option<&str>, given: Options) -> Result<ClientOptions, Failure> {
    let Options { session_timeout, connect_timeout, max_frame, tls, environment, identity } = given;
    let new = if environment { ClientOptions::from_env } else { ClientOptions::new };
    let mut options = identified(new(hosts)?, identity)?;
    if let Some(bytes) = max_frame {
        options = options.max_frame(bytes)?;
    }
    if let Some(files) = tls {
        options = options.tls(encryption(&files)?);
    }
    if let Some(time) = session_timeout {
        options = options.session_timeout(RUST.duration("session_timeout", time)?)?;
    }
    if let Some(time) = connect_timeout {
        options = options.connect_timeout(RUST.duration("connect_timeout", time)?)?;
    }
    Ok(options)
}

/// Adds credentials, access control lists and labels to the options.
fn identified(mut options: ClientOptions, identity: Identity) -> Result<ClientOptions, Error> {
    for (scheme, credential) in identity.auth {
        options = options.auth(&scheme, credential)?;
    }
    if let Some(acl) = identity.acl {
        options = options.acl(Acl::parse(&acl)?);
    }
    if let Some(acl) = identity.parent_acl {
        let acl = Acl::parse(&acl).map_err(|error| error.with_argument("parent_acl"))?;
        options = options.parent_acl(acl);
    }
    if let Some((user, password)) = identity.sasl {
        options = options.sasl(&user, &password)?;
    }
    Ok(options.label(identity.label)?.identify(identity.identify.unwrap_or(true)))
}

/// Reads the TLS settings from files.
fn encryption(files: &command::Tls) -> Result<Tls, Failure> {
    let read = |file: &Path| std::fs::read_to_string(file);
    let tls = Tls::new(&read(&files.ca)?)?;
    match (&files.cert, &files.key) {
        (Some(certificate), Some(key)) => Ok(tls.identity(&read(certificate)?, &read(key)?)?),
        _ => Ok(tls),
    }
}

/// Adds one operation to a transaction.
pub(crate) fn with(transaction: Transaction, operation: Operation) -> Transaction {
    match operation {
        Operation::Create { path, data } => transaction.create(&path, data.as_bytes()),
        Operation::SetData { path, data, version } => transaction.set_data(&path, data.as_bytes(), version),
        Operation::Delete { path, version } => transaction.delete(&path, version),
        Operation::Check { path, version } => transaction.check(&path, version),
    }
}
