//! The counting semaphore. A contender first acquires an internal mutex, called the *turn*. While
//! it holds the turn, it waits for its permits.
//!
//! The turn and the permits have separate lock directories. Both use the same protocol as the other
//! locks.

mod shared_count;
#[cfg(test)]
mod tests;

use std::pin::pin;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::client::Client;
use crate::client::source::ClientSource;
use crate::config::lock_path::{LockPath, check_path};
use crate::config::timeout::{Deadline, Timeout};
use crate::error::timeout_reason::TimeoutReason;
use crate::error::{Error, ErrorKind, Result};
use crate::lease::Lease;
use crate::lease::lease_set::Leases;
use crate::lease::owner::Owner;
use crate::lock::options::{LockOptions, LockSettings};
use crate::lock::{Lock, Resolved, busy_is_none};
use crate::metrics::recorder::WaitTimer;
use crate::queue::Kind;
use crate::queue::contender::Contender;

/// Maximum time for which an acquire with [`Timeout::Try`] waits for the turn (the internal mutex).
/// If enough permits are free, another contender holds the turn only for a few round trips.
const TRY_LIMIT: Duration = Duration::from_secs(2);

/// Subdirectory of the nodes for permits, both held and requested.
const LEASES: &str = "/leases";

/// Subdirectory of the nodes for the turn.
const TURNS: &str = "/locks";

/// The number of permits of a semaphore.
///
/// ```no_run
/// # async fn example(client: &zklock::Client) -> zklock::Result<()> {
/// use zklock::{LockOptions, Permits, Semaphore};
///
/// // The number that operators write into this node, for example with Curator's SharedCount.
/// let permits = Permits::SharedCount("/settings/upstream".into());
/// let semaphore = Semaphore::with_options(client, "/locks/upstream", permits, LockOptions::default())?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Permits {
    /// A fixed number, which all contenders must agree on.
    Fixed(u32),
    /// A number in the node at this absolute path, relative to the client's chroot.
    ///
    /// The data has the format of Curator's `SharedCount`: four bytes, big-endian. Every acquire
    /// reads the number, and waiters notice when it changes.
    SharedCount(String),
}

impl From<u32> for Permits {
    fn from(permits: u32) -> Self {
        Self::Fixed(permits)
    }
}

/// A fair semaphore with a number of permits, compatible with Curator's `InterProcessSemaphoreV2`.
///
/// A contender first acquires an internal mutex, and holds it while it waits for its permits. So a
/// smaller request cannot overtake a larger one, and two contenders cannot each hold a part of the
/// permits that both need.
///
/// Every permit has a separate [`Lease`], which any thread or task can release. A semaphore is not
/// reentrant. Fencing tokens of permits that are held at the same time are not comparable. A clone
/// refers to the same semaphore.
///
/// All contenders with the same path must agree on the number of permits. A contender compares its
/// number when it first uses the path and when it must wait. If another contender's number differs,
/// the acquire fails with [`PermitsMismatch`](ErrorKind::PermitsMismatch).
///
/// ```no_run
/// # async fn example(client: &zklock::Client) -> zklock::Result<()> {
/// let semaphore = zklock::Semaphore::new(client, "/locks/upstream", 5)?;
/// let permit = semaphore.acquire().await?;
/// println!("one of five, through {}", permit.node());
/// permit.release().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Semaphore {
    turns: Lock,
    leases: Lock,
    permits: Permits,
}

impl Semaphore {
    /// Creates a semaphore at `path` with a fixed number of permits. `path` is absolute, relative
    /// to the client's chroot.
    ///
    /// # Errors
    /// [`BadArgument`](ErrorKind::BadArgument) for a malformed path, or zero permits.
    pub fn new(client: impl Into<ClientSource>, path: impl AsRef<str>, permits: u32) -> Result<Self> {
        Self::with_options(client, path, Permits::Fixed(permits), LockOptions::default())
    }

