//! Nodes that a client keeps for a while although nobody holds through them (the option `linger`): the next acquire takes
//! one again, on its own thread and without a request.
//!
//! Why this is safe: the node that stands in the queue is the same, so for every other client nothing has happened. The new
//! hold begins as a grant does: while the session is connected, and with more of its term left than a grant needs. Nodes are
//! taken, kept and given up under the lock of the holds, so a node that the driver has given up is taken by nobody.
//!
//! Why nobody waits for long: a node is taken again only while the driver watches the children of the directory and sees
//! nobody who waits for it. When that changes, or a waiter of this client cannot take the node, the driver gives up all that
//! are kept, and none is kept again before the next grant. The time for which a node is kept counts from the first release
//! after which it was kept, however often it is taken again.

use std::sync::Arc;
use std::time::Duration;

use crate::lease::Lease;
use crate::lease::cohort::SharedNode;
use crate::lease::hold::{AcquireRequest, Grace, Grant, Hold, HoldIndex, HoldTable, Notice};
use crate::lease::state::LeaseState;
use crate::queue::{Access, KeptNodes, Kind, Naming, NodeName, is_kazoos};
use crate::runtime::clock::BootInstant;

/// After so many times within the time for which nodes are kept, none is kept for that time.
const MOST_GIVEN_UP: u32 = 8;

/// Keeping pays if nodes were taken again so often before they are given up.
const PAYS: u64 = 8;

/// The nodes of a lock that are kept, and when more of them may be.
#[derive(Default)]
pub(crate) struct Lingering {
    nodes: KeptNodes<KeptNode>,
    /// When they were given up first, and how often since.
    given_up: Option<(BootInstant, u32)>,
    /// Until when none is kept, because they were given up too often.
    paused: Option<BootInstant>,
    /// How often a node was taken again since keeping began, and how often the children were listed anew for it.
    taken: u64,
    listed: u64,
}

/// A node through which nobody holds.
struct KeptNode {
    grant: Grant,
    kind: Kind,
    grace: Grace,
    shared: Box<SharedNode>,
}

impl KeptNode {
    /// Whether a hold with this claim may begin on it. With a grace of its own it takes the driver, which knows whether the
    /// session can bear that.
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

/// The nodes that are kept, for the driver.
impl HoldTable {
    /// A lock with this option was granted: its node may be kept. Returns false if there is a pause.
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

    /// Says who may take a node.
    pub(crate) fn set_access(&self, access: Access) {
        if let Some(kept) = &mut self.all().kept {
            kept.nodes.set_access(access);
        }
    }

    /// Nobody may take a node any more. Returns those that are to be deleted.
    pub(crate) fn close_access(&self) -> Vec<NodeName> {
        let mut all = self.all();
        all.kept.as_mut().map(|kept| kept.nodes.close()).unwrap_or_default()
    }

    /// Nodes are given up for others. If that happens too often within the time for which they are kept, and they were
    /// seldom taken again before, there is a pause: keeping only makes others wait then.
    pub(crate) fn note_given_up(&self, time: Duration) {
        let mut all = self.all();
        let Some(kept) = all.kept.as_mut().filter(|kept| kept.taken < PAYS) else { return };
        let now = BootInstant::now();
        let (since, times) = kept.given_up.filter(|(since, _)| now.since(*since) < time).unwrap_or((now, 0));
        kept.given_up = Some((since, times + 1));
        if times >= MOST_GIVEN_UP {
            (kept.given_up, kept.paused) = (None, Some(now.after(time)));
        }
    }

    /// The children are to be listed once more, because they changed. Returns false if keeping costs more than it saves.
    pub(crate) fn pays_to_watch(&self) -> bool {
        let mut all = self.all();
        let Some(kept) = &mut all.kept else { return false };
        kept.listed += 1;
        kept.listed <= kept.taken.max(PAYS)
    }

    /// No node is kept for this long.
    pub(crate) fn pause_keeping(&self, time: Duration) {
        if let Some(kept) = &mut self.all().kept {
            kept.paused = Some(BootInstant::now().after(time));
        }
    }

    /// This node is not kept any more. Returns whether it was.
    pub(crate) fn stop_keeping(&self, node: &NodeName) -> bool {
        self.all().forget_kept(node)
    }

    /// Whether it keeps a node.
    pub(crate) fn keeps_any(&self) -> bool {
        self.all().kept.as_ref().is_some_and(|kept| !kept.nodes.is_empty())
    }

    /// Begins a hold on a node that is kept, if those with `access` may take one; `None` if there is none for this claim.
    pub(crate) fn take_again(
        self: &Arc<Self>,
        claim: &AcquireRequest,
        naming: Naming,
        access: Access,
    ) -> Option<Lease> {
        // In a forked child all that is here is the parent's.
        if claim.linger == 0 || !self.origin.is_here() {
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
        // The driver need not know of a hold whose end is that of its node.
        if claim.max_hold.is_some() || claim.grace != grace {
            let claim = Box::new(claim.clone());
            hold.report(|hold| Notice::Retaken { hold, claim }).ok();
        }
        drop(all);
        Some(Lease::new(hold))
    }
}

impl HoldIndex {
    /// Whether nobody holds through this node, and it is kept.
    pub(super) fn is_kept(&self, node: &NodeName) -> bool {
        self.kept.as_ref().is_some_and(|kept| kept.nodes.contains(node))
    }

    /// This node is not kept any more. Returns whether it was.
    pub(super) fn forget_kept(&mut self, node: &NodeName) -> bool {
        self.kept.as_mut().is_some_and(|kept| kept.nodes.forget(node))
    }
}

impl Hold {
    /// Ends this hold, whose last level was released, and keeps its node; false if that is not to be.
    pub(super) fn keep_node(&self, all: &mut HoldIndex) -> bool {
        let Some(shared) = self.shared.as_ref().filter(|_| self.claim.linger > 0) else { return false };
        let may_keep = all.kept.as_ref().is_some_and(|kept| kept.nodes.may_keep(all.has_line()));
        if !may_keep || !all.is_current(self) || !self.may_have_successor(shared, all) {
            return false;
        }
        let time = Duration::from_millis(self.claim.linger.into());
        let Some((first, next)) = shared.kept_for(time) else { return false };
        let node = &self.grant.node;
        all.take(node);
        self.fate.change(|state| state.holds().then_some(LeaseState::Released));
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
