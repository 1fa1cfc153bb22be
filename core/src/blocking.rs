//! Blocking locks for programs without an async runtime: each call waits on the calling thread.
//!
//! These types wrap the async types at the crate's root, and the locks are the same: a blocking
//! lease excludes an async one. Each type dereferences to the async type that it wraps, so you can
//! call all methods that do not wait: `client.state()`, `lease.fencing_token()`, `lease.check()`.
//!
//! Do not use these types in async code: a call blocks the executor's thread, and might wait for
//! another task that needs the same thread. `tracing` subscribers run on the library's own thread.
//! A call on that thread fails with [`BadArgument`](crate::ErrorKind::BadArgument), because it
//! would wait for itself.
//!
//! ```no_run
//! # fn example() -> zklock::Result<()> {
//! use std::time::Duration;
//! use zklock::blocking::{Client, Mutex};
//!
//! let client = Client::connect("127.0.0.1:2181")?;
//! let lock = Mutex::new(&client, "/locks/report")?;
//! let lease = lock.acquire_within(Duration::from_secs(5))?;
//! println!("holding, with token {}", lease.fencing_token());
//! lease.release()?;
//! # Ok(())
//! # }
//! ```

use std::future::Future;
use std::ops::Deref;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use crate::client::source::ClientSource;
use crate::config::ClientOptions;
use crate::config::timeout::Timeout;
use crate::error::{Error, ErrorKind, Result};
use crate::lease::owner::Owner;
use crate::lock::once::Slot;
use crate::lock::once::{Record, turn};
use crate::lock::options::LockOptions;
use crate::lock::semaphore::Permits;
use crate::queue::contender::Contender;
use crate::runtime;

/// Wakes the waiting thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits on this thread for a future of this crate. Such futures need no executor: the library's
/// thread wakes them.
fn wait<T>(future: impl Future<Output = Result<T>>) -> Result<T> {
    if runtime::is_current() {
        let problem =
            "a blocking call on the library's own thread would be a deadlock; call from another thread";
        return Err(Error::new(ErrorKind::BadArgument, problem));
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            // `park` can return without a wake-up. This is harmless, because the next poll returns
            // `Pending` again.
            Poll::Pending => thread::park(),
        }
    }
}

/// A client: see [`zklock::Client`](crate::Client).
#[derive(Clone, Debug)]
pub struct Client(crate::Client);

impl Client {
    /// Connects to `hosts`, with default options.
    ///
    /// # Errors
    /// Same as [`zklock::Client::connect`](crate::Client::connect).
    pub fn connect(hosts: &str) -> Result<Self> {
        Self::connect_with(ClientOptions::new(Some(hosts))?)
    }

    /// Connects with the given options.
    ///
    /// # Errors
    /// Same as [`zklock::Client::connect_with`](crate::Client::connect_with).
    pub fn connect_with(options: ClientOptions) -> Result<Self> {
        wait(crate::Client::connect_with(options)).map(Self)
    }

    /// Closes the client. Waits for the server's acknowledgement, at most two seconds.
    ///
    /// # Errors
    /// Same as [`zklock::Client::close`](crate::Client::close).
    pub fn close(&self) -> Result<()> {
        wait(self.0.close())
    }

    /// Closes the client once it holds no lock, and after `time` at the latest. Waits until the
    /// client is closed.
    ///
    /// # Errors
    /// Same as [`zklock::Client::drain`](crate::Client::drain).
    pub fn drain(&self, time: Duration) -> Result<()> {
        wait(self.0.drain(time))
    }
}

/// Wraps an existing client, connected or not.
impl From<crate::Client> for Client {
    fn from(client: crate::Client) -> Self {
        Self(client)
    }
}

impl From<&Client> for ClientSource {
    fn from(client: &Client) -> Self {
        Self::Client(client.0.clone())
    }
}