    /// Creates a semaphore at `path` with options.
    ///
    /// # Errors
    /// [`BadArgument`](ErrorKind::BadArgument) for a malformed path, zero permits, a label that is
    /// too long, or options that a semaphore does not support: `reentrant(true)`, a
    /// [`Naming`](crate::Naming) other than Curator's, `cohort` and `linger`.
    pub fn with_options(
        client: impl Into<ClientSource>,
        path: impl AsRef<str>,
        permits: impl Into<Permits>,
        options: LockOptions,
    ) -> Result<Self> {
        let (source, path, permits) = (client.into(), path.as_ref(), permits.into());
        // Check the length of the longer of the two directory names.
        LockPath::new(&source.hosts().chroot, path, LEASES)?;
        let stated = match &permits {
            Permits::Fixed(0) => return Err(Error::bad_argument("permits", "must be at least 1")),
            Permits::Fixed(permits) => Some(*permits),
            Permits::SharedCount(path) => {
                check_path("shared_count", path)?;
                None
            }
        };
        let settings = options.of_semaphore(stated)?;
        // `max_hold` limits only the permits. A contender must hold the turn (the internal mutex)
        // for as long as it waits for the permits.
        let turn = LockSettings { max_hold: None, ..settings.clone() };
        let turns = Lock::with_part(source.clone(), path, TURNS, Kind::Exclusive, turn)?;
        let leases = Lock::with_part(source, path, LEASES, Kind::Permit(0), settings)?;
        Ok(Self { turns, leases, permits })
    }

    /// Returns the semaphore's path, as given.
    #[must_use]
    pub fn path(&self) -> &str {
        self.leases.path()
    }

    /// Returns the client of the semaphore. See [`Lock::client`].
    ///
    /// # Errors
    /// [`Forked`](ErrorKind::Forked) in a forked child process.
    pub fn client(&self) -> Result<Client> {
        self.leases.client()
    }

    /// Returns the number of permits, as given.
    #[must_use]
    pub fn permits(&self) -> &Permits {
        &self.permits
    }

    /// Acquires a permit. Waits without a time limit.
    ///
    /// Cancel safe: if the future is dropped, the contender leaves the queue. If the permit is
    /// granted at the same moment, it is released.
    ///
    /// # Errors
    /// * The errors of [`Lock::acquire`].
    /// * [`PermitsMismatch`](ErrorKind::PermitsMismatch) if another contender with the same path
    ///   has a different number of permits.
    /// * [`BadArgument`](ErrorKind::BadArgument) if the node of [`Permits::SharedCount`] contains
    ///   no number.
    pub async fn acquire(&self) -> Result<Lease> {
        self.acquire_with(Timeout::Forever).await
    }

    /// Acquires a permit like [`acquire`](Self::acquire), but within at most `time` in total.
    ///
    /// Cancel safe like [`acquire`](Self::acquire).
    ///
    /// # Errors
    /// [`LockTimeout`](ErrorKind::LockTimeout) after `time`, and the errors of
    /// [`acquire`](Self::acquire).
    pub async fn acquire_within(&self, time: Duration) -> Result<Lease> {
        self.acquire_with(time).await
    }

    /// Acquires a permit like [`acquire_within`](Self::acquire_within), but with a deadline instead
    /// of a duration.
    ///
    /// Cancel safe like [`acquire`](Self::acquire).
    ///
    /// # Errors
    /// The same as for [`acquire_within`](Self::acquire_within).
    pub async fn acquire_until(&self, moment: std::time::Instant) -> Result<Lease> {
        self.acquire_with(moment).await
    }

    /// Acquires a permit if one is free, without waiting for it. Returns `None` if no permit is
    /// free.
    ///
    /// If no permit is free, the call sends one read, and a second one if the number of permits is
    /// in a node. If another contender is just acquiring its permits, the call waits for it, but
    /// for at most two seconds. The whole call takes at most the connect timeout.
    ///
    /// Cancel safe like [`acquire`](Self::acquire).
    ///
    /// # Errors
    /// The errors of [`Lock::try_acquire`] and [`acquire`](Self::acquire).
    pub async fn try_acquire(&self) -> Result<Option<Lease>> {
        busy_is_none(self.acquire_with(Timeout::Try).await)
    }

