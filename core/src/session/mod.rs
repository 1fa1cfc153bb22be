//! One ZooKeeper session: how it is created, observed and closed.

pub(crate) mod certificates;
#[cfg(zklock_stand_ins)]
mod one_transport;
pub(crate) mod outage_log;
pub mod reply;
pub(crate) mod term;
pub(crate) mod watch_budget;

use std::ops::Deref;
use std::sync::Once;
use std::time::Duration;

use tokio::time::{sleep, timeout};
use zklock_transport::{LastContact, Settings};
use zookeeper_client as zk;

use self::certificates::Certificates;
use self::outage_log::Outages;
use crate::config::ClientOptions;
use crate::error::server_report::{ServerReport, Servers};
use crate::runtime::backoff::Backoff;
use crate::runtime::supervise::{Tasks, caught, supervised};

/// A session, and the client crate's tasks that serve it. The tasks stop when this value is
/// dropped.
pub(crate) struct Session {
    pub(crate) client: zk::Client,
    pub(crate) tasks: SessionTasks,
    /// Times at which the current server received requests from the client.
    pub(crate) heard: LastContact,
}

/// Time limit for the server's acknowledgement when a session is closed.
pub(crate) const CLOSE_LIMIT: Duration = Duration::from_secs(2);

/// Time limit for the check that the client crate uses our transport. Our transport answers
/// immediately.
const PROBE_LIMIT: Duration = Duration::from_secs(1);

/// The reason why a session cannot be created, if a retry would not help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectRefusal {
    /// The servers reject the credentials.
    Credentials,
    /// Connections must be encrypted, but the client crate does not use our transport.
    StockTransport,
}

/// An attempt to create a session, with retries.
pub(crate) struct Search<'a> {
    pub(crate) options: &'a ClientOptions,
    pub(crate) settings: &'a Settings,
    pub(crate) certificates: Option<&'a Certificates>,
    /// The record of outages that were already logged.
    pub(crate) outages: Outages,
}

impl Search<'_> {
    /// Creates a session whose connections follow the settings of the current task.
    ///
    /// Retries until it succeeds, so the caller decides when to stop. Fails only if a retry would
    /// not help.
    ///
    /// `previous` is a session that this client has given up but that the server might still keep.
    /// As long as `previous` exists, its nodes are in the queues, and the client's new contenders
    /// would wait behind them. So it is closed first (rule 11). The first attempt to create the new
    /// session starts after `pause`.
    pub(crate) async fn establish(
        self,
        mut previous: Option<zk::SessionInfo>,
        mut pause: Duration,
    ) -> Result<Session, ConnectRefusal> {
        let Self { options, settings, certificates, outages } = self;
        if certificates.is_some() && !is_on_our_transport().await {
            return Err(ConnectRefusal::StockTransport);
        }
        let mut backoff = Backoff::default();
        loop {
            let attempt = async {
                if let Some(certificates) = certificates {
                    certificates.renew().await;
                }
                if let Some(session) = &previous {
                    let ghost = connector(options).with_session(session.clone());
                    close_abandoned_session(options, settings, ghost).await?;
                    previous = None;
                }
                // Pause only after the old session is closed, so that other clients do not wait
                // behind the old session's nodes during the pause.
                sleep(std::mem::take(&mut pause)).await;
                // This call tries each server once. The loop pauses between two calls.
                connect(options, settings, connector(options)).await
            };
            match caught(Box::pin(attempt)).await {
                Ok(Ok(session)) => {
                    report_transport();
                    return Ok(session);
                }
                Ok(Err(zk::Error::AuthFailed)) => return Err(ConnectRefusal::Credentials),
                Ok(Err(error)) => {
                    let servers = ServerReport::all(&options.hosts.servers, &settings.entries());
                    let servers = Servers::from(servers).to_string();
                    tracing::debug!(%error, %servers, "cannot establish a session yet");
                    outages.warn_once(&servers);
                }
                Err(panic) => tracing::error!(%panic, "BUG: connecting panicked; trying again"),
            }
            sleep(backoff.pause()).await;
        }
    }
}

