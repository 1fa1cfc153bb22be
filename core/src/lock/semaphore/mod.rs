//! The counting semaphore: how it takes its turn, and then its permits. The two are one protocol on two lock directories,
//! and half of the lines are documentation.

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

/// How long a try waits for another contender that is in the middle of taking permits: a few round trips.
const TRY_LIMIT: Duration = Duration::from_secs(2);

/// The directory of the nodes of permits, held or waited for.
const LEASES: &str = "/leases";

/// The directory of the nodes of contenders that take turns.
const TURNS: &str = "/locks";

/// How many permits a semaphore has.
///
/// ```no_run
/// # async fn example(client: &zklock::Client) -> zklock::Result<()> {
/// use zklock::{LockOptions, Permits, Semaphore};
///
/// // As many as operators write into this node, for example with Curator's SharedCount.
/// let permits = Permits::SharedCount("/settings/upstream".into());
/// let semaphore = Semaphore::with_options(client, "/locks/upstream", permits, LockOptions::default())?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Permits {
    /// A fixed number, which all contenders must agree on.
    Fixed(u32),
    /// The number that the node at this path holds, an absolute path below the client's chroot. Its data is that of
    /// Curator's `SharedCount`: four bytes, the highest first. Read at every acquire; waiters learn of a change.
    SharedCount(String),
}

impl From<u32> for Permits {
    fn from(permits: u32) -> Self {
        Self::Fixed(permits)
    }
}

