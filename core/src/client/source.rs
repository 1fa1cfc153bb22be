//! [`ClientSource`]: the ways in which a lock gets its client.

use std::sync::Arc;

use crate::client::Client;
use crate::client::per_process::PerProcessClient;
use crate::config::ClientOptions;
use crate::config::hosts::Hosts;

/// The client that a lock uses.
///
/// ```no_run
/// # async fn example() -> zklock::Result<()> {
/// use zklock::{Client, ClientOptions, ClientSource, Mutex};
///
/// // A lock on an existing client:
/// let client = Client::connect("127.0.0.1:2181").await?;
/// let lock = Mutex::new(&client, "/locks/report")?;
/// // A lock on the process's shared client with these options:
/// let options = ClientOptions::new(Some("127.0.0.1:2181"))?;
/// let lock = Mutex::new(ClientSource::from(options), "/locks/report")?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub enum ClientSource {
    /// An existing client.
    Client(Client),
    /// The process's shared client with these options. It is created when it is first needed.
    Shared(Arc<ClientOptions>),
    /// A handle that gives each process its own client. Used by bindings.
    #[doc(hidden)]
    EachProcess(PerProcessClient),
}

impl From<&Client> for ClientSource {
    fn from(client: &Client) -> Self {
        Self::Client(client.clone())
    }
}

impl From<Client> for ClientSource {
    fn from(client: Client) -> Self {
        Self::Client(client)
    }
}

impl From<ClientOptions> for ClientSource {
    fn from(options: ClientOptions) -> Self {
        Self::Shared(Arc::new(options))
    }
}

impl ClientSource {
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Client(one), Self::Client(other)) => one.is_same(other),
            (Self::Shared(one), Self::Shared(other)) => one == other,
            (Self::EachProcess(one), Self::EachProcess(other)) => one.is_same(other),
            _ => false,
        }
    }

    pub(crate) fn hosts(&self) -> &Hosts {
        &self.options().hosts
    }

    pub(crate) fn options(&self) -> &ClientOptions {
        match self {
            Self::Client(client) => client.options(),
            Self::Shared(options) => options,
            Self::EachProcess(client) => client.options(),
        }
    }
}
