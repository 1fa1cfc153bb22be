//! Pauses between repeated creations of a contender's node, or of the lock directory.

use std::time::Duration;

use tokio::time::Instant;

use crate::runtime::backoff::RestartBackoff;

/// The pauses of one contender, or of one directory.
#[derive(Default)]
pub(super) struct Pacing {
    /// The time at which the last creation was due.
    last: Option<Instant>,
    backoff: RestartBackoff,
}

impl Pacing {
    /// Returns the pause before the next creation. It grows if creations follow one another
    /// quickly.
    pub(super) fn pause(&mut self) -> Duration {
        let now = Instant::now();
        let life = self.last.map(|last| now.saturating_duration_since(last));
        let pause = life.map_or(Duration::ZERO, |life| self.backoff.after(life));
        self.last = Some(now + pause);
        pause
    }

    /// Records a creation that needs no pause.
    pub(super) fn without_pause(&mut self) -> Duration {
        self.last = Some(Instant::now());
        Duration::ZERO
    }
}
