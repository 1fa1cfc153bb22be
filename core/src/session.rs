//! One ZooKeeper session: how it is created, what is reported about it, how it ends.

use std::time::Duration;

use tokio::time::{sleep, timeout};
use zookeeper_client as zk;

use crate::backoff::Backoff;
use crate::certificates::Certificates;
use crate::options::ClientOptions;

/// Creates a session. Tries until it succeeds, so its caller decides when to stop; fails only with
/// [`AuthFailed`](zk::Error::AuthFailed), which another attempt would not cure.
///
/// `previous` is a session that was given up on this side only. As long as the server keeps it, its nodes are
/// in the queues and we would wait behind our own ghost: it is closed first (rule 11).
pub(crate) async fn establish(
    options: &ClientOptions,
    certificates: Option<&Certificates>,
    mut previous: Option<zk::SessionInfo>,
) -> Result<zk::Client, zk::Error> {
    let mut backoff = Backoff::default();
    loop {
        if let Some(certificates) = certificates {
            certificates.renew().await;
        }
        let attempt = async {
            if let Some(session) = &previous {
                bury(options, connector(options, certificates).with_session(session.clone())).await?;
                previous = None;
            }
            // The pauses between rounds are ours.
            connect(options, connector(options, certificates)).await
        };
        match attempt.await {
            Ok(client) => return Ok(client),
            Err(error @ zk::Error::AuthFailed) => return Err(error),
            Err(error) => tracing::debug!(%error, "no session yet"),
        }
        sleep(backoff.pause()).await;
    }
}

/// Closes a session of which only id and password are left. Succeeds if the server no longer has it.
async fn bury(options: &ClientOptions, ghost: zk::Connector) -> Result<(), zk::Error> {
    match connect(options, ghost).await {
        Ok(ghost) => {
            let acknowledged = close(ghost, options.session_timeout).await;
            // If not, it may or may not still exist: the next round will know.
            if acknowledged { Ok(()) } else { Err(zk::Error::Timeout) }
        }
        Err(zk::Error::SessionExpired) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Ends a session, and with it all its nodes. Returns whether the server has acknowledged it within `limit`.
pub(crate) async fn close(client: zk::Client, limit: Duration) -> bool {
    let mut state = client.state_watcher();
    let ended = client.state();
    if ended.is_terminated() {
        return ended != zk::SessionState::Closed;
    }
    // The crate closes the session when its last handle goes.
    drop(client);
    let closed = async { while !state.changed().await.is_terminated() {} };
    timeout(limit, closed).await.is_ok()
}

/// Tries every server once.
async fn connect(options: &ClientOptions, connector: zk::Connector) -> Result<zk::Client, zk::Error> {
    let connector = connector.with_fail_eagerly();
    match options.tls {
        Some(_) => connector.secure_connect(&options.hosts.servers).await,
        None => connector.connect(&options.hosts.servers).await,
    }
}

fn connector(options: &ClientOptions, certificates: Option<&Certificates>) -> zk::Connector {
    let mut connector = zk::Client::connector().with_session_timeout(options.session_timeout);
    for credential in &options.credentials {
        connector = connector.with_auth(&credential.scheme, &credential.secret);
    }
    if let Some(login) = &options.login {
        connector =
            connector.with_sasl(zk::SaslOptions::digest_md5(login.user.clone(), login.password.clone()));
    }
    if let Some(certificates) = certificates {
        connector = connector.with_tls(certificates.to_options());
    }
    connector
}
