//! Companions. A companion is a second contender of the same client. It holds the lock before or
//! after an attempt, so that both use the same node.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use tokio::time::sleep;
use zklock::Owner;

use super::want::{WaitStyle, Want};
use super::{Attempt, Contender};
use crate::chance::Chance;
use crate::features::{Feature, Features};
use crate::oracle::Granted;

/// Companions have numbers above those of contenders and visitors.
const COMPANIONS: usize = 100;

/// The action of a companion that helps an attempt reach its aims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Help {
    /// The companion holds the lock before the attempt and keeps the node.
    Keeps,
    /// The companion holds the lock before the attempt and hands it on.
    HandsOn,
    /// The companion waits for the lock while the attempt holds it.
    Waits,
}

impl Help {
    /// Returns the action of a companion before the attempt's hold, and the action during the hold.
    /// A try does not wait, so it cannot receive a hand-off from the companion.
    fn of(attempt: &Attempt) -> [Option<Self>; 2] {
        let (keeps, hands_on) = (attempt.aims(Feature::Keeps), attempt.aims(Feature::HandsOn));
        let waits = hands_on && (keeps || attempt.style.is_try());
        let before =
            if keeps { Some(Self::Keeps) } else { Some(Self::HandsOn).filter(|_| hands_on && !waits) };
        [before, waits.then_some(Self::Waits)]
    }
}

impl Contender {
    /// Acquires the lock of an attempt. If the attempt needs a companion before its hold, the
    /// companion holds the lock first.
    pub(super) async fn acquire_after_others(&mut self, attempt: &Attempt) -> Option<Vec<Granted>> {
        let [Some(help), _] = Help::of(attempt) else { return self.acquire(attempt).await };
        let (mut companion, before) = self.companion(attempt);
        let Some(granted) = companion.join(&before).await else { return self.acquire(attempt).await };
        if help == Help::Keeps {
            // Release the companion's lock immediately, or after the client has had time to learn
            // of waiters of other clients.
            if companion.chance.percent(50) {
                companion.leave(granted, &before).await;
            } else {
                companion.leave_soon(granted, &before).await;
            }
            return self.acquire(attempt).await;
        }
        tokio::join!(self.acquire(attempt), companion.leave_soon(granted, &before)).0
    }

    /// Holds the lock of an attempt. If the attempt needs a companion during its hold, that
    /// companion waits for the lock until the hold ends.
    pub(super) async fn hold_before_others(&mut self, granted: Vec<Granted>, attempt: &Attempt) {
        let [_, Some(_)] = Help::of(attempt) else { return self.hold(granted, attempt).await };
        let (mut companion, after) = self.companion(attempt);
        let follows = async {
            if let Some(granted) = companion.join(&after).await {
                companion.leave(granted, &after).await;
            }
        };
        tokio::join!(self.hold(granted, attempt), follows);
    }

    /// Creates a companion and its attempt, which is for the same lock and has the same options.
    /// The companion uses a separate sequence of random numbers.
    fn companion(&self, attempt: &Attempt) -> (Self, Attempt) {
        let Attempt { grace, waiters, cohort, linger, .. } = *attempt;
        let number = COMPANIONS + self.number;
        let companion = Self {
            number,
            chance: Chance::of(self.seed, &format!("companion {}", self.attempts), number),
            doing: Rc::default(),
            ..self.clone()
        };
        let names: Features =
            attempt.aims.iter().copied().filter(|aim| *aim == Feature::KazooNames).collect();
        let attempt = Attempt {
            label: format!("{number}.{}", self.attempts),
            want: if attempt.want == Want::Downgrade { Want::Write } else { attempt.want.clone() },
            style: WaitStyle::Within(self.setting.timeout),
            owner: Owner::new(),
            limit: None,
            grace,
            waiters,
            cohort,
            linger,
            aims: names,
            met: RefCell::default(),
            through: attempt.through.clone(),
        };
        (companion, attempt)
    }

    async fn join(&mut self, attempt: &Attempt) -> Option<Vec<Granted>> {
        let granted = self.acquire(attempt).await;
        if granted.is_none() {
            self.oracle.borrow_mut().is_through(&attempt.label);
        }
        granted
    }

    async fn leave(&mut self, granted: Vec<Granted>, attempt: &Attempt) {
        self.release(granted, Some(attempt)).await;
        self.oracle.borrow_mut().is_through(&attempt.label);
    }

    async fn leave_soon(&mut self, granted: Vec<Granted>, attempt: &Attempt) {
        sleep(Duration::from_millis(self.chance.skewed(1..=self.setting.timeout / 8))).await;
        self.leave(granted, attempt).await;
    }
}