/// A fair semaphore with a number of permits, taken in the layout of Curator's `InterProcessSemaphoreV2`.
///
/// Contenders take turns by a mutex, and the one whose turn it is waits for its permits. So smaller requests cannot
/// overtake a larger one, and no two contenders can each keep a part of what both need. Every permit has its own
/// [`Lease`], and can be released separately, by any owner. Not reentrant. Fencing tokens of permits that are held at
/// the same time are not comparable. Clones are the same semaphore.
///
/// All contenders on a path must agree on the number of permits. One that finds a different number stated there, when
/// it first uses the path or when it has to wait, is refused with [`PermitsMismatch`](ErrorKind::PermitsMismatch).
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
    /// A semaphore at `path`, an absolute path below the client's chroot, with a fixed number of permits.
    ///
    /// # Errors
    /// [`BadArgument`](ErrorKind::BadArgument) for a malformed path, or no permits.
    pub fn new(client: impl Into<ClientSource>, path: impl AsRef<str>, permits: u32) -> Result<Self> {
        Self::with_options(client, path, Permits::Fixed(permits), LockOptions::default())
    }

    /// A semaphore at `path` with options.
    ///
    /// # Errors
    /// [`BadArgument`](ErrorKind::BadArgument) for a malformed path, no permits, a label that is too long, or options
    /// that a semaphore does not have: `reentrant(true)`, and another [`Naming`](crate::Naming) than Curator's.
    pub fn with_options(
        client: impl Into<ClientSource>,
        path: impl AsRef<str>,
        permits: impl Into<Permits>,
        options: LockOptions,
    ) -> Result<Self> {
        let (source, path, permits) = (client.into(), path.as_ref(), permits.into());
        // Of its two directories this one has the longer name, so its limit is the semaphore's.
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
        // The limit is one of permits; a turn lasts as long as the wait for them.
        let turn = LockSettings { max_hold: None, ..settings.clone() };
        let turns = Lock::with_part(source.clone(), path, TURNS, Kind::Exclusive, turn)?;
        let leases = Lock::with_part(source, path, LEASES, Kind::Permit(0), settings)?;
        Ok(Self { turns, leases, permits })
    }

    /// The semaphore's path, as given.
    #[must_use]
    pub fn path(&self) -> &str {
        self.leases.path()
    }

    /// The client on which the semaphore is; see [`Lock::client`].
    ///
    /// # Errors
    /// [`Forked`](ErrorKind::Forked).
    pub fn client(&self) -> Result<Client> {
        self.leases.client()
    }

    /// How many permits there are, as given.
    #[must_use]
    pub fn permits(&self) -> &Permits {
        &self.permits
    }

    /// Acquires a permit, waiting as long as it takes.
    ///
    /// Cancel safe: dropping the future leaves the queue; a grant that races it is released.
    ///
    /// # Errors
    /// As [`Lock::acquire`], also if the number of permits is to be read; [`PermitsMismatch`](ErrorKind::PermitsMismatch) if others on the path state another number
    /// of permits; [`BadArgument`](ErrorKind::BadArgument) if there is no number where it is to be read.
    pub async fn acquire(&self) -> Result<Lease> {
        self.acquire_with(Timeout::Forever).await
    }

    /// Like [`acquire`](Self::acquire), within `time`, which covers everything.
    ///
    /// Cancel safe as [`acquire`](Self::acquire).
    ///
    /// # Errors
    /// [`LockTimeout`](ErrorKind::LockTimeout), and those of [`acquire`](Self::acquire).
    pub async fn acquire_within(&self, time: Duration) -> Result<Lease> {
        self.acquire_with(time).await
    }

    /// Like [`acquire_within`](Self::acquire_within), until this moment.
    ///
    /// Cancel safe as [`acquire`](Self::acquire).
    ///
    /// # Errors
    /// As [`acquire_within`](Self::acquire_within).
    pub async fn acquire_until(&self, moment: std::time::Instant) -> Result<Lease> {
        self.acquire_with(moment).await
    }

    /// Acquires a permit if there is one, without waiting for it. One read if there is none, and one more where
    /// the number must be read. It does wait for its turn, for two seconds at most, behind a contender that is in the
    /// middle of taking permits. The connect time-out limits all of it together.
    ///
    /// Cancel safe as [`acquire`](Self::acquire).
    ///
    /// # Errors
    /// As [`Lock::try_acquire`], and those of [`acquire`](Self::acquire).
    pub async fn try_acquire(&self) -> Result<Option<Lease>> {
        busy_is_none(self.acquire_with(Timeout::Try).await)
    }

    /// Like [`try_acquire`](Self::try_acquire), but the servers have to answer within `time` in all, whatever the client's
    /// connect time-out is. It does not wait for a permit.
    ///
    /// Cancel safe as [`acquire`](Self::acquire).
    ///
    /// # Errors
    /// As [`Lock::try_acquire_within`], and those of [`acquire`](Self::acquire).
    pub async fn try_acquire_within(&self, time: Duration) -> Result<Option<Lease>> {
        busy_is_none(self.acquire_with(Timeout::TryWithin(time)).await)
    }

    /// Acquires a permit. With [`Timeout::Try`] none free is a [`LockTimeout`](ErrorKind::LockTimeout).
    ///
    /// Cancel safe as [`acquire`](Self::acquire).
    ///
    /// # Errors
    /// As [`acquire_within`](Self::acquire_within).
    pub async fn acquire_with(&self, timeout: impl Into<Timeout>) -> Result<Lease> {
        self.acquire_one(&Owner::new(), timeout.into()).await
    }

    /// The same, for a caller that reports name.
    pub(crate) async fn acquire_one(&self, caller: &Owner, timeout: Timeout) -> Result<Lease> {
        let leases = self.acquire_for(caller, 1, timeout).await?;
        leases.into_iter().next().ok_or_else(Error::client_closed)
    }

    /// Acquires `count` permits, all or none. Smaller requests cannot overtake. A request for more permits than a
    /// [`SharedCount`](Permits::SharedCount) has waits in its turn, without nodes for the permits: the number may grow.
    ///
    /// Cancel safe as [`acquire`](Self::acquire): no permit is kept.
    ///
    /// # Errors
    /// [`BadArgument`](ErrorKind::BadArgument) for no permits or more than a fixed number, and those of
    /// [`acquire_within`](Self::acquire_within); with [`Timeout::Try`] too few are a
    /// [`LockTimeout`](ErrorKind::LockTimeout).
    pub async fn acquire_many(&self, count: u32, timeout: impl Into<Timeout>) -> Result<Leases> {
        self.acquire_for(&Owner::new(), count, timeout.into()).await
    }

    /// The same, for a caller that reports name. Permits have no owner.
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
            // One attempt, however many contenders the queues had for it.
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
            self.expect_free(count, deadline).await?;
        } else if let Some(waiters) = self.leases.max_waiters() {
            self.expect_room(count, waiters, deadline).await?;
        } else {
            self.expect_number(deadline).await?;
        }
        loop {
            // The turn is taken only for a while: what the caller waits for, and will hold, are the permits.
            let time = match deadline.left() {
                Timeout::TryWithin(left) => Timeout::For(left.min(TRY_LIMIT)),
                time => time,
            };
            let uncounted = WaitTimer { counts: false, ..wait };
            let turn = self.turns.request_as(caller, Kind::Exclusive, time, uncounted)?.await;
            let turn = match turn {
                // Nothing is known of the turn without an answer: a try asks again until its bound.
                Err(error) if timeout.is_try() && error.is_unanswered() => {
                    if deadline.is_over() {
                        return Err(error.with_timeout_reason(TimeoutReason::Unreachable));
                    }
                    continue;
                }
                turn => turn?,
            };
            wait.contended |= turn.contended();
            // Without its turn it must not keep waiting: another contender may wait for permits now, and each could
            // keep a part of what both need.
            let leases = tokio::select! {
                biased;
                leases = self.take(caller, count, deadline, wait) => leases?,
                _ = turn.lost() => continue,
            };
            turn.release_in_background()?;
            return Ok(leases);
        }
    }

    /// Takes permits, in its turn. On leaving they go before the turn does.
    async fn take(&self, caller: &Owner, count: u32, deadline: Deadline, wait: WaitTimer) -> Result<Leases> {
        let resolved = self.leases.resolve()?;
        let news = resolved.holds.permit_news();
        let mut permits = self.number(deadline).await?;
        if matches!(self.permits, Permits::Fixed(_)) && news.compared.load(Ordering::Relaxed) != permits {
            self.compare(permits, deadline).await?;
            news.compared.store(permits, Ordering::Relaxed);
        }
        loop {
            // As long as there are too few, nodes would be of no use: they only tell how many are wanted.
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
            let waiting = news.waiting.notified();
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
                    // The requests in the queue run out of time as well, and their error names the blockers.
                    Err(error) if error.kind() == ErrorKind::LockTimeout => return leases.await,
                    changed => changed?,
                },
            };
        }
    }

    /// Asks for permits, all in one flight.
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
            // A permit that was granted before the others may have been lost while those were waited for: then all are
            // returned, and requested again.
            if leases.is_held() {
                return Ok(leases);
            }
            // Some that may be held only for a moment can never be had at once, and others would wait for this turn.
            if deadline.is_try() {
                let message = "one of several permits was lost while the others were tried; try again";
                return Err(Error::timed_out(TimeoutReason::Unknown, message));
            }
        }
    }

    /// Fails if there are too few permits now.
    async fn expect_free(&self, count: u32, deadline: Deadline) -> Result<()> {
        let (taken, permits) = self.taken(deadline).await?;
        if count > permits {
            return Err(self.too_few(count, permits));
        }
        if taken + count as usize <= permits as usize {
            return Ok(());
        }
        let message = format!(
            "{taken} of {permits} permits of {:?} are taken; `contenders()` tells by whom",
            self.path()
        );
        Err(Error::timed_out(TimeoutReason::Taken, message))
    }

    /// Fails if the attempt would have to wait, and as many wait already as may. All that take turns count as waiters: one
    /// that has its turn, and takes permits that are free, does so for a moment.
    async fn expect_room(&self, count: u32, waiters: u32, deadline: Deadline) -> Result<()> {
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

    /// More permits are wanted than there are: as good as taken, by an answer to this attempt.
    fn too_few(&self, count: u32, permits: u32) -> Error {
        let message =
            format!("{count} permits of {:?} are wanted, but there are only {permits}", self.path());
        Error::timed_out(TimeoutReason::Taken, message)
    }

    /// How many permits are taken or waited for in turn, out of how many.
    async fn taken(&self, deadline: Deadline) -> Result<(usize, u32)> {
        let permits = self.number(deadline).await?;
        let client = self.leases.resolve()?.client.clone();
        let reached = || client.was_connected();
        let taken = deadline.ask_until_answered(self.path(), reached, || self.leases.count()).await?;
        Ok((taken, permits))
    }

    /// The contenders for the semaphore: first those with permits and the one whose turn it is to wait for some, with a
    /// node per permit (`leases/…`); then those that take turns (`locks/…`), the first of which is that one. As many
    /// round trips as [`Lock::contenders`].
    ///
    /// Cancel safe: nothing is left behind.
    ///
    /// # Errors
    /// As [`Lock::contenders`].
    pub async fn contenders(&self) -> Result<Vec<Contender>> {
        let (mut leases, mut turns) = tokio::try_join!(self.leases.contenders(), self.turns.contenders())?;
        leases.append(&mut turns);
        for (position, contender) in leases.iter_mut().enumerate() {
            contender.position = position;
        }
        Ok(leases)
    }

    /// Whether no permit is free. One round trip, and one more if the number must be read; the answer may be out of
    /// date when it arrives.
    ///
    /// Cancel safe: nothing is left behind.
    ///
    /// # Errors
    /// As [`Lock::locked`], and [`BadArgument`](ErrorKind::BadArgument) if there is no number where it is to be read.
    pub async fn locked(&self) -> Result<bool> {
        let (taken, permits) = self.taken(Deadline::after(Timeout::Try)).await?;
        Ok(taken >= permits as usize)
    }

    /// The lock directory of its permits.
    pub(crate) fn leases(&self) -> &Lock {
        &self.leases
    }

    /// Fails in a process that inherited the client through fork.
    pub(crate) fn check_process(&self) -> Result<()> {
        self.leases.resolve()?.holds.origin.check()
    }
}
