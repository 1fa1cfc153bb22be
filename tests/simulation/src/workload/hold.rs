//! The actions of a contender while it holds a lock.

use std::time::Duration;

use tokio::time::{sleep, sleep_until, timeout};
use zklock::{ClientState, ErrorKind, Lease, LeaseState, LossReason, Timeout};

use super::listen::Each;
use super::waiters::is_full;
use super::want::{WaitStyle, Want};
use super::{Attempt, Contender, Moment, milliseconds};
use crate::clients::CONNECT_TIMEOUT;
use crate::clock;
use crate::features::Feature;
use crate::locks::{CROWDED, SEMAPHORES};
use crate::oracle::{Granted, Mode};

/// Duration in milliseconds after which the client watches the node of a hold. From then on, the
/// contender learns immediately if the node is deleted.
const LONG_HOLD: u64 = 200;

impl Contender {
    pub(super) async fn hold(&mut self, mut granted: Vec<Granted>, attempt: &Attempt) {
        // Most holds are short. Some are so long that the client must send heartbeats.
        let most = if self.chance.percent(70) { self.setting.timeout / 5 } else { self.setting.timeout };
        let time = self.chance.skewed(0..=most);
        // A few last so long that the session would expire without heartbeats.
        let time = if self.chance.percent(4) { 3 * self.setting.timeout } else { time };
        let since = self.now();
        if self.chance.percent(15) || attempt.aims(Feature::Transacts) {
            self.transact(&granted, attempt).await;
        }
        if matches!(attempt.want, Want::Permits(CROWDED, _)) {
            self.list_place(SEMAPHORES[CROWDED].permits).await;
        }
        if attempt.aims(Feature::RunsOnce) {
            self.run_once_again(&granted[0], attempt).await;
        }
        if matches!(attempt.want, Want::Mutex(_) | Want::Read | Want::Write)
            && (self.chance.percent(20) || attempt.aims(Feature::EntersAgain))
        {
            self.enter_again(&mut granted, attempt).await;
        }
        if attempt.want == Want::Read && (self.chance.percent(20) || attempt.aims(Feature::Upgrades)) {
            self.upgrade(attempt).await;
        }
        // If the owner has acquired the lock twice (re-entry), release one of the two leases early.
        // When the lock is lost later, the released lease must not report the loss.
        let inner = (granted.len() > 1 && matches!(attempt.want, Want::Mutex(_) | Want::Read | Want::Write))
            .then(|| granted.remove(0));
        let ended = inner.as_ref().map(|inner| inner.lease.ended());
        if let Some(inner) = inner {
            let certain = granted[0].lease.check().is_ok();
            self.release(vec![inner], Some(attempt)).await;
            let now = granted[0].lease.check().map_err(|error| error.kind());
            if certain && !matches!(now, Ok(()) | Err(ErrorKind::LockLost)) {
                self.violation(&format!("{:?} is not held any more after one of two releases", attempt.want));
            }
        }
        self.is_disturbed(&granted, attempt).await;
        // Sometimes the contender holds the lock for longer than the limit.
        let limit = attempt.limit.filter(|_| self.chance.percent(50));
        let time = limit.map_or(time, |limit| time.max(milliseconds(limit) + 50));
        let mut lost = self.stay(&granted, attempt, since, time).await;
        let writes =
            attempt.want == Want::Write && (self.downgrades.percent(40) || attempt.aims(Feature::Downgrades));
        if (attempt.want == Want::Downgrade || writes)
            && !lost
            && let Some(reading) = self.downgrade(&granted[0], attempt).await
        {
            let (writing, since) = (std::mem::replace(&mut granted, reading), self.now());
            self.release(writing, Some(attempt)).await;
            lost = self.stay(&granted, attempt, since, time).await;
        }
        if let Some(ended) = ended
            && let Ok(Some(reason)) = timeout(Duration::ZERO, ended).await
        {
            self.violation(&format!("a level that was released is lost: {reason}"));
        }
        if lost {
            for Granted { lease, .. } in &granted {
                self.oracle.borrow_mut().ends(lease, "lost");
            }
        }
        self.release(granted, Some(attempt)).await;
    }

    /// Enters the lock again, which must succeed immediately.
    pub(super) async fn enter_again(&mut self, granted: &mut Vec<Granted>, attempt: &Attempt) {
        let first = granted[0].clone();
        let lock = match attempt.want {
            Want::Mutex(which) => self.mutex(attempt, which, false),
            Want::Read => self.half(attempt, false, false),
            _ => self.half(attempt, true, false),
        };
        let Ok(lock) = lock else { return };
        let wait_limit =
            *self.chance.pick(&[&Timeout::Try, &Timeout::For(Duration::ZERO), &Timeout::Forever]);
        if first.lease.check().is_err() {
            return;
        }
        let began = self.now();
        match lock.acquire_as(&attempt.owner, wait_limit).await {
            Ok(lease) => {
                let again = self.granted(self.of, first.place, first.mode, lease, (first.limit, first.grace));
                if began.took() > 0 || again.node != first.node {
                    self.violation(&format!("{:?} is not entered again, but acquired", attempt.want));
                }
                self.tell(std::slice::from_ref(&again));
                attempt.meets(Feature::EntersAgain);
                granted.push(again);
            }
            Err(error) if error.kind() == ErrorKind::ClientClosed => {}
            Err(error) => self.violation(&format!("{:?} is not entered again: {error}", attempt.want)),
        }
    }

