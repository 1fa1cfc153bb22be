//! The counting semaphore.

use std::time::Duration;

use tokio::time::Instant;

use crate::error::{Error, ErrorKind, Result};
use crate::lease::Lease;
use crate::lock::{ClientSource, Lock, LockOptions, busy_is_none};
use crate::options::{Clock, Patience, check_path};
use crate::owner::Owner;
use crate::queue::Kind;

/// How long a try waits for somebody else who is in the middle of taking permits: a few round trips.
const TRY_LIMIT: Duration = Duration::from_secs(2);

/// A fair semaphore with a number of permits, taken in the layout of Curator's `InterProcessSemaphoreV2`.
///
/// Contenders take turns by a mutex, and the one whose turn it is waits for its permits: whoever wants many is not
/// overtaken by those who want few, and no two can each keep a part of what both need. Every permit is a
/// [`Lease`] of its own, released on its own, by anybody. Not reentrant. Fencing tokens of permits that are held at the
/// same time are not comparable.
///
/// All contenders on a path must agree on the number of permits.
#[derive(Debug)]
pub struct Semaphore {
    turns: Lock,
    leases: Lock,
    permits: u32,
}

impl Semaphore {
    /// A semaphore at `path`, an absolute path below the client's chroot, with so many permits.
    ///
    /// # Errors
    /// [`BadArgument`](ErrorKind::BadArgument) for a malformed path, or no permits.
    pub fn new(client: impl Into<ClientSource>, path: &str, permits: u32) -> Result<Self> {
        Self::with_options(client, path, permits, LockOptions::default())
    }

    /// A semaphore at `path` with options, of which `reentrant` and `naming` have no meaning here.
    ///
    /// # Errors
    /// [`BadArgument`](ErrorKind::BadArgument) for a malformed path, or no permits.
    pub fn with_options(
        client: impl Into<ClientSource>,
        path: &str,
        permits: u32,
        options: LockOptions,
    ) -> Result<Self> {
        check_path("path", path)?;
        if permits == 0 {
            return Err(Error::bad_argument("permits", "must be at least 1"));
        }
        let source = client.into();
        let turns = Lock::new(source.clone(), &format!("{path}/locks"), Kind::Exclusive, options.clone())?;
        let leases = Lock::new(source, &format!("{path}/leases"), Kind::Permit(permits), options)?;
        Ok(Self { turns, leases, permits })
    }

    /// Acquires a permit, waiting as long as it takes.
    ///
    /// Cancel safe: dropping the future leaves the queue; a grant that races it is released.
    ///
    /// # Errors
    /// As [`Lock::acquire`].
    pub async fn acquire(&self) -> Result<Lease> {
        self.acquire_one(Patience::Forever).await
    }

    /// Like [`acquire`](Self::acquire), within `time`, which covers everything.
    ///
    /// Cancel safe as [`acquire`](Self::acquire).
    ///
    /// # Errors
    /// [`LockTimeout`](ErrorKind::LockTimeout), and those of [`acquire`](Self::acquire).
    pub async fn acquire_within(&self, time: Duration) -> Result<Lease> {
        self.acquire_one(Patience::For(time)).await
    }

    /// Acquires a permit if there is one, without waiting for it. One read if there is none.
    ///
    /// Cancel safe as [`acquire`](Self::acquire).
    ///
    /// # Errors
    /// As [`Lock::try_acquire`].
    pub async fn try_acquire(&self) -> Result<Option<Lease>> {
        busy_is_none(self.acquire_one(Patience::Try).await)
    }

    async fn acquire_one(&self, patience: Patience) -> Result<Lease> {
        let mut leases = self.acquire_many(1, patience).await?;
        leases.pop().ok_or_else(Error::client_closed)
    }

    /// Acquires `count` permits, all or none. Others with fewer wishes do not come in between.
    ///
    /// Cancel safe as [`acquire`](Self::acquire): none is kept.
    ///
    /// # Errors
    /// [`BadArgument`](ErrorKind::BadArgument) for no permits or more than there are, and those of
    /// [`acquire_within`](Self::acquire_within); with [`Patience::Try`] too few are a
    /// [`LockTimeout`](ErrorKind::LockTimeout).
    pub async fn acquire_many(&self, count: u32, patience: Patience) -> Result<Vec<Lease>> {
        if count == 0 || count > self.permits {
            let problem = format!("must be between 1 and the {} permits", self.permits);
            return Err(Error::bad_argument("count", problem));
        }
        let clock = match patience {
            Patience::Try => {
                self.expect_free(count).await?;
                Clock::start(Patience::For(TRY_LIMIT))
            }
            patience => Clock::start(patience),
        };
        let since = Instant::now();
        // Taken by the way: what the caller waits for, and will hold, are the permits.
        let turn = self.turns.request_since(Owner::new(), clock.left(), || None)?.granted().await?;
        // Asked for together, so that they are in one flight. On leaving they go before the turn does.
        let mut requests = Vec::new();
        for _ in 0..count {
            let patience = if patience == Patience::Try { Patience::Try } else { clock.left() };
            requests.push(self.leases.request_since(Owner::new(), patience, || Some(since))?);
        }
        let mut leases = Vec::new();
        for request in requests {
            leases.push(request.granted().await?);
        }
        turn.release_in_background()?;
        Ok(leases)
    }

    /// Fails if there are too few permits now.
    async fn expect_free(&self, count: u32) -> Result<()> {
        let taken = self.leases.count().await?;
        if taken + count as usize <= self.permits as usize {
            return Ok(());
        }
        self.leases.note_busy()?;
        let message = format!("{taken} of {} permits of {} are taken", self.permits, self.leases.path());
        Err(Error::new(ErrorKind::LockTimeout, message))
    }
}
