//! Progress cases: each measures the time until an event, and compares it with the bound in
//! docs/safety.md, section *How soon*. There are no faults and no contenders except those of the
//! case.
//!
//! A seed runs one case: a waiter whose blocker stops blocking, a lease that is lost, or a call
//! that must return. Consecutive seeds use different cases, so every sufficiently long run covers
//! all of them. Details within a case are random.

mod ends;
mod granted;
mod locks;
mod losses;
mod stage;

use std::fmt;
use std::rc::Rc;

pub use self::stage::Stage;
use crate::chance::Chance;
use crate::setting::Setting;

/// A case.
#[derive(Clone, Copy, Debug)]
pub enum Progress {
    /// A waiter must be granted a lock after its blocker is gone.
    Granted(granted::Case),
    /// All listeners must learn of a loss.
    Lost(losses::Case),
    /// A call must return, and the contender's node must be deleted.
    Ends(ends::Case),
}

impl Progress {
    /// Draws the case of a seed, with its setting.
    pub fn of(seed: u64) -> (Setting, Self) {
        let mut chance = Chance::of(seed, "progress", 0);
        let timeout = chance.pick(&[4_000, 10_000]);
        let servers = chance.pick(&[1, 3]);
        let setting = Setting::plain(servers, stage::CLIENTS, timeout, chance.pick(&[1, 5, 20]));
        let (group, turn) = (seed % 3, seed / 3);
        let progress = match group {
            0 => Self::Granted(granted::Case::of(turn, &mut chance)),
            1 => Self::Lost(losses::Case::of(turn, &mut chance)),
            _ => Self::Ends(ends::Case::of(turn)),
        };
        (Setting { duration: progress.duration(), ..setting }, progress)
    }

    /// Returns the minimum duration of the case.
    fn duration(self) -> u64 {
        match self {
            Self::Granted(case) => case.duration(),
            Self::Lost(_) | Self::Ends(_) => 0,
        }
    }

    /// Runs the case and judges it.
    pub async fn run(self, stage: Rc<Stage>) {
        stage.does(&format!("shows {self:?}"));
        let end = match self {
            Self::Granted(case) => case.run(&stage).await,
            Self::Lost(case) => case.run(&stage).await,
            Self::Ends(case) => case.run(&stage).await,
        };
        if let Err(wrong) = end {
            stage.violation(&format!("{self}: {wrong}"));
        }
        stage.does("is done");
    }
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Granted(case) => write!(f, "{case:?}"),
            Self::Lost(case) => write!(f, "{case:?}"),
            Self::Ends(case) => write!(f, "{case:?}"),
        }
    }
}