impl Deref for Client {
    type Target = crate::Client;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

/// Proof of holding a lock: see [`zklock::Lease`](crate::Lease). Dropping it releases the lock in
/// the background.
#[derive(Debug)]
#[must_use = "dropping a lease releases the lock immediately: keep the lease as long as the lock is needed"]
pub struct Lease(crate::Lease);

impl Lease {
    /// Releases the lock. Waits for the acknowledgement, at most half the session timeout.
    ///
    /// # Errors
    /// Same as [`zklock::Lease::release`](crate::Lease::release).
    pub fn release(&self) -> Result<()> {
        wait(self.0.release())
    }
}

impl Deref for Lease {
    type Target = crate::Lease;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

/// Several leases: see [`zklock::Leases`](crate::Leases).
#[derive(Debug)]
#[must_use = "dropping leases releases their locks immediately: keep the leases as long as the locks are needed"]
pub struct Leases(crate::Leases);

impl Leases {
    /// Releases all locks and waits for the acknowledgements.
    ///
    /// # Errors
    /// Same as [`zklock::Leases::release`](crate::Leases::release).
    pub fn release(&self) -> Result<()> {
        wait(self.0.release())
    }
}

impl Deref for Leases {
    type Target = crate::Leases;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

/// A mutex, or one half of a read/write lock: see [`zklock::Lock`](crate::Lock).
#[derive(Clone, Debug)]
pub struct Lock(crate::Lock);

impl Lock {
    /// Acquires the lock as a new owner, without a timeout.
    ///
    /// # Errors
    /// Same as [`zklock::Lock::acquire`](crate::Lock::acquire).
    pub fn acquire(&self) -> Result<Lease> {
        self.acquire_as(&Owner::new(), Timeout::Forever)
    }

    /// Like [`acquire`](Self::acquire), but waits at most `time`.
    ///
    /// # Errors
    /// Same as [`zklock::Lock::acquire_within`](crate::Lock::acquire_within).
    pub fn acquire_within(&self, time: Duration) -> Result<Lease> {
        self.acquire_as(&Owner::new(), time)
    }

    /// Acquires the lock if it is free.
    ///
    /// # Errors
    /// Same as [`zklock::Lock::try_acquire`](crate::Lock::try_acquire).
    pub fn try_acquire(&self) -> Result<Option<Lease>> {
        Ok(wait(self.0.try_acquire())?.map(Lease))
    }

    /// Acquires the lock if it is free. A server must reply within `time`. The call does not wait
    /// for a lock that is taken.
    ///
    /// # Errors
    /// Same as [`zklock::Lock::try_acquire_within`](crate::Lock::try_acquire_within).
    pub fn try_acquire_within(&self, time: Duration) -> Result<Option<Lease>> {
        Ok(wait(self.0.try_acquire_within(time))?.map(Lease))
    }

    /// Acquires the lock for `owner`. An owner that already holds the lock re-enters it.
    ///
    /// # Errors
    /// Same as [`zklock::Lock::acquire_as`](crate::Lock::acquire_as).
    pub fn acquire_as(&self, owner: &Owner, timeout: impl Into<Timeout>) -> Result<Lease> {
        wait(self.0.acquire_as(owner, timeout)).map(Lease)
    }

    /// Returns `true` if any contender holds the lock or waits for it.
    ///
    /// # Errors
    /// Same as [`zklock::Lock::locked`](crate::Lock::locked).
    pub fn locked(&self) -> Result<bool> {
        wait(self.0.locked())
    }

    /// Returns the contenders, in queue order.
    ///
    /// # Errors
    /// Same as [`zklock::Lock::contenders`](crate::Lock::contenders).
    pub fn contenders(&self) -> Result<Vec<Contender>> {
        wait(self.0.contenders())
    }
}

impl From<crate::Lock> for Lock {
    fn from(lock: crate::Lock) -> Self {
        Self(lock)
    }
}

/// A mutex: see [`zklock::Mutex`](crate::Mutex).
#[derive(Clone, Debug)]
pub struct Mutex(Lock);

impl Mutex {
    /// Creates a lock at `path`. Sends no request.
    ///
    /// # Errors
    /// Same as [`zklock::Mutex::new`](crate::Mutex::new).
    pub fn new(client: impl Into<ClientSource>, path: impl AsRef<str>) -> Result<Self> {
        Self::with_options(client, path, LockOptions::default())
    }

    /// Like [`new`](Self::new), with options.
    ///
    /// # Errors
    /// Same as [`zklock::Mutex::with_options`](crate::Mutex::with_options).
    pub fn with_options(
        client: impl Into<ClientSource>,
        path: impl AsRef<str>,
        options: LockOptions,
    ) -> Result<Self> {
        crate::Mutex::with_options(client, path, options).map(|mutex| Self(Lock(mutex.into())))
    }

