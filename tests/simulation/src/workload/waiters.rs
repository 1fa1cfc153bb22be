//! The queue that an attempt joins, and the judge of one that limits how many may wait.

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

/// The answer to an attempt. If it is certain to be refused, since too many wait, it does not wait for longer than the
/// answer takes.
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

/// Whether an attempt was refused because too many wait.
pub(super) fn is_full(error: &Error) -> bool {
    error.timeout_reason() == Some(TimeoutReason::Full)
}

impl Attempt {
    /// A limit of those that wait was kept: it was admitted, or refused.
    pub(super) fn admits(&self) {
        if self.waiters.is_some() {
            self.meets(Feature::LimitsWaiters);
        }
    }
}

impl Contender {
    /// The clients through which an attempt asks, and the queues that it joins.
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

    /// An attempt is refused because as many wait as it permits: at once, and only if as many do.
    pub(super) fn judge_full(&self, attempt: &Attempt, began: Moment) {
        let mut oracle = self.oracle.borrow_mut();
        oracle
            .history
            .note(&format!("contender {} finds more than {:?} waiters", self.number, attempt.waiters));
        // An attempt for several locks may have waited for the first.
        let most = oracle.calm.entry() + SLACK;
        let several = matches!(attempt.want, Want::Several(_));
        if !several && began.took() > most && oracle.calm.reigns_since(began.at) {
            oracle.violation(format!(
                "contender {}: {:?} is refused because of its waiters after {} ms",
                self.number,
                attempt.want,
                began.took()
            ));
        }
        // A single server knows everything. Of several, the one that answers may lag behind.
        let since =
            if self.setting.servers == 1 { began.at } else { began.at.saturating_sub(oracle.calm.soon()) };
        if let Some(limit) = attempt.waiters
            && (self.setting.servers == 1 || oracle.calm.reigns_since(since))
        {
            oracle.judge_full(&attempt.label, limit, since);
        }
    }
}
