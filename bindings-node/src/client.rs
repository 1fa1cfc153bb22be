//! Clients.

use std::sync::Arc;
use std::time::Duration;

use napi::bindgen_prelude::{BigInt, Uint8Array};
use napi_derive::napi;
use zklock::{Acl, Client, ClientOptions, Tls, duration};

use crate::bridge::Bridge;
use crate::error::{Result, bad_argument};
use crate::state::NativeStates;
use crate::stats::NativeStats;

/// The unit of all times in JavaScript.
pub const MILLISECOND: Duration = Duration::from_millis(1);

/// A connected client.
#[napi]
pub struct NativeClient {
    pub(crate) client: Arc<Client>,
}

/// What is shown to the servers.
#[napi(object)]
pub struct NativeCredential {
    pub scheme: String,
    pub credential: Uint8Array,
}

/// A user and password for SASL.
#[napi(object)]
pub struct NativeLogin {
    pub user: String,
    pub password: String,
}

/// Encryption, in PEM.
#[napi(object)]
pub struct NativeTls {
    pub ca: String,
    pub cert: Option<String>,
    pub key: Option<String>,
}

/// Who we are to the servers, and who may touch what we make.
#[napi(object)]
pub struct NativeIdentity {
    pub auth: Vec<NativeCredential>,
    pub acl: Option<String>,
    pub sasl: Option<NativeLogin>,
    pub tls: Option<NativeTls>,
}

fn identify(mut options: ClientOptions, identity: NativeIdentity) -> zklock::Result<ClientOptions> {
    for NativeCredential { scheme, credential } in identity.auth {
        options = options.auth(&scheme, credential.to_vec())?;
    }
    if let Some(acl) = identity.acl {
        options = options.acl(Acl::parse(&acl)?);
    }
    if let Some(NativeLogin { user, password }) = identity.sasl {
        options = options.sasl(&user, &password);
    }
    if let Some(NativeTls { ca, cert, key }) = identity.tls {
        let tls = Tls::new(&ca)?;
        options = options.tls(match (cert, key) {
            (None, None) => tls,
            (cert, key) => tls.identity(&cert.unwrap_or_default(), &key.unwrap_or_default())?,
        });
    }
    Ok(options)
}

/// Starts to connect; ends with a client. Given up, it leaves no client behind.
///
/// # Errors
/// `BAD_ARGUMENT`.
#[napi]
pub fn connect(
    bridge: &Bridge,
    hosts: Option<String>,
    session_timeout: Option<f64>,
    connect_timeout: Option<f64>,
    label: Option<String>,
    identity: NativeIdentity,
) -> Result<i64> {
    let mut options = ClientOptions::new(hosts.as_deref())?.language("node");
    if let Some(timeout) = session_timeout {
        options = in_range("sessionTimeout", timeout, |timeout| options.session_timeout(timeout))?;
    }
    if let Some(timeout) = connect_timeout {
        options = in_range("connectTimeout", timeout, |timeout| options.connect_timeout(timeout))?;
    }
    options = identify(options, identity)?;
    let client = Arc::new(Client::new(options.label(label)));
    bridge.close_at_end(&client);
    bridge.start(async move {
        client.ready().await?;
        Ok(NativeClient { client })
    })
}

/// Sets a time-out, under the name that the argument has in JavaScript.
fn in_range(
    argument: &str,
    value: f64,
    set: impl FnOnce(Duration) -> zklock::Result<ClientOptions>,
) -> Result<ClientOptions> {
    let timeout = duration(argument, value, MILLISECOND)?;
    set(timeout).map_err(|error| {
        let message = error.to_string();
        bad_argument(argument, message.split_once(": ").map_or(&*message, |(_, problem)| problem))
    })
}

#[napi]
impl NativeClient {
    #[napi(getter)]
    pub fn state(&self) -> &'static str {
        self.client.state().as_str()
    }

    #[napi(getter)]
    pub fn session_id(&self) -> BigInt {
        BigInt::from(self.client.session_id())
    }

    /// The changes of the state from now on.
    #[napi]
    pub fn states(&self) -> NativeStates {
        NativeStates::new(self.client.states())
    }

    #[napi]
    pub fn stats(&self) -> NativeStats {
        self.client.stats().into()
    }

    /// Starts to ask a contender to give its lock up.
    ///
    /// # Errors
    /// `CONNECTION_FAILED` if there is no thread to do it on.
    #[napi]
    pub fn revoke(&self, bridge: &Bridge, node: String) -> Result<i64> {
        let client = Client::clone(&self.client);
        bridge.start(async move { client.revoke(&node).await })
    }

    /// Starts to delete a contender's node.
    ///
    /// # Errors
    /// `CONNECTION_FAILED` if there is no thread to do it on.
    #[napi]
    pub fn break_lock(&self, bridge: &Bridge, node: String) -> Result<i64> {
        let client = Client::clone(&self.client);
        bridge.start(async move { client.break_lock(&node).await })
    }

    /// Starts to close the client.
    ///
    /// # Errors
    /// `CONNECTION_FAILED` if there is no thread to do it on.
    #[napi]
    pub fn close(&self, bridge: &Bridge) -> Result<i64> {
        bridge.start(self.client.close())
    }
}

/// Closes every client of the process, and waits for up to `limit` milliseconds.
///
/// # Errors
/// `BAD_ARGUMENT`.
#[napi]
pub fn shutdown(limit: f64) -> Result<()> {
    zklock::shutdown(duration("limit", limit, MILLISECOND)?);
    Ok(())
}
