//! The certificates of a client's connections, as they are now: a file may be replaced while the client runs.

use std::time::Duration;

use tokio::task::spawn_blocking;
use tokio::time::sleep;
use zklock_transport::Settings;

use crate::config::tls::Tls;

/// How often files are read while the client looks for a server.
const INTERVAL: Duration = Duration::from_millis(500);

/// The certificates that the next connection uses. Clones share them.
#[derive(Clone)]
pub(crate) struct Certificates {
    tls: Tls,
    settings: Settings,
}

impl Certificates {
    /// Those with which the options were made, to begin with: from now on connections with these settings are
    /// encrypted.
    pub(crate) fn new(tls: &Tls, settings: &Settings) -> Self {
        settings.encrypt(tls.encryption().clone());
        Self { tls: tls.clone(), settings: settings.clone() }
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
        match spawn_blocking(move || tls.reread()).await {
            Ok(Ok(Some(tls))) => self.settings.encrypt(tls.encryption().clone()),
            Ok(Err(problem)) => tracing::warn!(%problem, "the certificates cannot be read anew"),
            Ok(Ok(None)) | Err(_) => {}
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