/// Logs, once per process, that the client crate does not use our transport. Called after a session
/// was created, because only a connection shows this.
fn report_transport() {
    static REPORTED: Once = Once::new();
    if !zklock_transport::used() {
        REPORTED.call_once(|| {
            tracing::warn!(
                "this program is built without zklock's two `[patch.crates-io]` lines: its connections are slower, \
                 cannot be encrypted, are not throttled, do not work after fork, and are not protected against \
                 false replies; add the lines from zklock's README, section Rust"
            );
        });
    }
}

/// Closes a session by its id and password. Succeeds if the server no longer has the session.
async fn close_abandoned_session(
    options: &ClientOptions,
    settings: &Settings,
    ghost: zk::Connector,
) -> Result<(), zk::Error> {
    match connect(options, settings, ghost).await {
        Ok(ghost) => {
            let acknowledged = close(ghost, options.session_timeout).await;
            // Without an acknowledgement, the session might still exist. The next iteration of the
            // loop tries to close it again.
            if acknowledged { Ok(()) } else { Err(zk::Error::Timeout) }
        }
        Err(zk::Error::SessionExpired) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Stops the client crate's tasks for a session when dropped, even if no caller waits for them.
///
/// Without this, the crate would connect again to close the session. If the server then replied
/// only to pings, the crate would wait forever for the reply to the close, and its pings would keep
/// the session alive.
pub(crate) struct SessionTasks(Tasks);

impl Deref for SessionTasks {
    type Target = Tasks;

    fn deref(&self) -> &Tasks {
        &self.0
    }
}

impl Drop for SessionTasks {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// Closes a session, which deletes all its nodes. Returns `true` if the server acknowledges it
/// within `limit`.
///
/// After this function returns or its future is dropped, nothing more is sent on the connection.
pub(crate) async fn close(session: Session, limit: Duration) -> bool {
    let Session { client, tasks, .. } = session;
    let mut state = client.state_watcher();
    let ended = client.state();
    if ended.is_terminated() {
        return ended != zk::SessionState::Closed;
    }
    // The crate closes the session when the last handle of its client is dropped.
    drop(client);
    let mut watched = Tasks::clone(&tasks);
    let closed = async {
        loop {
            tokio::select! {
                biased;
                state = state.changed() => if state.is_terminated() { return true },
                // If the task has stopped, the state never changes.
                () = watched.ended() => return false,
            }
        }
    };
    timeout(limit, closed).await.unwrap_or(false)
}

/// Tries every server once.
async fn connect(
    options: &ClientOptions,
    settings: &Settings,
    connector: zk::Connector,
) -> Result<Session, zk::Error> {
    let settings = settings.for_another_session();
    let connected = supervised(connector.with_fail_eagerly().connect(&options.hosts.servers));
    let (client, tasks) = settings.scope(connected).await;
    let tasks = SessionTasks(tasks);
    Ok(Session { client: client?, tasks, heard: settings.heard() })
}

/// Returns `true` if the client crate gets its connections from our transport. Only our transport
/// encrypts them.
///
/// To find out, it requests a connection from the client crate and checks whether our transport
/// receives the request. The connection is to the broadcast address. No system connects to that
/// address, so nothing is sent even if another transport receives the request.
async fn is_on_our_transport() -> bool {
    let probe = Settings::probe();
    let attempt = zk::Client::connector().with_fail_eagerly().connect("255.255.255.255:1");
    // The attempt always fails, because our transport never connects for a probe.
    timeout(PROBE_LIMIT, probe.scope(attempt)).await.ok();
    probe.followed()
}

fn connector(options: &ClientOptions) -> zk::Connector {
    let mut connector = zk::Client::connector().with_session_timeout(options.session_timeout);
    for credential in &options.credentials {
        connector = connector.with_auth(&credential.scheme, &credential.secret);
    }
    if let Some(login) = &options.login {
        connector =
            connector.with_sasl(zk::SaslOptions::digest_md5(login.user.clone(), login.password.to_string()));
    }
    connector
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_question_whose_the_connections_are_reaches_our_transport() {
        assert!(is_on_our_transport().await);
    }
}
