//! The certificates of a client's connections, as they are now: a file may be replaced while the client runs.

use std::time::Duration;

use tokio::task::spawn_blocking;
use tokio::time::sleep;
use zookeeper_client as zk;

use crate::access::Tls;

/// How often files are read while the client looks for a server.
const INTERVAL: Duration = Duration::from_millis(500);

/// The certificates that the next connection uses. Clones share them.
#[derive(Clone)]
pub(crate) struct Certificates {
    tls: Tls,
    current: zk::TlsDynamicCerts,
}

impl Certificates {
    /// Those with which the options were made, to begin with. They have been parsed once before, so this does not fail.
    pub(crate) fn new(tls: &Tls) -> Result<Self, zk::Error> {
        Ok(Self { tls: tls.clone(), current: zk::TlsDynamicCerts::new(tls.to_certs()?) })
    }

    /// The options of the client crate, which looks at each connection whether there are newer certificates.
    pub(crate) fn to_options(&self) -> zk::TlsOptions {
        zk::TlsOptions::new().with_certs(self.current.clone())
    }

    /// Whether they come from files.
    pub(crate) fn can_change(&self) -> bool {
        self.tls.is_from_files()
    }

    /// Reads the files anew, on a thread of its own: a file may be far away, and the runtime's thread has heartbeats to
    /// send. As long as they hold nothing usable, what they held before goes on to be used.
    pub(crate) async fn renew(&self) {
        if !self.can_change() {
            return;
        }
        let tls = self.tls.clone();
        let renewed = spawn_blocking(move || {
            let renewed = tls.reread().transpose()?;
            Some(renewed.and_then(|tls| tls.to_certs().map_err(|error| error.to_string())))
        });
        match renewed.await {
            Ok(Some(Ok(certs))) => self.current.update(certs),
            Ok(Some(Err(problem))) => tracing::warn!(%problem, "the certificates cannot be read anew"),
            Ok(None) | Err(_) => {}
        }
    }

    /// Goes on doing that, while the client crate looks for a server.
    pub(crate) async fn keep_renewing(self) {
        loop {
            self.renew().await;
            sleep(INTERVAL).await;
        }
    }
}
