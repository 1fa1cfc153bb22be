//! Slots: which run of a body it is.

use std::time::Duration;

use crate::error::{Error, Result};
use crate::runtime::clock;

/// The longest key, in bytes.
const LONGEST_KEY: usize = 256;

/// The shortest period.
const SHORTEST_PERIOD: Duration = Duration::from_secs(1);

/// A slot: which run of a body it is, for [`Mutex::once_as`](crate::Mutex::once_as).
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
pub struct Slot(Kind);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    Key(String),
    /// In milliseconds.
    Period(u64),
}

impl Slot {
    /// The slot with this name: 1 to 256 bytes of UTF-8 without control characters.
    ///
    /// # Errors
    /// [`BadArgument`](crate::ErrorKind::BadArgument), naming `key`.
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

    /// The current period of this length, as the local clock tells when the lock is acquired. Periods are counted from the
    /// beginning of 1970, in whole milliseconds.
    ///
    /// # Errors
    /// [`BadArgument`](crate::ErrorKind::BadArgument), naming `period`, if it is shorter than a second.
    pub fn per(period: Duration) -> Result<Self> {
        if period < SHORTEST_PERIOD {
            let problem = format!("is {period:?}, and must be at least {SHORTEST_PERIOD:?}");
            return Err(Error::bad_argument("period", problem));
        }
        Ok(Self(Kind::Period(millis(period))))
    }

    /// The slot at this moment.
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

/// A slot, with the number of the period if it is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CurrentSlot {
    pub(super) name: String,
    pub(super) period: Option<NumberedPeriod>,
}

/// One of the periods of a length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NumberedPeriod {
    /// How long each period is, in milliseconds.
    pub millis: u64,
    /// The number of the period, counted from the beginning of 1970.
    pub number: u64,
}
