//! Slots: the identity of one run of a body.

use std::time::Duration;

use crate::error::{Error, Result};
use crate::runtime::clock;

const LONGEST_KEY: usize = 256;

const SHORTEST_PERIOD: Duration = Duration::from_secs(1);

/// A key or a period, under which [`Mutex::once_as`](crate::Mutex::once_as) records a run.
///
/// ```
/// use std::time::Duration;
/// use zklock::Slot;
///
/// # fn main() -> zklock::Result<()> {
/// let night = Slot::key("2026-11-26")?;
/// let hourly = Slot::per(Duration::from_secs(3600))?;
/// # assert_ne!(night, hourly);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OnceSlot(Kind);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    Key(String),
    /// Length of the period in milliseconds.
    Period(u64),
}

impl OnceSlot {
    /// Creates the slot with this key: 1 to 256 bytes of UTF-8 without control characters.
    ///
    /// # Errors
    /// [`BadArgument`](crate::ErrorKind::BadArgument) with the argument `key` for any other key.
    pub fn key(key: impl Into<String>) -> Result<Self> {
        let key = key.into();
        let bad = |problem: String| Err(Error::bad_argument("key", problem));
        match key.len() {
            0 => bad("must not be empty".to_owned()),
            1..=LONGEST_KEY if !key.contains(char::is_control) => Ok(Self(Kind::Key(key))),
            1..=LONGEST_KEY => bad(format!("contains a control character: {key:?}")),
            length => bad(format!("is {length} bytes long; the limit is {LONGEST_KEY} bytes")),
        }
    }

    /// Creates a slot that represents the current period of this length.
    ///
    /// The local clock determines the current period when the lock is acquired. Periods are counted
    /// from the beginning of 1970, in whole milliseconds.
    ///
    /// # Errors
    /// [`BadArgument`](crate::ErrorKind::BadArgument) with the argument `period` if it is shorter
    /// than a second.
    pub fn per(period: Duration) -> Result<Self> {
        if period < SHORTEST_PERIOD {
            let problem = format!("is {period:?}, and must be at least {SHORTEST_PERIOD:?}");
            return Err(Error::bad_argument("period", problem));
        }
        Ok(Self(Kind::Period(millis(period))))
    }

    /// Returns the slot at the current time.
    pub(super) fn now(&self) -> CurrentSlot {
        match &self.0 {
            Kind::Key(key) => CurrentSlot { name: key.clone(), period: None },
            Kind::Period(per) => {
                let number = millis(clock::since_1970()) / per;
                CurrentSlot {
                    name: number.to_string(),
                    period: Some(NumberedPeriod { millis: *per, number }),
                }
            }
        }
    }
}

fn millis(time: Duration) -> u64 {
    time.as_millis().try_into().unwrap_or(u64::MAX)
}

/// The name of a slot. If the slot is a period, this type also contains the number of the current
/// period.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CurrentSlot {
    pub(super) name: String,
    pub(super) period: Option<NumberedPeriod>,
}

/// One period, identified by its length and number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NumberedPeriod {
    /// Length of each period in milliseconds.
    pub millis: u64,
    /// Number of the period, counted from the beginning of 1970.
    pub number: u64,
}
