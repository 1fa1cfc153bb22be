//! How soon: every promise of progress has a bound, and is judged against it in a world where nothing else happens.
//!
//! A seed shows one case: a waiter whose blocker goes, a lease that is lost, or a call that has to return. The cases take
//! turns, so that each comes up in any run that is long enough; what varies within a case is drawn. docs/safety.md, *How
//! soon*, lists the bounds.

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

/// One case.
#[derive(Clone, Copy, Debug)]
pub enum Progress {
    /// A waiter is granted a lock when its blocker is gone.
    Granted(granted::Case),
    /// A loss is told to everybody who listens.
    Lost(losses::Case),
    /// A call returns, and what it leaves behind goes.
    Ends(ends::Case),
}

impl Progress {
    /// That of a seed, and where it happens.
    pub fn of(seed: u64) -> (Setting, Self) {
        let mut chance = Chance::of(seed, "progress", 0);
        let timeout = chance.pick(&[4_000, 10_000]);
        let servers = chance.pick(&[1, 3]);
        let setting = Setting::plain(servers, stage::CLIENTS, timeout, chance.pick(&[1, 5, 20]));
        // Each group has as many seeds as the others, and goes through its own cases.
        let (group, turn) = (seed % 3, seed / 3);
        let progress = match group {
            0 => Self::Granted(granted::Case::of(turn, &mut chance)),
            1 => Self::Lost(losses::Case::of(turn, &mut chance)),
            _ => Self::Ends(ends::Case::of(turn)),
        };
        (Setting { duration: progress.duration(), ..setting }, progress)
    }

    /// For how long it takes at least.
    fn duration(self) -> u64 {
        match self {
            Self::Granted(case) => case.duration(),
            Self::Lost(_) | Self::Ends(_) => 0,
        }
    }

    /// Lets it happen, and judges.
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