    /// Acquires a permit like [`try_acquire`](Self::try_acquire), but with `time` instead of the
    /// client's connect timeout.
    ///
    /// The servers must reply within `time` in total. The call does not wait for a permit.
    ///
    /// Cancel safe like [`acquire`](Self::acquire).
    ///
    /// # Errors
    /// The errors of [`Lock::try_acquire_within`] and [`acquire`](Self::acquire).
    pub async fn try_acquire_within(&self, time: Duration) -> Result<Option<Lease>> {
        busy_is_none(self.acquire_with(Timeout::TryWithin(time)).await)
    }

    /// Acquires a permit within a timeout.
    ///
    /// With [`Timeout::Try`], the call fails with [`LockTimeout`](ErrorKind::LockTimeout) if no
    /// permit is free.
    ///
    /// Cancel safe like [`acquire`](Self::acquire).
    ///
    /// # Errors
    /// The same as for [`acquire_within`](Self::acquire_within).
    pub async fn acquire_with(&self, timeout: impl Into<Timeout>) -> Result<Lease> {
        self.acquire_one(&Owner::new(), timeout.into()).await
    }

    /// Acquires a permit like [`acquire_with`](Self::acquire_with), but reports show `caller` as
    /// the owner.
    pub(crate) async fn acquire_one(&self, caller: &Owner, timeout: Timeout) -> Result<Lease> {
        let leases = self.acquire_for(caller, 1, timeout).await?;
        leases.into_iter().next().ok_or_else(Error::client_closed)
    }

    /// Acquires `count` permits, all or none. A smaller request cannot overtake this one.
    ///
    /// If `count` exceeds the number in a [`SharedCount`](Permits::SharedCount), the call waits
    /// until the number grows. In the meantime, other acquires wait behind this call, and it
    /// creates no nodes for the permits.
    ///
    /// Cancel safe like [`acquire`](Self::acquire). If the future is dropped, no permit is kept.
    ///
    /// # Errors
    /// [`BadArgument`](ErrorKind::BadArgument) if `count` is zero or greater than a fixed number,
    /// and the errors of [`acquire_within`](Self::acquire_within). With [`Timeout::Try`], the call
    /// fails with [`LockTimeout`](ErrorKind::LockTimeout) if fewer permits are free.
    pub async fn acquire_many(&self, count: u32, timeout: impl Into<Timeout>) -> Result<Leases> {
        self.acquire_for(&Owner::new(), count, timeout.into()).await
    }

    /// Acquires `count` permits like [`acquire_many`](Self::acquire_many), but reports show
    /// `caller` as the owner.
    pub(crate) async fn acquire_for(&self, caller: &Owner, count: u32, timeout: Timeout) -> Result<Leases> {
        match self.permits {
            _ if count == 0 => return Err(Error::bad_argument("count", "must be at least 1")),
            Permits::Fixed(permits) if count > permits => {
                let problem = format!("is {count}, but there are only {permits} permits");
                return Err(Error::bad_argument("count", problem));
            }
            _ => {}
        }
        let Resolved { client, holds } = &*self.leases.resolve()?;
        let timeout = timeout.bounded(client.options().connect_timeout);
        let wait = WaitTimer::begin();
        self.acquire_all(caller, count, timeout, wait).await.map_err(|error| {
            let error = client.explain(error, wait.since, timeout);
            // Count the whole call as one acquire, although it creates several nodes.
            if error.kind() == ErrorKind::LockTimeout {
                let refused = timeout.is_try() || error.timeout_reason() == Some(TimeoutReason::Full);
                if refused { holds.recorder.busy() } else { holds.recorder.timed_out() }
            }
            error
        })
    }

