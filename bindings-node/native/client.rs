//! Exports clients to JavaScript.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use napi::bindgen_prelude::{BigInt, Uint8Array};
use napi_derive::napi;
use zklock::internal::{Identity, TlsParts};
use zklock::{Client, ClientOptions};

use crate::bridge::Bridge;
use crate::error::{NODE, Result};
use crate::health::NativeHealth;
use crate::state::NativeStates;
use crate::stats::NativeStats;

/// A client.
#[napi]
pub struct NativeClient {
    pub(crate) client: Arc<Client>,
}

/// Options of a client. Missing options have their defaults.
#[napi(object, object_to_js = false)]
pub struct NativeConnectOptions {
    pub session_timeout: Option<f64>,
    pub connect_timeout: Option<f64>,
    pub max_frame: Option<f64>,
    pub label: Option<String>,
    /// Pairs of scheme and credential.
    pub auth: Option<Vec<(String, Uint8Array)>>,
    pub auth_file: Option<String>,
    pub acl: Option<String>,
    pub parent_acl: Option<String>,
    /// User and password.
    pub sasl: Option<(String, String)>,
    /// CA certificates, client certificate and private key, in PEM.
    pub tls: Option<(String, Option<String>, Option<String>)>,
    pub identify: Option<bool>,
}

impl NativeConnectOptions {
    fn check(self, hosts: Option<&str>) -> zklock::Result<ClientOptions> {
        let Self {
            session_timeout,
            connect_timeout,
            max_frame,
            label,
            auth,
            auth_file,
            acl,
            parent_acl,
            sasl,
            tls,
            identify,
        } = self;
        let bytes = |(scheme, credential): (String, Uint8Array)| (scheme, credential.to_vec());
        let auth = auth.map(|auth| auth.into_iter().map(bytes).collect());
        let auth_file = auth_file.map(PathBuf::from);
        let tls = tls.map(|(ca, cert, key)| TlsParts::new(ca, cert, key)?.tls()).transpose()?;
        let who = Identity { auth, auth_file, acl, parent_acl, sasl, tls, identify };
        NODE.client_options(hosts, session_timeout, connect_timeout, label, max_frame, who)
    }
}

#[napi]
impl NativeClient {
    /// Creates a client that connects when it is first used. Sends nothing.
    ///
    /// # Errors
    /// `BAD_ARGUMENT`.
    #[napi(constructor)]
    pub fn new(bridge: &Bridge, hosts: Option<String>, options: NativeConnectOptions) -> Result<Self> {
        let client = Arc::new(Client::new(options.check(hosts.as_deref())?));
        bridge.close_at_end(&client);
        Ok(Self { client })
    }

    /// Starts an operation that waits for a session. An idle client connects first. The operation
    /// yields no value.
    ///
    /// # Errors
    /// `CONNECTION_FAILED` if the library's thread cannot be started.
    #[napi]
    pub fn ready(&self, bridge: &Bridge) -> Result<i64> {
        let client = Client::clone(&self.client);
        bridge.start(async move { client.ready().await })
    }

    #[napi(getter)]
    pub fn state(&self) -> &'static str {
        self.client.state().as_str()
    }

    #[napi(getter)]
    pub fn session_id(&self) -> BigInt {
        BigInt::from(self.client.session_id())
    }

    /// The session timeout in milliseconds.
    #[napi(getter)]
    pub fn session_timeout(&self) -> f64 {
        self.client.session_timeout().as_secs_f64() * 1000.0
    }

    #[napi(getter)]
    pub fn hosts(&self) -> String {
        self.client.hosts()
    }

    /// Returns the stream of state changes from now on.
    #[napi]
    pub fn states(&self) -> NativeStates {
        NativeStates::new(self.client.states())
    }

    #[napi]
    pub fn stats(&self) -> NativeStats {
        self.client.stats().into()
    }

    #[napi]
    pub fn health(&self) -> NativeHealth {
        self.client.health().into()
    }

    /// Starts an operation that asks a contender to give up its lock.
    ///
    /// # Errors
    /// `CONNECTION_FAILED` if the library's thread cannot be started.
    #[napi]
    pub fn revoke(&self, bridge: &Bridge, node: String) -> Result<i64> {
        let client = Client::clone(&self.client);
        bridge.start(async move { client.revoke(&node).await })
    }

    /// Starts an operation that deletes a contender's node.
    ///
    /// # Errors
    /// `CONNECTION_FAILED` if the library's thread cannot be started.
    #[napi]
    pub fn break_lock(&self, bridge: &Bridge, node: String) -> Result<i64> {
        let client = Client::clone(&self.client);
        bridge.start(async move { client.break_lock(&node).await })
    }

    /// Starts an operation that closes the client. With `drain`, the operation first waits until
    /// the client holds no locks, for at most `drain` milliseconds.
    ///
    /// # Errors
    /// `BAD_ARGUMENT`.
    #[napi]
    pub fn close(&self, bridge: &Bridge, drain: Option<f64>) -> Result<i64> {
        match drain.map(|time| NODE.duration("drain", time)).transpose()? {
            None | Some(Duration::ZERO) => bridge.start(self.client.close()),
            Some(time) => bridge.start(self.client.drain(time)),
        }
    }
}

/// Closes every client of the process, and waits for up to `limit` milliseconds.
///
/// # Errors
/// `BAD_ARGUMENT`.
#[napi]
pub fn shutdown(limit: f64) -> Result<()> {
    zklock::shutdown(NODE.duration("limit", limit)?);
    Ok(())
}
