//! The end of a client: at once, or when it holds nothing any more.

use std::future::Future;
use std::time::Duration;

use tokio::sync::oneshot;

use crate::client::{Client, locked};
use crate::config::timeout::{Deadline, Timeout};
use crate::driver::mailbox::Mailbox;
use crate::driver::status::ClientState;
use crate::error::Result;

impl Client {
    /// Closes the client: its leases are lost, its waiters fail, its session ends, and with it all its nodes.
    /// Waits until the server has acknowledged it, or for two seconds. Closing again waits for the same end, and does
    /// nothing else.
    ///
    /// Cancel safe: the closing is on its way when this function returns its future.
    ///
    /// # Errors
    /// [`Forked`](crate::ErrorKind::Forked).
    pub fn close(&self) -> impl Future<Output = Result<()>> + Send + 'static {
        closed(self.start_closing(Mailbox::close))
    }

    /// Closes the client as soon as it holds nothing any more, and after `time` at the latest: for a program that ends in
    /// order. Until then its leases stay valid, and their owners may enter again and downgrade. Every other acquire fails
    /// with [`ClientClosed`](crate::ErrorKind::ClientClosed) at once, also one that waits already, and one inside of a
    /// running scope. Waits as [`close`](Self::close) does. Called again, the earlier end counts; a close does not wait.
    ///
    /// ```no_run
    /// # async fn example(client: &zklock::Client) -> zklock::Result<()> {
    /// // On SIGTERM: jobs that run get ten seconds to finish.
    /// client.drain(std::time::Duration::from_secs(10)).await
    /// # }
    /// ```
    ///
    /// Cancel safe: the client is draining when this function returns its future, and closes without it too.
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
            // There was no driver, and there will be none.
            self.mailbox().status.set(ClientState::Closed);
            return Ok(None);
        }
        Ok(tell(self.mailbox()))
    }
}

/// Waits until a driver has closed, if there is one.
async fn closed(closing: Result<Option<oneshot::Receiver<()>>>) -> Result<()> {
    if let Some(closed) = closing? {
        closed.await.ok();
    }
    Ok(())
}
