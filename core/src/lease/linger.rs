//! Nodes that a client keeps for a while without a hold (the option `linger`).
//!
//! The next acquire reuses a kept node, on the caller's thread and without a request.
//!
//! This is safe for these reasons:
//! * The node in the queue stays the same, so other clients notice no change.
//! * A new hold needs the same conditions as a grant: the session is connected, and enough time is
//!   left in its *term*, the time during which the server does not expire the session.
//! * Every change to the kept nodes happens under the holds' mutex. No acquire reuses a node that
//!   the driver has already decided to delete.
//!
//! Other waiters are not delayed for long, for these reasons:
//! * A node is reused only while the driver watches the lock's directory and finds no waiter behind
//!   the node.
//! * If a waiter appears behind the node, or if a waiter of this client cannot use the kept nodes,
//!   the driver deletes all of them. No node is kept again before the next grant.
//! * The `linger` time of a node begins at its first release. Reusing the node does not extend it.

use std::sync::Arc;
use std::time::Duration;

use crate::lease::Lease;
use crate::lease::cohort::SharedNode;
use crate::lease::hold::{Grant, Hold, HoldIndex, HoldTable, Notice};
use crate::lease::request::{AcquireRequest, Grace};
use crate::lease::state::LeaseState;
use crate::queue::{Access, KeptNodes, Kind, Naming, NodeName, is_kazoos};
use crate::runtime::clock::BootInstant;

/// Maximum number of times that a client gives up its kept nodes within the `linger` time. After
/// that, it keeps no nodes for a pause of the same length.
const MAX_GIVEN_UP: u32 = 8;

/// With at least this number of reuses, the option `linger` saves more requests than it costs.
const MIN_RETAKES: u64 = 8;

/// The kept nodes of a lock, and the state that decides whether more nodes can be kept.
#[derive(Default)]
pub(crate) struct Lingering {
    nodes: KeptNodes<KeptNode>,
    /// Time when the client first gave up its nodes, and how often it has done so since then.
    given_up: Option<(BootInstant, u32)>,
    /// End of the pause in which no node is kept, because it did not pay off.
    paused: Option<BootInstant>,
    /// Since the driver started to keep nodes: number of reuses of a node (`taken`), and number of
    /// listings of the directory because nodes were kept (`listed`).
    taken: u64,
    listed: u64,
}

/// A node without a hold.
struct KeptNode {
    grant: Grant,
    kind: Kind,
    grace: Grace,
    shared: Box<SharedNode>,
}

impl KeptNode {
    /// Returns `true` if this kept node suits the request.
    ///
    /// A node whose last hold had a different grace can be reused only by the driver, because only
    /// the driver checks the grace against the session timeout.
    fn suits(&self, claim: &AcquireRequest, naming: Naming, access: Access) -> bool {
        let Grant { node, term, .. } = &self.grant;
        let (now, same_name) = (BootInstant::now(), is_kazoos(node.as_str()) == (naming == Naming::Kazoo));
        self.kind == claim.kind
            && same_name
            && (access == Access::Driver || self.grace == claim.grace)
            && self.shared.is_kept_at(now)
            && !self.shared.is_too_old(claim, now)
            && term.remaining() > term.interval() + claim.grace.time()
    }
}

/// Functions for the driver.
impl HoldTable {
    /// Permits keeping nodes after a grant. Returns `false` during a pause.
    pub(crate) fn open_access(&self) -> bool {
        let mut all = self.all();
        let kept = all.kept.get_or_insert_default();
        kept.paused.take_if(|until| *until <= BootInstant::now());
        if kept.paused.is_none() {
            kept.nodes.open();
            (kept.taken, kept.listed) = (0, 0);
        }
        kept.paused.is_none()
    }

    pub(crate) fn set_access(&self, access: Access) {
        if let Some(kept) = &mut self.all().kept {
            kept.nodes.set_access(access);
        }
    }

    /// Forbids taking nodes. Returns the nodes to delete.
    pub(crate) fn close_access(&self) -> Vec<NodeName> {
        let mut all = self.all();
        all.kept.as_mut().map(|kept| kept.nodes.close()).unwrap_or_default()
    }

