//! The TLS certificates for a client's connections. The files can be replaced while the client
//! runs.

use std::time::Duration;

use tokio::task::spawn_blocking;
use tokio::time::sleep;
use zklock_transport::Settings;

use crate::config::tls::Tls;

/// Interval at which the files are read while the client searches for a server.
const INTERVAL: Duration = Duration::from_millis(500);

/// The certificates for the next connection. All clones share them.
#[derive(Clone)]
pub(crate) struct Certificates {
    tls: Tls,
    settings: Settings,
}

impl Certificates {
    /// Uses the certificates that the options contain. From now on, connections with these settings
    /// are encrypted.
    pub(crate) fn new(tls: &Tls, settings: &Settings) -> Self {
        settings.encrypt(tls.encryption().clone());
        Self { tls: tls.clone(), settings: settings.clone() }
    }

    /// Returns `true` if the certificates come from files.
    pub(crate) fn can_change(&self) -> bool {
        self.tls.is_from_files()
    }

    /// Reads the files again.
    ///
    /// The read runs on a separate thread, because the files can be on slow remote storage and the
    /// runtime's thread must send heartbeats. If the files contain nothing usable, the previous
    /// certificates stay in use.
    pub(crate) async fn renew(&self) {
        if !self.can_change() {
            return;
        }
        let tls = self.tls.clone();
        match spawn_blocking(move || tls.reread()).await {
            Ok(Ok(Some(tls))) => self.settings.encrypt(tls.encryption().clone()),
            Ok(Err(problem)) => tracing::warn!(%problem, "the certificates cannot be read again"),
            Ok(Ok(None)) | Err(_) => {}
        }
    }

    /// Reads the files again at intervals, while the client crate searches for a server.
    pub(crate) async fn keep_renewing(self) {
        loop {
            self.renew().await;
            sleep(INTERVAL).await;
        }
    }
}
