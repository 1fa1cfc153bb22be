//! How a contender lets go.

use std::time::Duration;

use zklock::ErrorKind;

use super::{Contender, milliseconds};
use crate::clock;
use crate::oracle::Granted;

impl Contender {
    /// Whether a node was gone for certain before then, and nothing was in the way of hearing of it.
    fn was_broken(&self, node: &str, session: i64, then: u64) -> bool {
        let oracle = self.oracle.borrow();
        let gone = oracle.requests.gone_since(node).is_some_and(|gone| gone < then);
        gone && oracle.calm.reigns_since(then) && !oracle.is_closed(session)
    }

    /// Releases all, one after the other, in one of several ways.
    pub(super) async fn release(&mut self, granted: Vec<Granted>) {
        for Granted { lease, node, .. } in granted {
            self.oracle.borrow_mut().ends(&lease, "releases");
            let limit = milliseconds(lease.remaining());
            let began = self.now();
            let held = lease.check().is_ok() && self.oracle.borrow().is_last(&node);
            let within = self.chance.skewed(0..=2 * self.setting.timeout);
            let most = match self.chance.index(6) {
                0 => {
                    drop(lease);
                    continue;
                }
                1 => {
                    lease.release_in_background().ok();
                    0
                }
                2 => {
                    lease.release_within(Duration::from_millis(within)).await.ok();
                    within.min(limit)
                }
                _ => {
                    lease.release().await.ok();
                    limit
                }
            };
            let acknowledged = most == limit && began.took() < limit;
            // Where nodes are kept a release waits for no answer.
            if held
                && !self.may_keep()
                && acknowledged
                && lease.loss_reason().is_none()
                && self.was_broken(&node, lease.session_id(), began.at)
            {
                self.violation(&format!("{node} is released, and not said to be lost, although it was gone"));
            }
            if self.is_late(began, most) {
                self.violation(&format!("a release took {} ms of {most}", began.took()));
            }
            let again = lease.release_in_background().map_err(|error| error.kind());
            if again != Err(ErrorKind::NotHeld) {
                self.violation(&format!("{node} is released twice: {again:?}"));
            }
            if lease.check().is_ok() {
                self.violation(&format!("{node} is held at {} ms, after its release", clock::now()));
            }
        }
    }
}