    /// Records that the client gives up its kept nodes because another contender waits.
    ///
    /// If this happens too often within the `linger` time, there is a pause, because the kept nodes
    /// only delay other contenders. Nodes that were reused often are worth the delay, so they cause
    /// no pause.
    pub(crate) fn note_given_up(&self, time: Duration) {
        let mut all = self.all();
        let Some(kept) = all.kept.as_mut().filter(|kept| kept.taken < MIN_RETAKES) else { return };
        let now = BootInstant::now();
        let (since, times) = kept.given_up.filter(|(since, _)| now.since(*since) < time).unwrap_or((now, 0));
        kept.given_up = Some((since, times + 1));
        if times >= MAX_GIVEN_UP {
            (kept.given_up, kept.paused) = (None, Some(now.after(time)));
        }
    }

    /// Counts a listing that was sent because the directory's children changed. Returns `false` if
    /// such listings cost more requests than the kept nodes save.
    pub(crate) fn pays_to_watch(&self) -> bool {
        let mut all = self.all();
        let Some(kept) = &mut all.kept else { return false };
        kept.listed += 1;
        kept.listed <= kept.taken.max(MIN_RETAKES)
    }

    /// Pauses keeping for this long.
    pub(crate) fn pause_keeping(&self, time: Duration) {
        if let Some(kept) = &mut self.all().kept {
            kept.paused = Some(BootInstant::now().after(time));
        }
    }

    /// Stops keeping this node. Returns `true` if it was kept.
    pub(crate) fn stop_keeping(&self, node: &NodeName) -> bool {
        self.all().forget_kept(node)
    }

    /// Returns `true` if a node is kept.
    pub(crate) fn keeps_any(&self) -> bool {
        self.all().kept.as_ref().is_some_and(|kept| !kept.nodes.is_empty())
    }

    /// Grants the request on a kept node, or returns `None` if no kept node suits it. `access` is
    /// the kind of thread that calls this function.
    pub(crate) fn take_again(
        self: &Arc<Self>,
        claim: &AcquireRequest,
        naming: Naming,
        access: Access,
    ) -> Option<Lease> {
        if claim.linger == 0 {
            return None;
        }
        let mut all = self.all();
        let taken = all.kept.as_mut()?.nodes.take(access, |node| node.suits(claim, naming, access));
        let (_, KeptNode { grant, grace, shared, .. }) = taken?;
        all.kept.as_mut()?.taken += 1;
        let next = shared.taken_again(claim);
        all.note_shared(grant.fencing_token, &next);
        self.note_grant(claim, &grant.node);
        self.recorder.retake();
        let hold = Arc::new(Hold::new(Arc::clone(self), claim.clone(), grant, Some(Box::new(next))));
        all.add(&hold);
        // The driver must change its alarms if the new hold has a time limit or a different grace.
        if claim.max_hold.is_some() || claim.grace != grace {
            let claim = Box::new(claim.clone());
            hold.report(|hold| Notice::Retaken { hold, claim }).ok();
        }
        drop(all);
        Some(Lease::new(hold))
    }
}

impl HoldIndex {
    pub(super) fn is_kept(&self, node: &NodeName) -> bool {
        self.kept.as_ref().is_some_and(|kept| kept.nodes.contains(node))
    }

    /// Stops keeping this node. Returns `true` if it was kept.
    pub(super) fn forget_kept(&mut self, node: &NodeName) -> bool {
        self.kept.as_mut().is_some_and(|kept| kept.nodes.forget(node))
    }
}

impl Hold {
    /// Ends this hold, because its last lease was released, and keeps its node. Returns `false` if
    /// the node cannot be kept.
    pub(super) fn keep_node(&self, all: &mut HoldIndex) -> bool {
        let Some(shared) = self.shared.as_ref().filter(|_| self.claim.linger > 0) else { return false };
        let may_keep = all.kept.as_ref().is_some_and(|kept| kept.nodes.may_keep(all.has_local_waiters()));
        if !may_keep || !all.is_current(self) || !self.may_have_successor(shared, all) {
            return false;
        }
        let time = Duration::from_millis(self.claim.linger.into());
        let Some((first, next)) = shared.kept_for(time) else { return false };
        let node = &self.grant.node;
        all.take(node);
        self.state_cell.change(|state| state.holds().then_some(LeaseState::Released));
        let kept = KeptNode {
            grant: self.grant.clone(),
            kind: self.claim.kind,
            grace: self.claim.grace,
            shared: next,
        };
        if let Some(lingering) = &mut all.kept {
            lingering.nodes.keep(node.clone(), kept);
        }
        if first {
            self.report(|hold| Notice::Kept { node: hold.node, time }).ok();
        }
        true
    }
}
