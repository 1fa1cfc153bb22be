//! The releases of a contender's leases.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use zklock::ErrorKind;

use super::want::Want;
use super::{Attempt, Contender, milliseconds};
use crate::clock;
use crate::features::Feature;
use crate::oracle::{Granted, Mode, ReleaseKind};

/// The pending reply to a release.
type Answer = Pin<Box<dyn Future<Output = zklock::Result<()>>>>;

impl Contender {
    /// Returns `true` if a node was deleted before the time `then` and the client can have learned
    /// of it.
    fn was_broken(&self, node: &str, session: i64, then: u64) -> bool {
        let oracle = self.oracle.borrow();
        let gone = oracle.requests.gone_since(node).is_some_and(|gone| gone < then);
        gone && oracle.calm.lasts_since(then) && !oracle.is_closed(session)
    }

    /// Releases the leases one after another, each with a randomly chosen call. `attempt` is the
    /// attempt that acquired them, or `None` for a contender that runs slots.
    pub(super) async fn release(&mut self, granted: Vec<Granted>, attempt: Option<&Attempt>) {
        for one in granted {
            self.release_one(one, attempt).await;
        }
    }

    async fn release_one(&mut self, one: Granted, attempt: Option<&Attempt>) {
        let Granted { lease, node, place, mode, .. } = one;
        self.oracle.borrow_mut().ends(&lease, "releases");
        let limit = milliseconds(lease.remaining());
        let began = self.now();
        let held = lease.check().is_ok() && self.oracle.borrow().is_last(&node);
        let within = self.chance.skewed(0..=2 * self.setting.timeout);
        // The next call can hand the lock on immediately, so read the number of hand-offs first.
        let before = self.handoffs();
        let (most, mut answer): (u64, Option<Answer>) = match self.chance.index(6) {
            0 => {
                drop(lease);
                if held {
                    self.reports_release(attempt, (&node, place, mode), self.release_kind(before, None));
                }
                return;
            }
            1 => {
                lease.release_in_background().ok();
                (0, None)
            }
            2 => (within.min(limit), Some(Box::pin(lease.release_within(Duration::from_millis(within))))),
            _ => (limit, Some(Box::pin(lease.release()))),
        };
        // A release that completes immediately has sent nothing.
        let sent = match &mut answer {
            Some(answer) if most > 0 => {
                Some(!poll_fn(|cx| Poll::Ready(answer.as_mut().poll(cx).is_ready())).await)
            }
            _ => None,
        };
        let release_kind = self.release_kind(before, sent);
        if held {
            self.reports_release(attempt, (&node, place, mode), release_kind);
        }
        if let Some(answer) = answer.filter(|_| sent != Some(false)) {
            answer.await.ok();
        }
        // If the node no longer existed, the release must have reported that. A release that hands
        // the lock on or keeps the node sends no request. The code above checks such releases.
        let acknowledged = sent == Some(true) && most == limit && began.took() < limit;
        if held
            && acknowledged
            && lease.loss_reason().is_none()
            && self.was_broken(&node, lease.session_id(), began.at)
        {
            self.violation(&format!(
                "the release of {node} does not report a loss although the node was gone"
            ));
        }
        if self.is_late(began, most) {
            self.violation(&format!("a release took {} ms, more than {most}", began.took()));
        }
        let again = lease.release_in_background().map_err(|error| error.kind());
        if again != Err(ErrorKind::NotHeld) {
            self.violation(&format!("{node} is released twice: {again:?}"));
        }
        if lease.check().is_ok() {
            self.violation(&format!("{node} is held at {} ms, after its release", clock::now()));
        }
    }

    /// Returns the number of hand-offs by all clients.
    fn handoffs(&self) -> u64 {
        (0..self.clients.count()).map(|client| self.clients.get(client).stats().handoffs).sum()
    }

    /// Returns the kind of a release. `before` is the number of hand-offs before the release.
    /// `sent` is true if the release sent a request, and `None` if that is unknown.
    fn release_kind(&self, before: u64, sent: Option<bool>) -> ReleaseKind {
        match sent {
            _ if self.handoffs() > before => ReleaseKind::HandedOn,
            Some(true) => ReleaseKind::Deleted,
            Some(false) => ReleaseKind::Kept,
            None => ReleaseKind::Unseen,
        }
    }

    /// Reports to the oracle how the last hold on a node was released.
    fn reports_release(
        &self,
        attempt: Option<&Attempt>,
        hold: (&str, &'static str, Mode),
        release_kind: ReleaseKind,
    ) {
        let keeps = attempt.filter(|attempt| !matches!(attempt.want, Want::Permits(..) | Want::Lead));
        let linger =
            keeps.filter(|_| !matches!(hold.2, Mode::Permit(_))).map_or(0, |one| milliseconds(one.linger));
        if let Some(attempt) = attempt.filter(|_| release_kind == ReleaseKind::HandedOn) {
            attempt.meets(Feature::HandsOn);
        }
        let label = attempt.map_or("", |attempt| &attempt.label);
        self.oracle.borrow_mut().released(label, hold, release_kind, linger);
    }
}
