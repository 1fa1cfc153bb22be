//! Draws the queue over time in characters. Pure.

use std::time::Duration;

/// State of a contender in one sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LaneState {
    /// The contender has no node.
    Nothing,
    Waits,
    Holds,
    /// The process was killed, but its session has not expired yet.
    Orphaned,
}

impl LaneState {
    fn holds_lock(self) -> bool {
        matches!(self, Self::Holds | Self::Orphaned)
    }

    fn sign(self) -> char {
        match self {
            Self::Nothing => ' ',
            Self::Waits => '─',
            Self::Holds => '█',
            Self::Orphaned => '▒',
        }
    }
}

/// Minimum width of the labels before the lanes.
const LABEL: usize = 14;

/// Samples of all lanes over time.
#[derive(Debug)]
pub(super) struct Picture {
    lanes: Vec<String>,
    /// Width of the labels before the lanes.
    label: usize,
    step: Duration,
    samples: Vec<Vec<LaneState>>,
    killed: Option<(usize, usize)>,
}

impl Picture {
    /// Creates an empty picture. `step` is the time between two samples.
    pub(super) fn new(lanes: Vec<String>, step: Duration) -> Self {
        let longest = lanes.iter().map(|lane| lane.chars().count() + 1).max().unwrap_or_default();
        Self { lanes, label: longest.max(LABEL), step, samples: Vec::new(), killed: None }
    }

    pub(super) fn lanes(&self) -> &[String] {
        &self.lanes
    }

    pub(super) fn samples(&self) -> &[Vec<LaneState>] {
        &self.samples
    }

    pub(super) fn step(&self) -> Duration {
        self.step
    }

    /// Returns the lane of the killed process, and the number of samples before the kill.
    pub(super) fn killed(&self) -> Option<(usize, usize)> {
        self.killed
    }

    pub(super) fn add(&mut self, sample: Vec<LaneState>) {
        self.samples.push(sample);
    }

    /// Marks that a lane's process was killed now.
    pub(super) fn kill(&mut self, lane: usize) {
        self.killed = Some((lane, self.samples.len()));
    }

    /// Returns a line for each lane, an axis and a legend. `expected` is the approximate duration
    /// of the whole run.
    pub(super) fn lines(&self, width: usize, expected: Duration, colours: bool) -> Vec<String> {
        let label = self.label;
        let columns = width.saturating_sub(label).clamp(10, 120);
        let expected =
            usize::try_from(expected.as_millis() / self.step.as_millis().max(1)).unwrap_or(usize::MAX);
        let each = self.samples.len().max(expected).div_ceil(columns).max(1);
        let mut lines: Vec<_> = self.lanes.iter().map(|lane| format!("{lane:label$}")).collect();
        for (column, samples) in self.samples.chunks(each).enumerate() {
            // Within one column, several lanes can hold the lock. The column shows only the lane
            // that held it longest.
            let had = |lane: usize| samples.iter().filter(|sample| sample[lane].holds_lock()).count();
            let foremost = (0..lines.len()).max_by_key(|lane| (had(*lane), lines.len() - lane));
            for (lane, line) in lines.iter_mut().enumerate() {
                if self.killed.is_some_and(|(killed, at)| killed == lane && at / each == column) {
                    line.push_str(&tinted("✗", 31, colours));
                    continue;
                }
                let doing = column_of(samples, lane, foremost == Some(lane) && had(lane) > 0);
                line.push_str(&match doing {
                    LaneState::Holds => tinted("█", 32 + lane % 5, colours),
                    LaneState::Orphaned => tinted("▒", 31, colours),
                    other => other.sign().to_string(),
                });
            }
        }
        let lines = lines.into_iter().map(|line| line.trim_end().to_owned());
        lines.chain([self.axis(columns, each), format!("{:label$}{LEGEND}", "")]).collect()
    }

    /// Returns the axis with seconds.
    fn axis(&self, columns: usize, each: usize) -> String {
        let mut axis = " ".repeat(self.label);
        let column = self.step.as_secs_f64() * f64::from(u32::try_from(each).unwrap_or(u32::MAX));
        for second in 0..1000_u32 {
            // Column at which this second begins.
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "small, and not negative"
            )]
            let at = self.label + (f64::from(second) / column) as usize;
            let label = if second == 0 { "0 s".to_owned() } else { second.to_string() };
            if at + label.len() > self.label + columns {
                break;
            }
            if at > axis.len() || second == 0 {
                axis.push_str(&" ".repeat(at - axis.len()));
                axis.push_str(&label);
            }
        }
        axis
    }
}

const LEGEND: &str = "█ holds   ─ waits   ✗ killed   ▒ its session, until the server ends it";

fn column_of(samples: &[Vec<LaneState>], lane: usize, foremost: bool) -> LaneState {
    let seen = |doing: LaneState| samples.iter().any(|sample| sample[lane] == doing);
    if foremost {
        return if seen(LaneState::Orphaned) { LaneState::Orphaned } else { LaneState::Holds };
    }
    let waits = samples.iter().any(|sample| sample[lane] != LaneState::Nothing);
    if waits { LaneState::Waits } else { LaneState::Nothing }
}

fn tinted(sign: &str, colour: usize, colours: bool) -> String {
    if colours { format!("\x1b[{colour}m{sign}\x1b[0m") } else { sign.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_column_shows_two_holders() {
        use LaneState::{Holds, Nothing, Orphaned, Waits};
        let mut picture = Picture::new(vec!["a".into(), "b".into()], Duration::from_millis(500));
        for (a, b) in [(Holds, Waits), (Holds, Waits), (Holds, Waits), (Waits, Holds)] {
            picture.add(vec![a, b]);
        }
        picture.kill(1);
        for (a, b) in [(Waits, Orphaned), (Waits, Orphaned), (Holds, Nothing), (Nothing, Nothing)] {
            picture.add(vec![a, b]);
        }
        let lines = picture.lines(LABEL + 10, Duration::ZERO, false);
        assert_eq!(lines[0], "a             ███───█");
        assert_eq!(lines[1], "b             ───█✗▒");
        assert_eq!(lines[2], "              0 s 2 3 4");
        // Each column covers two samples. It shows the lane that held the lock in more samples, or
        // the first lane if they are equal.
        let lines = picture.lines(LABEL + 10, Duration::from_secs(10), false);
        assert_eq!(lines[0], "a             ██─█");
        assert_eq!(lines[1], "b             ──✗");
    }
}
