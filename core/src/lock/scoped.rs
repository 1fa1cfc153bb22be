//! A scope that holds a lock: it ends with its body, or with the lock.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use crate::config::timeout::Timeout;
use crate::error::{Error, ErrorKind, Result};
use crate::lease::Lease;
use crate::lease::lease_set::Leases;
use crate::lease::owner::Owner;
use crate::lock::Lock;
use crate::lock::multi::MultiLock;
use crate::lock::semaphore::Semaphore;

/// What a scope can hold.
pub(crate) trait Holdable {
    /// Waits until it is lost.
    fn lost(&self) -> impl Future<Output = ()> + Send + 'static;

    /// Succeeds while it is held.
    fn check(&self) -> Result<()>;

    /// Releases it, and waits for the acknowledgement.
    fn release(&self) -> impl Future<Output = Result<()>> + Send + 'static;

    /// Releases it, unless that is done.
    fn release_in_background(&self);
}

impl Holdable for Lease {
    fn lost(&self) -> impl Future<Output = ()> + Send + 'static {
        let lost = Self::lost(self);
        async move {
            lost.await;
        }
    }

    fn check(&self) -> Result<()> {
        Self::check(self)
    }

    fn release(&self) -> impl Future<Output = Result<()>> + Send + 'static {
        Self::release(self)
    }

    fn release_in_background(&self) {
        Self::release_in_background(self).ok();
    }
}

impl Holdable for Leases {
    fn lost(&self) -> impl Future<Output = ()> + Send + 'static {
        let lost = Self::lost(self);
        async move {
            lost.await;
        }
    }

    fn check(&self) -> Result<()> {
        Self::check(self)
    }

    fn release(&self) -> impl Future<Output = Result<()>> + Send + 'static {
        Self::release(self)
    }

    fn release_in_background(&self) {
        Self::release_in_background(self).ok();
    }
}

/// Releases it at the end of the scope, even if the scope is dropped or its body panics: the body may have given
/// another handle to something that lives on.
struct Scope<H: Holdable>(Arc<H>);

impl<H: Holdable> Drop for Scope<H> {
    fn drop(&mut self) {
        self.0.release_in_background();
    }
}

/// Runs `body` while this is held. If it is lost before the body ends, the body is dropped where it waits, and the loss
/// is the outcome; so it is if the body ends and it turns out that the lock was not held throughout.
pub(crate) async fn run<H: Holdable, F: Future>(
    held: H,
    body: impl FnOnce(Arc<H>) -> F,
) -> Result<F::Output> {
    let scope = Scope(Arc::new(held));
    let lost = scope.0.lost();
    let outcome = tokio::select! {
        biased;
        () = lost => None,
        output = body(Arc::clone(&scope.0)) => Some(output),
    };
    // What the body released by itself is not lost.
    let failure = scope.0.check().err().filter(|error| error.kind() != ErrorKind::NotHeld);
    if let (Some(output), None) = (outcome, &failure) {
        // Its only error says that the body released it.
        scope.0.release().await.ok();
        // That the lock was gone, only the release may find out (rule 12).
        return match scope.0.check() {
            Err(error) if error.kind() == ErrorKind::LockLost => Err(error),
            _ => Ok(output),
        };
    }
    scope.0.release_in_background();
    Err(failure.unwrap_or_else(Error::released))
}