    /// Asks for the write lock while the contender holds the read lock. The request must be refused
    /// immediately.
    async fn upgrade(&mut self, attempt: &Attempt) {
        let Ok(lock) = self.half(attempt, true, false) else { return };
        let (began, wait_limit) = (self.now(), Duration::from_millis(self.setting.timeout));
        let Ok(reading) = self.half(attempt, false, false).and_then(|lock| lock.owned_by(&attempt.owner))
        else {
            return;
        };
        if !reading {
            return;
        }
        attempt.meets(Feature::Upgrades);
        match lock.acquire_as(&attempt.owner, wait_limit).await {
            Err(error) if error.kind() == ErrorKind::UpgradeRefused && began.took() == 0 => {}
            Err(error) if error.kind() == ErrorKind::ClientClosed => {}
            other => {
                let took = began.took();
                self.violation(&format!(
                    "a reader that requests the write lock gets {other:?} after {took} ms"
                ));
            }
        }
    }

    /// Acquires the read lock while the contender holds the write lock. Sometimes another client
    /// breaks the write lock at the same time.
    async fn downgrade(&mut self, writing: &Granted, attempt: &Attempt) -> Option<Vec<Granted>> {
        let time = self.downgrades.skewed(0..=self.setting.timeout);
        let style = match self.downgrades.index(4) {
            0 | 1 if attempt.want == Want::Downgrade => WaitStyle::Wait,
            3 => WaitStyle::Within(time),
            _ => WaitStyle::Try,
        };
        self.now_does(&format!("downgrades, {style:?}"));
        attempt.meets(Feature::Downgrades);
        // The servers can receive the two requests in either order.
        let breaks = self.downgrades.percent(40);
        let pause = Duration::from_millis(self.downgrades.number(0..=4 * self.setting.latency));
        let breaking = async {
            if breaks {
                self.break_through(self.other, &writing.node).await;
            }
        };
        let asking = async {
            if breaks {
                sleep(pause).await;
            }
            self.ask_to_read(writing, attempt, style).await
        };
        tokio::join!(asking, breaking).0
    }

    async fn ask_to_read(
        &self,
        writing: &Granted,
        attempt: &Attempt,
        style: WaitStyle,
    ) -> Option<Vec<Granted>> {
        let lock = self.half(attempt, false, false).ok()?;
        self.oracle.borrow_mut().reads_on(&attempt.label);
        self.oracle.borrow_mut().prompt.asks(self.number, true);
        let began = self.now();
        let acquired = lock.acquire_as(&attempt.owner, style.wait_limit()).await;
        let most = match style {
            WaitStyle::Within(time) => Some(time),
            WaitStyle::Try => Some(milliseconds(CONNECT_TIMEOUT)),
            WaitStyle::Wait | WaitStyle::GiveUp(_) => None,
        };
        if most.is_some_and(|most| self.is_late(began, most)) {
            self.violation(&format!("a downgrade, {style:?}, took {} ms", began.took()));
        }
        match acquired {
            Ok(lease) => {
                let granted = vec![self.granted(
                    self.of,
                    crate::locks::READ_WRITE,
                    Mode::Shared,
                    lease,
                    (attempt.limit, attempt.grace),
                )];
                self.tell(&granted);
                self.oracle.borrow_mut().judge_grants(&granted);
                Some(granted)
            }
            Err(error) => {
                self.failed(attempt, &Want::Downgrade, style, &error);
                // A writer that also acquires the read lock cannot be refused, because it excludes
                // all other contenders.
                let taken = (style.is_try() || is_full(&error)) && error.kind() == ErrorKind::LockTimeout;
                if taken && self.oracle.borrow().node_is_certain(&writing.node) {
                    self.violation(&format!("a writer that tries to read is refused: {error}"));
                }
                None
            }
        }
    }