    /// Runs `body` under the lock, then records the slot and releases the lock. A *slot* is a key
    /// that identifies one run of `body`. If the slot is already recorded, `body` does not run and
    /// the function returns `None`.
    ///
    /// Unlike the async version, this function cannot stop `body` when the lock is lost, so a long
    /// `body` should call [`Lease::check`](crate::Lease::check).
    ///
    /// ```no_run
    /// # fn example(client: &zklock::blocking::Client) -> zklock::Result<()> {
    /// let lock = zklock::blocking::Mutex::new(client, "/jobs/report")?;
    /// let rows = lock.once("2026-11-26", |lease| write_report(lease.fencing_token()))?;
    /// # Ok(())
    /// # }
    /// # fn write_report(_: i64) -> zklock::Result<u32> { Ok(1) }
    /// ```
    ///
    /// # Errors
    /// Same as [`zklock::Mutex::once`](crate::Mutex::once).
    pub fn once<T, E: From<Error>>(
        &self,
        key: impl AsRef<str>,
        body: impl FnOnce(&crate::Lease) -> Result<T, E>,
    ) -> Result<Option<T>, E> {
        let slot = Slot::key(key.as_ref())?;
        self.once_as(&Owner::new(), &slot, Timeout::Forever, Record::default(), body)
    }

    /// Like [`once`](Self::once), but waits at most `time` for the lock.
    ///
    /// # Errors
    /// Same as [`zklock::Mutex::once_within`](crate::Mutex::once_within).
    pub fn once_within<T, E: From<Error>>(
        &self,
        key: impl AsRef<str>,
        time: Duration,
        body: impl FnOnce(&crate::Lease) -> Result<T, E>,
    ) -> Result<Option<T>, E> {
        let slot = Slot::key(key.as_ref())?;
        self.once_as(&Owner::new(), &slot, time, Record::default(), body)
    }

    /// Like [`once`](Self::once), with the current period as the slot.
    ///
    /// # Errors
    /// Same as [`zklock::Mutex::once_per`](crate::Mutex::once_per).
    pub fn once_per<T, E: From<Error>>(
        &self,
        period: Duration,
        body: impl FnOnce(&crate::Lease) -> Result<T, E>,
    ) -> Result<Option<T>, E> {
        let slot = Slot::per(period)?;
        self.once_as(&Owner::new(), &slot, Timeout::Forever, Record::default(), body)
    }

    /// Like [`once`](Self::once), for an `owner`, with a timeout, and with a choice of when the
    /// slot is recorded.
    ///
    /// # Errors
    /// Same as [`zklock::Mutex::once_as`](crate::Mutex::once_as).
    pub fn once_as<T, E: From<Error>>(
        &self,
        owner: &Owner,
        slot: &Slot,
        timeout: impl Into<Timeout>,
        record: Record,
        body: impl FnOnce(&crate::Lease) -> Result<T, E>,
    ) -> Result<Option<T>, E> {
        let Some(turn) = wait(turn::begin(&self.0.0, (owner.id(), owner), slot, timeout.into(), record))?
        else {
            return Ok(None);
        };
        match body(turn.lease()) {
            Ok(value) => {
                wait(turn.record())?;
                Ok(Some(value))
            }
            Err(error) => {
                wait(turn.abandon()).ok();
                Err(error)
            }
        }
    }
}

impl Deref for Mutex {
    type Target = Lock;

    fn deref(&self) -> &Lock {
        &self.0
    }
}

/// A read/write lock: see [`zklock::ReadWriteLock`](crate::ReadWriteLock).
#[derive(Clone, Debug)]
pub struct ReadWriteLock {
    /// The lock that readers hold at the same time.
    pub read_lock: Lock,
    /// The lock that a writer holds alone.
    pub write_lock: Lock,
}

impl ReadWriteLock {
    /// Creates a lock at `path`. Sends no request.
    ///
    /// # Errors
    /// Same as [`zklock::ReadWriteLock::new`](crate::ReadWriteLock::new).
    pub fn new(client: impl Into<ClientSource>, path: impl AsRef<str>) -> Result<Self> {
        Self::with_options(client, path, LockOptions::default())
    }

