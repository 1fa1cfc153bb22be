//! `zklock run --once`: a command that runs once per slot.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use zklock::internal::once::{Record, Slot, Turn, begin};
use zklock::{AnyLock, Lease, Owner, Timeout};

use crate::duration;

/// Options that select the slot of a run.
#[derive(Args, Debug)]
#[command(next_help_heading = "Once per slot")]
pub(crate) struct OncePerSlot {
    /// Run the command unless KEY is the slot that was recorded last; record KEY if the command
    /// succeeds
    #[arg(long, value_name = "KEY", group = "slot", conflicts_with_all = ["exclusive", "shared", "slots"])]
    once: Option<String>,
    /// Run the command once in each period of this length, such as 1h or 1d; periods are counted
    /// from 1970
    #[arg(
        long,
        value_name = "TIME",
        group = "slot",
        value_parser = duration::parse,
        conflicts_with_all = ["exclusive", "shared", "slots"]
    )]
    once_per: Option<Duration>,
    /// When the slot is recorded
    #[arg(long, value_enum, default_value_t = When::Body, requires = "slot")]
    once_record: When,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum When {
    /// After the command has succeeded; a command that crashes or fails runs again
    Body,
    /// Before the command, which then runs at most once
    Start,
}

/// The lock while it is held.
pub(crate) enum Held {
    Lease(Lease),
    /// The lock, held for a slot.
    Turn(Turn),
}

impl Deref for Held {
    type Target = Lease;

    fn deref(&self) -> &Lease {
        match self {
            Self::Lease(lease) => lease,
            Self::Turn(turn) => turn.lease(),
        }
    }
}

impl OncePerSlot {
    /// Returns the requested slot, if any.
    pub(crate) fn slot(&self) -> zklock::Result<Option<Slot>> {
        match (&self.once, self.once_per) {
            (Some(key), _) => Slot::key(key).map(Some),
            (None, Some(period)) => {
                Slot::per(period).map(Some).map_err(|error| error.with_argument("--once-per"))
            }
            (None, None) => Ok(None),
        }
    }

    /// Acquires the lock. Returns `None` if the slot is already recorded.
    pub(crate) async fn acquire(
        &self,
        lock: &AnyLock,
        slot: Option<&Slot>,
        timeout: Timeout,
    ) -> zklock::Result<Option<Held>> {
        let Some(slot) = slot else {
            return lock.acquire_as(&Owner::new(), timeout).await.map(Held::Lease).map(Some);
        };
        let record = match self.once_record {
            When::Body => Record::AfterBody,
            When::Start => Record::Start,
        };
        Ok(begin(lock, &Owner::new(), slot, timeout, record).await?.map(Held::Turn))
    }

    /// Returns the message for a slot that is already recorded.
    pub(crate) fn skipped(&self, path: &str) -> String {
        match (&self.once, self.once_per) {
            (Some(key), _) => format!("slot {key:?} of {path:?} is recorded; the command is not run"),
            (None, period) => {
                let period = duration::in_days(period.unwrap_or_default());
                format!("this period of {period} of {path:?} is recorded; the command is not run")
            }
        }
    }
}

impl Held {
    /// Records the slot if the command has succeeded, then releases the lock. Returns the released
    /// lease.
    pub(crate) async fn end(self, succeeded: bool) -> (Arc<Lease>, zklock::Result<()>) {
        match self {
            Self::Lease(lease) => {
                lease.release().await.ok();
                (Arc::new(lease), Ok(()))
            }
            Self::Turn(turn) => {
                let lease = Arc::clone(turn.lease());
                let recorded = if succeeded { turn.record().await } else { turn.abandon().await.or(Ok(())) };
                (lease, recorded)
            }
        }
    }
}