impl Lock {
    /// Acquires the lock as a new owner, runs `body` while it is held, and releases it: the outcome is what the body
    /// returns. If the lock is lost meanwhile, the body is dropped where it awaits something, and the outcome is
    /// [`LockLost`](ErrorKind::LockLost).
    ///
    /// The lock is released however the scope ends: with the body, with a loss, with a panic, or because this future is
    /// dropped. A body that wants to end the scope early may release the lease.
    ///
    /// ```no_run
    /// # async fn example(client: &zklock::Client) -> zklock::Result<()> {
    /// let lock = zklock::Mutex::new(client, "/locks/report")?;
    /// let rows = lock.hold(|lease| async move { write_report(lease.fencing_token()).await }).await?;
    /// println!("{rows} rows");
    /// # Ok(())
    /// # }
    /// # async fn write_report(_: i64) -> u32 { 1 }
    /// ```
    ///
    /// Cancel safe: dropping the future drops the body and releases the lock.
    ///
    /// # Errors
    /// [`LockLost`](ErrorKind::LockLost), also if the body has ended and the lock turns out to have been lost; those of
    /// [`acquire`](Self::acquire). What the body returns is passed through, errors included.
    pub async fn hold<F: Future>(&self, body: impl FnOnce(Arc<Lease>) -> F) -> Result<F::Output> {
        run(self.acquire().await?, body).await
    }

    /// Like [`hold`](Self::hold), but waits no longer than `time` for the lock.
    ///
    /// Cancel safe as [`hold`](Self::hold).
    ///
    /// # Errors
    /// [`LockTimeout`](ErrorKind::LockTimeout), and those of [`hold`](Self::hold).
    pub async fn hold_within<F: Future>(
        &self,
        time: Duration,
        body: impl FnOnce(Arc<Lease>) -> F,
    ) -> Result<F::Output> {
        run(self.acquire_within(time).await?, body).await
    }

    /// Like [`hold`](Self::hold), for `owner`, which may hold the lock already.
    ///
    /// Cancel safe as [`hold`](Self::hold).
    ///
    /// # Errors
    /// As [`hold_within`](Self::hold_within).
    pub async fn hold_as<F: Future>(
        &self,
        owner: &Owner,
        timeout: impl Into<Timeout>,
        body: impl FnOnce(Arc<Lease>) -> F,
    ) -> Result<F::Output> {
        run(self.acquire_as(owner, timeout).await?, body).await
    }
}

impl Semaphore {
    /// Runs `body` while a permit is held (see [`Lock::hold`]).
    ///
    /// Cancel safe: dropping the future drops the body and releases the permit.
    ///
    /// # Errors
    /// [`LockLost`](ErrorKind::LockLost), and those of [`acquire`](Self::acquire).
    pub async fn hold<F: Future>(&self, body: impl FnOnce(Arc<Lease>) -> F) -> Result<F::Output> {
        run(self.acquire().await?, body).await
    }

    /// Like [`hold`](Self::hold), but waits no longer than `time` for the permit.
    ///
    /// Cancel safe as [`hold`](Self::hold).
    ///
    /// # Errors
    /// [`LockTimeout`](ErrorKind::LockTimeout), and those of [`hold`](Self::hold).
    pub async fn hold_within<F: Future>(
        &self,
        time: Duration,
        body: impl FnOnce(Arc<Lease>) -> F,
    ) -> Result<F::Output> {
        run(self.acquire_within(time).await?, body).await
    }
}

impl MultiLock {
    /// Runs `body` while all locks are held (see [`Lock::hold`]); the loss of one of them ends it.
    ///
    /// Cancel safe: dropping the future drops the body and releases the locks.
    ///
    /// # Errors
    /// [`LockLost`](ErrorKind::LockLost), and those of [`acquire`](Self::acquire).
    pub async fn hold<F: Future>(&self, body: impl FnOnce(Arc<Leases>) -> F) -> Result<F::Output> {
        run(self.acquire().await?, body).await
    }

    /// Like [`hold`](Self::hold), but waits no longer than `time` for the locks.
    ///
    /// Cancel safe as [`hold`](Self::hold).
    ///
    /// # Errors
    /// [`LockTimeout`](ErrorKind::LockTimeout), and those of [`hold`](Self::hold).
    pub async fn hold_within<F: Future>(
        &self,
        time: Duration,
        body: impl FnOnce(Arc<Leases>) -> F,
    ) -> Result<F::Output> {
        run(self.acquire_within(time).await?, body).await
    }
}