    async fn acquire_all(
        &self,
        caller: &Owner,
        count: u32,
        timeout: Timeout,
        mut wait: WaitTimer,
    ) -> Result<Leases> {
        let deadline = Deadline::after(timeout);
        if timeout.is_try() {
            self.fail_if_not_free(count, deadline).await?;
        } else if let Some(waiters) = self.leases.max_waiters() {
            self.fail_if_full(count, waiters, deadline).await?;
        } else {
            self.check_number_exists(deadline).await?;
        }
        loop {
            // Do not count the turn (the internal mutex) as a hold in the statistics, because the
            // caller keeps it only until it has the permits.
            let time = match deadline.left() {
                Timeout::TryWithin(left) => Timeout::For(left.min(TRY_LIMIT)),
                time => time,
            };
            let uncounted = WaitTimer { counts: false, ..wait };
            let turn = self.turns.request_as(caller, Kind::Exclusive, time, uncounted)?.await;
            let turn = match turn {
                // Without a reply, the client does not know whether the turn (the internal mutex)
                // is taken. Repeat the request until the time limit.
                Err(error) if timeout.is_try() && error.is_unanswered() => {
                    if deadline.is_over() {
                        return Err(error.with_timeout_reason(TimeoutReason::Unreachable));
                    }
                    continue;
                }
                turn => turn?,
            };
            wait.contended |= turn.contended();
            // If the turn (the internal mutex) is lost, stop waiting for permits. Otherwise,
            // another contender could get the turn and wait for permits too. Then each of the two
            // contenders could hold a part of the permits that both need.
            let leases = tokio::select! {
                biased;
                leases = self.take(caller, count, deadline, wait) => leases?,
                _ = turn.lost() => continue,
            };
            turn.release_in_background()?;
            return Ok(leases);
        }
    }

    /// Acquires permits while the internal mutex is held. If only some of the permits can be
    /// acquired, they are released before the mutex.
    async fn take(&self, caller: &Owner, count: u32, deadline: Deadline, wait: WaitTimer) -> Result<Leases> {
        let resolved = self.leases.resolve()?;
        let permit_state = resolved.holds.permit_state();
        let mut permits = self.number(deadline).await?;
        if matches!(self.permits, Permits::Fixed(_))
            && permit_state.compared.load(Ordering::Relaxed) != permits
        {
            self.compare(permits, deadline).await?;
            permit_state.compared.store(permits, Ordering::Relaxed);
        }
        loop {
            // If more permits are requested than exist, create no nodes, because the request cannot
            // be granted yet.
            if count > permits {
                let too_few = || self.too_few(count, permits);
                if deadline.is_try() {
                    return Err(too_few());
                }
                permits = tokio::select! {
                    biased;
                    changed = self.changed(permits, deadline) => changed?,
                    passed = deadline.passed() => return Err(passed.err().unwrap_or_else(too_few)),
                };
                continue;
            }
            let waiting = permit_state.waiting.notified();
            let mut leases = pin!(self.request(caller, (count, permits), deadline, wait));
            tokio::select! {
                biased;
                leases = &mut leases => return leases,
                () = waiting => {}
            }
            permits = tokio::select! {
                biased;
                leases = &mut leases => return leases,
                changed = self.changed(permits, deadline) => match changed {
                    // The pending requests have the same deadline. Return their error, because it
                    // names the contenders that blocked them.
                    Err(error) if error.kind() == ErrorKind::LockTimeout => return leases.await,
                    changed => changed?,
                },
            };
        }
    }

    async fn request(
        &self,
        caller: &Owner,
        (count, permits): (u32, u32),
        deadline: Deadline,
        wait: WaitTimer,
    ) -> Result<Leases> {
        loop {
            let mut requests = Vec::new();
            for _ in 0..count {
                let kind = Kind::Permit(permits);
                requests.push(self.leases.request_as(caller, kind, deadline.left(), wait)?);
            }
            let mut leases = Leases::default();
            for request in requests {
                leases.push(request.await?);
            }
            // A permit that was granted early can be lost while the call waits for the others. Then
            // release all permits and request them again.
            if leases.is_held() {
                return Ok(leases);
            }
            // With [`Timeout::Try`], do not repeat the acquire. With a very short `max_hold`, the
            // call would never hold all permits together, and other contenders would have to wait
            // for the turn.
            if deadline.is_try() {
                let message = "one of the permits was lost while the others were acquired; try again";
                return Err(Error::timed_out(TimeoutReason::Unknown, message));
            }
        }
    }

