//! Closing a client, immediately or once it holds no lock.

use std::future::Future;
use std::time::Duration;

use tokio::sync::oneshot;

use crate::client::{Client, locked};
use crate::config::timeout::{Deadline, Timeout};
use crate::driver::mailbox::Mailbox;
use crate::driver::status::ClientState;
use crate::error::Result;

impl Client {
    /// Closes the client: its leases are lost, its waiters fail, and its session is closed, which
    /// deletes all its nodes. Waits for the server's acknowledgement, at most two seconds. A second
    /// call waits for the same acknowledgement.
    ///
    /// Cancel safe: the client is already closing when this function returns its future.
    ///
    /// # Errors
    /// [`Forked`](crate::ErrorKind::Forked).
    pub fn close(&self) -> impl Future<Output = Result<()>> + Send + 'static {
        closed(self.start_closing(Mailbox::close))
    }

    /// Closes the client once it holds no lock, and after `time` at the latest. Use it for an
    /// orderly exit.
    ///
    /// Until the client closes, its leases stay valid, and their owners can re-enter and downgrade.
    /// Every other acquire fails immediately with [`ClientClosed`](crate::ErrorKind::ClientClosed).
    /// This includes acquires that already wait, and acquires inside a running scope. The returned
    /// future waits for the server's acknowledgement, like the future of [`close`](Self::close). If
    /// `drain` is called again, the earlier deadline counts. A call to [`close`](Self::close)
    /// closes the client immediately.
    ///
    /// ```no_run
    /// # async fn example(client: &zklock::Client) -> zklock::Result<()> {
    /// // On SIGTERM: running jobs get ten seconds to finish.
    /// client.drain(std::time::Duration::from_secs(10)).await
    /// # }
    /// ```
    ///
    /// Cancel safe: the client is already draining when this function returns its future. It also
    /// closes if the future is dropped.
    ///
    /// # Errors
    /// [`Forked`](crate::ErrorKind::Forked).
    pub fn drain(&self, time: Duration) -> impl Future<Output = Result<()>> + Send + 'static {
        let until = Deadline::after(Timeout::For(time));
        closed(self.start_closing(|mailbox| mailbox.drain(until)))
    }

    fn start_closing(
        &self,
        tell: impl FnOnce(&Mailbox) -> Option<oneshot::Receiver<()>>,
    ) -> Result<Option<oneshot::Receiver<()>>> {
        self.mailbox().origin.check()?;
        if locked(&self.0.parked).take().is_some() {
            // The background task of the client (the driver) was never started, and no later
            // command will start it.
            self.mailbox().status.set(ClientState::Closed);
            return Ok(None);
        }
        Ok(tell(self.mailbox()))
    }
}

/// Waits until the client's background task (the driver) has closed the client. Returns immediately
/// if the driver was never started.
async fn closed(closing: Result<Option<oneshot::Receiver<()>>>) -> Result<()> {
    if let Some(closed) = closing? {
        closed.await.ok();
    }
    Ok(())
}
