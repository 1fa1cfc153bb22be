//! Clients.

use std::sync::Arc;
use std::time::Duration;

use napi::bindgen_prelude::{BigInt, Uint8Array};
use napi_derive::napi;
use zklock::{Acl, Client, ClientOptions, Tls, duration};

use crate::bridge::Bridge;
use crate::error::Result;
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

/// How to connect; what is not given has its default.
#[napi(object, object_to_js = false)]
pub struct NativeConnectOptions {
    pub session_timeout: Option<f64>,
    pub connect_timeout: Option<f64>,
    pub label: Option<String>,
    pub auth: Vec<NativeCredential>,
    pub acl: Option<String>,
    pub sasl: Option<NativeLogin>,
    pub tls: Option<NativeTls>,
}

impl NativeConnectOptions {
    fn apply(self, options: ClientOptions) -> zklock::Result<ClientOptions> {
        let mut options = options.language("node").label(self.label);
        if let Some(timeout) = self.session_timeout {
            options = in_range("sessionTimeout", timeout, |timeout| options.session_timeout(timeout))?;
        }
        if let Some(timeout) = self.connect_timeout {
            options = in_range("connectTimeout", timeout, |timeout| options.connect_timeout(timeout))?;
        }
        for NativeCredential { scheme, credential } in self.auth {
            options = options.auth(&scheme, credential.to_vec())?;
        }
        if let Some(acl) = self.acl {
            options = options.acl(Acl::parse(&acl)?);
        }
        if let Some(NativeLogin { user, password }) = self.sasl {
            options = options.sasl(&user, &password);
        }
        if let Some(NativeTls { ca, cert, key }) = self.tls {
            let tls = Tls::new(&ca)?;
            options = options.tls(match (cert, key) {
                (None, None) => tls,
                (cert, key) => tls.identity(&cert.unwrap_or_default(), &key.unwrap_or_default())?,
            });
        }
        Ok(options)
    }
}

/// Starts to connect; ends with a client. Given up, it leaves no client behind.
///
/// # Errors
/// `BAD_ARGUMENT`.
#[napi]
pub fn connect(bridge: &Bridge, hosts: Option<String>, options: NativeConnectOptions) -> Result<i64> {
    let client = Arc::new(Client::new(options.apply(ClientOptions::new(hosts.as_deref())?)?));
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
) -> zklock::Result<ClientOptions> {
    set(duration(argument, value, MILLISECOND)?).map_err(|error| error.with_argument(argument))
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
