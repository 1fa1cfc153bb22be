//! Scopes: functions that hold a lock while a body runs. A scope ends when its body returns or when
//! the lock is lost.

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

/// A value that a scope can hold.
pub(crate) trait Holdable {
    /// Waits until the lock is lost.
    fn lost(&self) -> impl Future<Output = ()> + Send + 'static;

    /// Succeeds while the lock is held.
    fn check(&self) -> Result<()>;

    /// Releases the lock and waits for the acknowledgement.
    fn release(&self) -> impl Future<Output = Result<()>> + Send + 'static;

    /// Releases the lock unless it is already released.
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

/// Releases the lock at the end of a scope, even if the scope's future is dropped or the body
/// panics.
///
/// Dropping the `Arc` is not enough, because the body can pass a clone of it to a task that still
/// runs.
struct Scope<H: Holdable>(Arc<H>);

impl<H: Holdable> Drop for Scope<H> {
    fn drop(&mut self) {
        self.0.release_in_background();
    }
}

/// Runs `body` while the lock is held.
///
/// If the lock is lost before the body returns, the body is dropped at its next await point, and
/// this function returns an error. It returns the error even if the body returns without reaching
/// an await point.
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
    // If the body itself released the lock, that is not a loss.
    let failure = scope.0.check().err().filter(|error| error.kind() != ErrorKind::NotHeld);
    if let (Some(output), None) = (outcome, &failure) {
        // The only possible error is `NotHeld`, if the body has already released the lock.
        scope.0.release().await.ok();
        // Check for a loss after the release, because only the release reveals some losses (rule
        // 12).
        return match scope.0.check() {
            Err(error) if error.kind() == ErrorKind::LockLost => Err(error),
            _ => Ok(output),
        };
    }
    scope.0.release_in_background();
    Err(failure.unwrap_or_else(Error::released))
}

impl Lock {
    /// Acquires the lock for a new owner, runs `body`, and releases the lock. Returns the value of
    /// the body.
    ///
    /// If the lock is lost while the body runs, the body is dropped at its next await point, and
    /// the call fails with [`LockLost`](ErrorKind::LockLost).
    ///
    /// The lock is always released: after the body returns, after a loss, after a panic, and if
    /// this future is dropped. To end the scope early, the body can release the lease.
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
    /// [`LockLost`](ErrorKind::LockLost) if the lock was lost before it was released, even if the
    /// body has returned. Also the errors of [`acquire`](Self::acquire). The value of the body is
    /// returned unchanged, even if it is an error.
    pub async fn hold<F: Future>(&self, body: impl FnOnce(Arc<Lease>) -> F) -> Result<F::Output> {
        run(self.acquire().await?, body).await
    }

    /// Runs `body` like [`hold`](Self::hold), but waits for the lock for at most `time`.
    ///
    /// Cancel safe like [`hold`](Self::hold).
    ///
    /// # Errors
    /// [`LockTimeout`](ErrorKind::LockTimeout) after `time`, and the errors of
    /// [`hold`](Self::hold).
    pub async fn hold_within<F: Future>(
        &self,
        time: Duration,
        body: impl FnOnce(Arc<Lease>) -> F,
    ) -> Result<F::Output> {
        run(self.acquire_within(time).await?, body).await
    }

    /// Runs `body` like [`hold`](Self::hold), but acquires the lock for `owner`, which can already
    /// hold the lock.
    ///
    /// Cancel safe like [`hold`](Self::hold).
    ///
    /// # Errors
    /// The same as for [`hold_within`](Self::hold_within).
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
    /// [`LockLost`](ErrorKind::LockLost), and the errors of [`acquire`](Self::acquire).
    pub async fn hold<F: Future>(&self, body: impl FnOnce(Arc<Lease>) -> F) -> Result<F::Output> {
        run(self.acquire().await?, body).await
    }

    /// Runs `body` like [`hold`](Self::hold), but waits for the permit for at most `time`.
    ///
    /// Cancel safe like [`hold`](Self::hold).
    ///
    /// # Errors
    /// [`LockTimeout`](ErrorKind::LockTimeout) after `time`, and the errors of
    /// [`hold`](Self::hold).
    pub async fn hold_within<F: Future>(
        &self,
        time: Duration,
        body: impl FnOnce(Arc<Lease>) -> F,
    ) -> Result<F::Output> {
        run(self.acquire_within(time).await?, body).await
    }
}

impl MultiLock {
    /// Runs `body` while all locks are held (see [`Lock::hold`]). If one of the locks is lost, the
    /// body is dropped.
    ///
    /// Cancel safe: dropping the future drops the body and releases the locks.
    ///
    /// # Errors
    /// [`LockLost`](ErrorKind::LockLost), and the errors of [`acquire`](Self::acquire).
    pub async fn hold<F: Future>(&self, body: impl FnOnce(Arc<Leases>) -> F) -> Result<F::Output> {
        run(self.acquire().await?, body).await
    }

    /// Runs `body` like [`hold`](Self::hold), but waits for the locks for at most `time` in total.
    ///
    /// Cancel safe like [`hold`](Self::hold).
    ///
    /// # Errors
    /// [`LockTimeout`](ErrorKind::LockTimeout) after `time`, and the errors of
    /// [`hold`](Self::hold).
    pub async fn hold_within<F: Future>(
        &self,
        time: Duration,
        body: impl FnOnce(Arc<Leases>) -> F,
    ) -> Result<F::Output> {
        run(self.acquire_within(time).await?, body).await
    }
}