    /// Returns an error if too few permits are free now.
    async fn fail_if_not_free(&self, count: u32, deadline: Deadline) -> Result<()> {
        let (taken, permits) = self.taken(deadline).await?;
        if count > permits {
            return Err(self.too_few(count, permits));
        }
        if taken + count as usize <= permits as usize {
            return Ok(());
        }
        let message = format!(
            "{taken} of {permits} permits of {:?} are taken; `contenders()` lists the holders",
            self.path()
        );
        Err(Error::timed_out(TimeoutReason::Taken, message))
    }

    /// Returns an error if the acquire would have to wait and the maximum number of waiters is
    /// reached.
    ///
    /// All contenders for the turn (the internal mutex) count as waiters. A contender that finds
    /// its permits free also counts, although it holds the turn only for a moment.
    async fn fail_if_full(&self, count: u32, waiters: u32, deadline: Deadline) -> Result<()> {
        let client = self.turns.resolve()?.client.clone();
        let reached = || client.was_connected();
        let turns = deadline.ask_until_answered(self.path(), reached, || self.turns.count());
        let ((taken, permits), turns) = tokio::try_join!(self.taken(deadline), turns)?;
        let waits = taken + turns + count as usize > permits as usize;
        if waits && turns >= waiters as usize {
            return Err(Error::full(self.path(), turns));
        }
        Ok(())
    }

    fn too_few(&self, count: u32, permits: u32) -> Error {
        let message =
            format!("{count} permits of {:?} are requested, but there are only {permits}", self.path());
        Error::timed_out(TimeoutReason::Taken, message)
    }

    /// Returns the number of nodes that hold or request permits, and the total number of permits.
    async fn taken(&self, deadline: Deadline) -> Result<(usize, u32)> {
        let permits = self.number(deadline).await?;
        let client = self.leases.resolve()?.client.clone();
        let reached = || client.was_connected();
        let taken = deadline.ask_until_answered(self.path(), reached, || self.leases.count()).await?;
        Ok((taken, permits))
    }

    /// Returns the contenders for the semaphore. Takes as many round trips as [`Lock::contenders`].
    ///
    /// The list begins with the holders of permits and the first waiter, which waits for its
    /// permits. Each of them has one node per permit (`leases/…`). Then the contenders for the
    /// internal mutex follow (`locks/…`). The first waiter holds this mutex, so it is listed again.
    ///
    /// Cancel safe: dropping the future has no side effect.
    ///
    /// # Errors
    /// The same as for [`Lock::contenders`].
    pub async fn contenders(&self) -> Result<Vec<Contender>> {
        let (mut leases, mut turns) = tokio::try_join!(self.leases.contenders(), self.turns.contenders())?;
        leases.append(&mut turns);
        for (position, contender) in leases.iter_mut().enumerate() {
            contender.position = position;
        }
        Ok(leases)
    }

    /// Returns `true` if no permit is free.
    ///
    /// This takes one round trip, and another one if the number of permits is in a node. The answer
    /// can be out of date when it arrives.
    ///
    /// Cancel safe: dropping the future has no side effect.
    ///
    /// # Errors
    /// The errors of [`Lock::locked`], and [`BadArgument`](ErrorKind::BadArgument) if the node of
    /// [`Permits::SharedCount`] contains no number.
    pub async fn locked(&self) -> Result<bool> {
        let (taken, permits) = self.taken(Deadline::after(Timeout::Try)).await?;
        Ok(taken >= permits as usize)
    }

    pub(crate) fn leases(&self) -> &Lock {
        &self.leases
    }

    /// Returns an error in a process that inherited the client through `fork`.
    pub(crate) fn check_process(&self) -> Result<()> {
        self.leases.resolve()?.holds.origin.check()
    }
}