    /// Waits for the given time while the contender holds the lock. Returns early if the lock is
    /// lost or the contender is asked to give it up. Returns `true` if a lease was lost.
    pub(super) async fn stay(
        &mut self,
        granted: &[Granted],
        attempt: &Attempt,
        since: Moment,
        time: u64,
    ) -> bool {
        let listens = self.chance.percent(60);
        let gives_up = self.chance.percent(50);
        let leases = || granted.iter().map(|one| &*one.lease);
        let mut losses = Each::of(leases().map(Lease::lost));
        let mut requests = Each::of(leases().filter(|_| listens).map(Lease::revoked));
        let (from, mut heard) = (clock::now(), vec![false; granted.len()]);
        let end = clock::at(from + time);
        let lost: Option<(usize, LossReason)> = loop {
            tokio::select! {
                biased;
                lost = losses.next() => break Some(lost),
                (place, ()) = requests.next() => {
                    heard[place] = true;
                    attempt.meets(Feature::IsAsked);
                    self.is_asked(&granted[place]);
                    if gives_up {
                        break None;
                    }
                }
                () = sleep_until(end) => break None,
            }
        };
        if let Some((place, reason)) = lost {
            self.oracle.borrow_mut().history.note(&format!("contender {} is told: {reason}", self.number));
            self.expect_reason(&granted[place], attempt, reason);
            self.expect_end_in_time(attempt, since, from, reason);
        } else if let Some(limit) = attempt.limit
            && self.is_late(since, milliseconds(limit))
        {
            self.violation(&format!("{:?} is held after {limit:?}", attempt.want));
        }
        for (one, heard) in granted.iter().zip(heard) {
            self.expect_news(one, since, from, listens, heard);
        }
        if let Some((place, reason)) = lost {
            self.expect_loss_to_last(&granted[place], reason).await;
        }
        lost.is_some() || leases().any(|lease| lease.check().is_err())
    }

    fn is_asked(&self, Granted { node, .. }: &Granted) {
        self.oracle.borrow_mut().history.note(&format!("contender {} is asked for {node}", self.number));
        if !self.oracle.borrow().requests.is_asked(node) {
            self.violation(&format!("the owner of {node} is asked to give up, but no contender has asked"));
        }
    }

    /// Checks that the reported reason of a loss can be true.
    pub(super) fn expect_reason(&self, one: &Granted, attempt: &Attempt, reason: LossReason) {
        let closed = attempt.through.iter().any(|client| client.state() == ClientState::Closed);
        let oracle = self.oracle.borrow();
        let calm = oracle.calm.lasts_since(clock::now());
        let expected = match reason {
            LossReason::ClientClosed => closed,
            LossReason::HeldTooLong => attempt.limit.is_some(),
            LossReason::NodeDeleted => !calm || oracle.requests.is_broken(&one.node),
            LossReason::SessionExpired => !calm,
            // The term of a lease can end even while no fault has an effect, because several
            // consecutive slow messages between servers can delay the reply to a heartbeat.
            LossReason::TermEnded => {
                oracle.term_left(&one.node).is_none_or(|left| left <= milliseconds(attempt.grace))
            }
            _ => true,
        };
        drop(oracle);
        if !expected {
            self.violation(&format!("{} is reported as lost: {reason}", one.node));
        }
    }

    /// Checks that a hold with a limit ends in time.
    pub(super) fn expect_end_in_time(&self, attempt: &Attempt, since: Moment, from: u64, reason: LossReason) {
        let limit = attempt.limit.filter(|_| reason == LossReason::HeldTooLong).map(milliseconds);
        // If the contender was busy when the hold limit expired, it notices the end only when it
        // begins to wait, at the time `from`.
        let limit = limit.map(|limit| limit.max(from - since.at));
        if limit.is_some_and(|limit| self.is_late(since, limit)) {
            self.violation(&format!("{:?} has ended after {} ms of {limit:?}", attempt.want, since.took()));
        }
    }

    /// Checks that a lost lease stays lost, for the same reason.
    async fn expect_loss_to_last(&mut self, one: &Granted, reason: LossReason) {
        if self.chance.percent(25) {
            let time = self.chance.skewed(0..=2 * self.setting.timeout);
            sleep(Duration::from_millis(time)).await;
        }
        let state = one.lease.state();
        if state != LeaseState::Lost(reason) {
            self.violation(&format!("{} was lost: {reason}, but is {state:?}", one.node));
        }
    }

    /// Checks that the contender soon notices if its node is deleted. If `listens` is true, it must
    /// also notice a request to give up the lock.
    fn expect_news(&self, one: &Granted, since: Moment, from: u64, listens: bool, heard: bool) {
        let oracle = self.oracle.borrow();
        let (now, soon, held) = (clock::now(), oracle.calm.soon(), one.lease.check().is_ok());
        let is_late = |at: u64| at + soon < now && oracle.calm.lasts_since(at);
        let gone = oracle.requests.gone_since(&one.node).map(|at| at.max(since.at + LONG_HOLD));
        let asked = oracle.requests.asked_since(&one.node).map(|at| at.max(from));
        let deaf = listens
            && self.setting.private != Some(self.of)
            && !heard
            && held
            && gone.is_none()
            && asked.is_some_and(is_late);
        let unaware = held && gone.is_some_and(is_late);
        drop(oracle);
        if deaf {
            self.violation(&format!("the owner of {} does not receive the request to give up", one.node));
        }
        if unaware {
            self.violation(&format!("{} is held although its node was deleted long ago", one.node));
        }
    }
}
