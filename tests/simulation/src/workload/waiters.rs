//! Checks attempts that limit the number of waiters, and determines the queues that an attempt
//! joins.

use std::cell::RefCell;
use std::future::Future;
use std::rc::Rc;
use std::time::Duration;

use tokio::time::sleep;
use zklock::{Error, TimeoutReason};

use super::want::{Member, Want};
use super::{Attempt, Contender, Moment, SLACK};
use crate::features::Feature;
use crate::locks::{MUTEXES, READ_WRITE, SEMAPHORES};
use crate::oracle::{Joined, Oracle};

/// Awaits the result of an attempt. If too many contenders wait, also checks that the attempt is
/// refused promptly.
pub(super) async fn admitted<T>(
    oracle: &Rc<RefCell<Oracle>>,
    attempt: &Attempt,
    mut asking: impl Future<Output = T> + Unpin,
) -> T {
    let limit = attempt.waiters.filter(|_| !attempt.style.is_try());
    let full = limit.and_then(|limit| Some((limit, oracle.borrow().full_queue(&attempt.label, limit)?)));
    let Some((limit, full)) = full else { return asking.await };
    let entry = Duration::from_millis(oracle.borrow().calm.entry() + SLACK);
    tokio::select! {
        biased;
        answer = &mut asking => answer,
        () = sleep(entry) => {
            oracle.borrow_mut().judge_admitted(&attempt.label, limit, &full);
            asking.await
        }
    }
}

pub(super) fn is_full(error: &Error) -> bool {
    error.timeout_reason() == Some(TimeoutReason::Full)
}

impl Attempt {
    /// Records that the attempt's limit of waiters was checked.
    pub(super) fn admits(&self) {
        if self.waiters.is_some() {
            self.meets(Feature::LimitsWaiters);
        }
    }
}

impl Contender {
    /// Returns the numbers of the clients that an attempt uses, and the queues that it joins.
    pub(super) fn joins(&self, attempt: &Attempt) -> (Vec<usize>, Vec<Joined>) {
        let member = |member: &Member| match member {
            Member::Mutex(which) => Joined::Queue(MUTEXES[*which]),
            Member::Read | Member::Write => Joined::Queue(READ_WRITE),
            Member::Permit => Joined::Permits(&SEMAPHORES[0], 1),
        };
        let clients = match &attempt.want {
            Want::Several(members) if members.iter().any(|(_, other)| *other) => vec![self.of, self.other],
            _ => vec![self.of],
        };
        let joined = match &attempt.want {
            Want::Mutex(which) => vec![Joined::Queue(MUTEXES[*which])],
            Want::Read | Want::Write | Want::Downgrade => vec![Joined::Queue(READ_WRITE)],
            Want::Permits(which, count) => vec![Joined::Permits(&SEMAPHORES[*which], *count)],
            Want::Several(members) => members.iter().map(|(one, _)| member(one)).collect(),
            Want::Lead => Vec::new(),
        };
        (clients, joined)
    }

    /// Checks an attempt that was refused because too many contenders wait. It must have been
    /// refused soon, and the limit must have been reached.
    pub(super) fn judge_full(&self, attempt: &Attempt, began: Moment) {
        let mut oracle = self.oracle.borrow_mut();
        oracle
            .history
            .note(&format!("contender {} finds more than {:?} waiters", self.number, attempt.waiters));
        // An attempt for several locks can have waited for one lock before it was refused for the
        // next one.
        let most = oracle.calm.entry() + SLACK;
        let several = matches!(attempt.want, Want::Several(_));
        if !several && began.took() > most && oracle.calm.lasts_since(began.at) {
            oracle.violation(format!(
                "contender {}: {:?} is refused because of its waiters after {} ms",
                self.number,
                attempt.want,
                began.took()
            ));
        }
        // With several servers, the reply can come from a server that lags behind, and can contain
        // an earlier state.
        let since =
            if self.setting.servers == 1 { began.at } else { began.at.saturating_sub(oracle.calm.soon()) };
        if let Some(limit) = attempt.waiters
            && (self.setting.servers == 1 || oracle.calm.lasts_since(since))
        {
            oracle.judge_full(&attempt.label, limit, since);
        }
    }
}
