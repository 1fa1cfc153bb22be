//! A client as a binding's class holds it.

use std::ops::Deref;

use crate::any_lock::AnyLock;
use crate::client::Client;
use crate::client_source::ClientSource;
use crate::each_process::EachProcess;
use crate::options::ClientOptions;
use crate::shown::Shown;

/// A client that belongs to the process that created it, or one that every process has for itself. Either way it is
/// used as a [`Client`].
#[derive(Clone, Debug)]
pub enum Connection {
    /// In another process everything fails with [`Forked`](crate::ErrorKind::Forked).
    One(Client),
    /// Connects anew in every process.
    EachProcess(EachProcess),
}

impl Connection {
    /// One for each process. Sends nothing.
    #[must_use]
    pub fn of_each_process(options: ClientOptions) -> Self {
        Self::EachProcess(EachProcess::new(options))
    }

    /// One for this process. Sends nothing.
    #[must_use]
    pub fn one(options: ClientOptions) -> Self {
        Self::One(Client::new(options))
    }

    /// Its connect string, for people to read.
    #[must_use]
    pub fn shown_hosts(&self) -> String {
        Shown(&self.source().hosts().to_string()).to_string()
    }

    /// For locks on it.
    #[must_use]
    pub fn source(&self) -> ClientSource {
        match self {
            Self::One(client) => ClientSource::Client(client.clone()),
            Self::EachProcess(client) => ClientSource::EachProcess(client.clone()),
        }
    }
}

impl Deref for Connection {
    type Target = Client;

    fn deref(&self) -> &Client {
        match self {
            Self::One(client) => client,
            Self::EachProcess(client) => client.here(),
        }
    }
}

/// The connect string of a lock's client, for people to read.
#[must_use]
pub fn shown_hosts(lock: &AnyLock) -> String {
    Shown(&lock.hosts().to_string()).to_string()
}