    /// Like [`new`](Self::new), with options.
    ///
    /// # Errors
    /// Same as [`zklock::ReadWriteLock::with_options`](crate::ReadWriteLock::with_options).
    pub fn with_options(
        client: impl Into<ClientSource>,
        path: impl AsRef<str>,
        options: LockOptions,
    ) -> Result<Self> {
        let lock = crate::ReadWriteLock::with_options(client, path, options)?;
        Ok(Self { read_lock: Lock(lock.read_lock), write_lock: Lock(lock.write_lock) })
    }
}

/// A semaphore: see [`zklock::Semaphore`](crate::Semaphore).
#[derive(Clone, Debug)]
pub struct Semaphore(crate::Semaphore);

impl Semaphore {
    /// Creates a semaphore at `path` with a fixed number of permits. Sends no request.
    ///
    /// # Errors
    /// Same as [`zklock::Semaphore::new`](crate::Semaphore::new).
    pub fn new(client: impl Into<ClientSource>, path: impl AsRef<str>, permits: u32) -> Result<Self> {
        crate::Semaphore::new(client, path, permits).map(Self)
    }

    /// Like [`new`](Self::new), with options.
    ///
    /// # Errors
    /// Same as [`zklock::Semaphore::with_options`](crate::Semaphore::with_options).
    pub fn with_options(
        client: impl Into<ClientSource>,
        path: impl AsRef<str>,
        permits: impl Into<Permits>,
        options: LockOptions,
    ) -> Result<Self> {
        crate::Semaphore::with_options(client, path, permits, options).map(Self)
    }

    /// Acquires a permit, without a timeout.
    ///
    /// # Errors
    /// Same as [`zklock::Semaphore::acquire`](crate::Semaphore::acquire).
    pub fn acquire(&self) -> Result<Lease> {
        wait(self.0.acquire()).map(Lease)
    }

    /// Like [`acquire`](Self::acquire), but waits at most `time`.
    ///
    /// # Errors
    /// Same as [`zklock::Semaphore::acquire_within`](crate::Semaphore::acquire_within).
    pub fn acquire_within(&self, time: Duration) -> Result<Lease> {
        wait(self.0.acquire_within(time)).map(Lease)
    }

    /// Acquires a permit if one is free.
    ///
    /// # Errors
    /// Same as [`zklock::Semaphore::try_acquire`](crate::Semaphore::try_acquire).
    pub fn try_acquire(&self) -> Result<Option<Lease>> {
        Ok(wait(self.0.try_acquire())?.map(Lease))
    }

    /// Acquires a permit if one is free. The servers must reply within `time` in total. The call
    /// does not wait for a permit.
    ///
    /// # Errors
    /// Same as [`zklock::Semaphore::try_acquire_within`](crate::Semaphore::try_acquire_within).
    pub fn try_acquire_within(&self, time: Duration) -> Result<Option<Lease>> {
        Ok(wait(self.0.try_acquire_within(time))?.map(Lease))
    }

    /// Acquires `count` permits, all or none.
    ///
    /// # Errors
    /// Same as [`zklock::Semaphore::acquire_many`](crate::Semaphore::acquire_many).
    pub fn acquire_many(&self, count: u32, timeout: impl Into<Timeout>) -> Result<Leases> {
        wait(self.0.acquire_many(count, timeout)).map(Leases)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn what_is_woken_by_another_thread_ends_the_wait() {
        let (wake, awake) = tokio::sync::oneshot::channel();
        let waker = thread::spawn(move || wake.send(7));
        assert_eq!(wait(async { awake.await.map_err(|_| Error::client_closed()) }).unwrap(), 7);
        waker.join().unwrap().unwrap();
    }

    #[test]
    fn on_the_librarys_own_thread_it_is_refused() {
        let (done, outcome) = mpsc::channel();
        let call = async { wait(async { Ok(()) }) };
        let _running = runtime::run(call, move |refused| done.send(refused).unwrap()).unwrap();
        let refused = outcome.recv_timeout(Duration::from_secs(20)).unwrap().unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::BadArgument);
    }
}
