//! One ZooKeeper session: how it is created, what is reported about it, how it ends.

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

/// A session, and what the client crate runs to serve it, which ends with this.
pub(crate) struct Session {
    pub(crate) client: zk::Client,
    pub(crate) tasks: Stops,
    /// What the server of its connection has heard.
    pub(crate) heard: LastContact,
}

/// How long closing a session waits for the server's acknowledgement.
pub(crate) const CLOSE_LIMIT: Duration = Duration::from_secs(2);

/// For how long an answer to the question whose the connections are is waited for: ours comes at once.
const PROBE_LIMIT: Duration = Duration::from_secs(1);

/// Why there is no session, and another attempt would not cure it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectRefusal {
    /// The servers do not accept the credentials.
    Credentials,
    /// The connections were to be encrypted, and they are not ours to encrypt.
    StockTransport,
}

/// A search for a session.
pub(crate) struct Search<'a> {
    pub(crate) options: &'a ClientOptions,
    pub(crate) settings: &'a Settings,
    pub(crate) certificates: Option<&'a Certificates>,
    /// The log's record of servers that cannot be used.
    pub(crate) outages: Outages,
}

impl Search<'_> {
    /// Creates a session, on connections that follow the settings of the current task. Tries until it succeeds, so its
    /// caller decides when to stop; fails only with what another attempt would not cure.
    ///
    /// `previous` is a session that was given up on this side only. As long as the server keeps it, its nodes are
    /// in the queues and we would wait behind our own ghost: it is closed first (rule 11). The new one does not begin
    /// before `pause` is over.
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
                // Others need not wait behind the ghost for so long.
                sleep(std::mem::take(&mut pause)).await;
                // The pauses between rounds are ours.
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
                    tracing::debug!(%error, %servers, "no session yet");
                    outages.warn_once(&servers);
                }
                Err(panic) => tracing::error!(%panic, "a bug: connecting panicked; trying again"),
            }
            sleep(backoff.pause()).await;
        }
    }
}

/// Says once in a process that the connections are not ours. Only a session tells.
fn report_transport() {
    static REPORTED: Once = Once::new();
    if !zklock_transport::used() {
        REPORTED.call_once(|| {
            tracing::warn!(
                "this program lacks zklock's two lines in `[patch.crates-io]`: its connections are slower, cannot be \
                encrypted, are not paced, do not work after fork, and are not guarded against servers that lie; the \
                lines are in zklock's README, under Rust"
            );
        });
    }
}

/// Closes a session of which only id and password are left. Succeeds if the server no longer has it.
async fn close_abandoned_session(
    options: &ClientOptions,
    settings: &Settings,
    ghost: zk::Connector,
) -> Result<(), zk::Error> {
    match connect(options, settings, ghost).await {
        Ok(ghost) => {
            let acknowledged = close(ghost, options.session_timeout).await;
            // If not, it may or may not still exist: the next round will know.
            if acknowledged { Ok(()) } else { Err(zk::Error::Timeout) }
        }
        Err(zk::Error::SessionExpired) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Ends what the client crate runs for a session, also if nobody waits for that any more. The crate would connect again,
/// to close the session, and would wait for the answer for ever if the server answers nothing but pings, which keep the
/// session.
pub(crate) struct Stops(Tasks);

impl Deref for Stops {
    type Target = Tasks;

    fn deref(&self) -> &Tasks {
        &self.0
    }
}

impl Drop for Stops {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// Ends a session, and with it all its nodes. Returns whether the server has acknowledged it within `limit`. Nothing
/// is sent on its connection afterwards in any case, nor once this is dropped.
pub(crate) async fn close(session: Session, limit: Duration) -> bool {
    let Session { client, tasks, .. } = session;
    let mut state = client.state_watcher();
    let ended = client.state();
    if ended.is_terminated() {
        return ended != zk::SessionState::Closed;
    }
    // The crate closes the session when its last handle goes.
    drop(client);
    let mut watched = Tasks::clone(&tasks);
    let closed = async {
        loop {
            tokio::select! {
                biased;
                state = state.changed() => if state.is_terminated() { return true },
                // Without it no state will ever change.
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
    let tasks = Stops(tasks);
    Ok(Session { client: client?, tasks, heard: settings.heard() })
}

/// Whether the client crate takes its connections from our transport, which alone would encrypt them: asks it for one,
/// and looks whether the request arrives. The address is the broadcast address, to which no system connects, so that
/// nothing is sent on another transport either.
async fn is_on_our_transport() -> bool {
    let probe = Settings::probe();
    let attempt = zk::Client::connector().with_fail_eagerly().connect("255.255.255.255:1");
    // It fails in any case: our transport makes no connection for a question.
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
