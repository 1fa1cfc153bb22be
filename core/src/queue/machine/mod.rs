//! The state machine of the queue.
//!
//! Each contender is in one of seven stages, or out of the queue. It begins as Idle. If it must not
//! wait (a *try*), or waits only behind a limited number of contenders, it begins as Looking: it
//! first lists the directory. The table shows the next stage for each event. An empty cell means
//! that the event changes nothing. The last row shows the effect of `flush`, which follows each
//! batch of events.
//!
//! | Event | Idle | Looking | Creating | Unknown | Verifying | Queued | Held |
//! |---|---|---|---|---|---|---|---|
//! | `Leave` | out | out | ¹ | ¹ | ¹ | out ✗ | |
//! | `Release` | | | | | | | out ✗ ² |
//! | `Downgrade` | ³ | ³ | ³ | ³ | ³ | Idle ✗ | |
//! | `Created` done | | | Queued ⁴ | | | | |
//! | `Created` no node | | | Idle ⁵ | | | | |
//! | `Created` lost | | | Unknown | | | | |
//! | `Created` refused | | | out | | | | |
//! | `ParentsMade` refused | out | | | | | | |
//! | `Listed`, node shown | | | | Verifying | | ⁶ | |
//! | `Listed`, node not shown | | Idle, out ⁷ | | Idle ⁸ | | Idle ⁹ | out ⁹ |
//! | `Listed`, `Watched` refused | out | out | ¹ | ¹ | ¹ | out ✗ | |
//! | `Verified` ours | | | | | Queued ⁴ | | |
//! | `Verified` not ours | | | | | Idle ¹⁰ | | |
//! | `Verified` no node, lost | | | | | Unknown | | |
//! | `Verified` refused | | | | | out ✗ | | |
//! | `Gone`, `Missing`: own node | | | | | | Idle | out ¹¹ |
//! | `Disconnected` | | | | | | ⁶ | |
//! | `SessionLost` | Idle ¹⁴ | Looking | Idle ¹⁰ ¹⁴ | Idle ¹⁰ ¹⁴ | Idle ¹⁰ ¹⁴ | Idle ¹⁴ | out |
//! | flush | Creating ¹² | | | | | Held ¹³ | out ✗ ² |
//!
//! ✗ The contender's node is *pending deletion*: the queue deletes it repeatedly until the node or
//! the session is gone (rules 9 and 13).
//!
//! 1. The contender stays and is *leaving*. Once it is known whether its node exists, the contender
//!    is out and the node is pending deletion (rule 9).
//! 2. If a reader is about to take over its position in the queue, the contender stays until then
//!    and is leaving (rule 4).
//! 3. The contender stays and remembers the writer whose position it takes.
//! 4. Out ✗ if the contender is leaving, or if the sequence number is close to the point where the
//!    counter wraps (rule 2). Idle ✗ if the writer whose position it takes no longer holds the lock
//!    (rule 4).
//! 5. The queue also creates the parents. Out if the contender is leaving, or if this has happened
//!    too often (rule 3).
//! 6. The contender stays. Its position is confirmed once a listing on this connection has shown
//!    its node (rule 10). If it must not wait and is behind another contender, it is out ✗ (rule
//!    14). If the listing shows an earlier node of the contender, it is Verifying (rule 8).
//! 7. This applies if the listing was sent after the try began: Idle if the lock is free, or if
//!    fewer contenders wait than the contender's limit. Otherwise out (rule 14).
//! 8. This applies if the listing was sent after a sync and after the create. Otherwise the
//!    contender stays (rule 8). Out if it is leaving.
//! 9. This applies if the listing was sent after the create (rule 3).
//! 10. Out if the contender is leaving.
//! 11. Readers that are Queued at its position become Idle ✗ (rule 4).
//! 12. This applies if there is a session and no parents are being created. There is one exception:
//!     the contender must not wait, and the writer whose position it should take is lost. It is
//!     then out if another of our contenders blocks it, and otherwise Looking (rule 21).
//! 13. This applies if nothing blocks the contender and enough of the term is left (rules 4, 6, 7,
//!     16 and 17).
//! 14. Looking if the contender must not wait (rule 21), or does not know yet how many contenders
//!     wait.
//!
//! A listing that shows a wrapped counter also counts as refused (rule 2).
//!
//! Every file in this module adds methods to [`Queue`], which passes each event to the method that
//! handles it.

mod admission;
mod check;
mod connection;
mod create;
mod delete;
mod doubt;
mod downgrade;
mod entries;
mod entry;
mod grant;
mod listing;
mod position;
mod probe;
mod try_acquire;
mod watches;

use std::collections::VecDeque;

use self::delete::PendingDeletes;
use self::doubt::Doubt;
use self::entries::Entries;
use self::entries::order::LocalOrder;
pub use self::grant::Contention;
use self::position::FarBeyond;
pub use self::position::{ContenderAhead, Known, NEAR};
use self::watches::WatchTable;
use crate::queue::action::Action;
use crate::queue::event::{Event, Ticket};
use crate::queue::node_name::{NodeName, NodeNamer};
use crate::queue::rare::Rare;
use crate::queue::remote_view::RemoteView;

/// The queue of one lock directory as one client sees it.
#[allow(clippy::struct_excessive_bools, reason = "each is one fact, and they combine freely")]
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Queue {
    connected: bool,
    /// `true` if enough of the session's term (the time for which the session is certain to exist)
    /// is left for a hold to begin. While it is `false`, no lock is granted (rule 16).
    term: bool,
    /// Generates names for this session's nodes. `None` between sessions.
    namer: Option<NodeNamer>,
    entries: Entries,
    /// Our nodes that must be deleted. They do not block our own waiters, because our contenders no
    /// longer use them (rule 4).
    deletes: Rare<PendingDeletes>,
    /// The contenders of other clients. `None` until the first listing on this connection (rule
    /// 10).
    view: Option<RemoteView>,
    /// The view from the previous connection. It is kept until a listing on this connection is
    /// answered.
    old_view: Option<Box<RemoteView>>,
    /// `true` if the listing on this connection is deferred, because none of our contenders is near
    /// the front (rule 10).
    deferred: bool,
    far_beyond: FarBeyond,
    /// The node at which the last check stopped. Each check covers only a few nodes, and the next
    /// one continues after this node.
    checked: Option<Box<NodeName>>,
    watches: WatchTable,
    /// The listing under way.
    listing: Option<(Ticket, ListingMode)>,
    /// The listing to send when none is under way.
    wanted: Option<ListingMode>,
    probe: Probing,
    /// Ticket of the watch on the children, from the request of its listing until the watch fires.
    child_watch: Option<Ticket>,
    /// `true` if the children must be watched because this client keeps nodes (rule 19).
    guards: bool,
    making_parents: Option<Ticket>,
    doubt: Doubt,
    /// `true` if a child without a sequence number was reported.
    warned: bool,
    last_ticket: Ticket,
    actions: VecDeque<Action>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum ListingMode {
    /// A listing of the nodes that the connected server knows. The server might lag behind.
    Plain,
    /// A listing after a sync. It shows everything that the ensemble had committed before the sync.
    Synced,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
enum Probing {
    /// No probe is under way.
    #[default]
    Idle,
    /// A probe for these nodes is under way.
    For(Ticket, Vec<NodeName>),
    /// A check is in progress: a probe that only asks whether the nodes that matter exist (rule
    /// 10).
    Check(Ticket),
    /// The server does not answer probes.
    Refused,
}

impl Queue {
    /// Creates a queue without contenders that is disconnected from the server.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a queue whose tickets follow this one.
    #[must_use]
    pub fn after(last_ticket: Ticket) -> Self {
        Self { last_ticket, ..Self::default() }
    }

    /// Disables the warning about children without a sequence number, because an earlier queue for
    /// the same path has already logged it.
    pub fn disable_warnings(&mut self) {
        self.warned = true;
    }

    /// Returns `true` if the queue has reported a child without a sequence number.
    #[must_use]
    pub fn has_warned(&self) -> bool {
        self.warned
    }

    /// Returns the last ticket that was assigned to a request.
    #[must_use]
    pub fn last_ticket(&self) -> Ticket {
        self.last_ticket
    }

    pub(crate) fn has_term(&self) -> bool {
        self.term
    }

    /// Returns `true` if the queue can be dropped, because nothing is left to do or in progress. If
    /// it were dropped earlier, the next queue for the path would treat a late reply as the reply
    /// to its own request.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        let watching = self.child_watch.is_some() || !self.watches.is_empty();
        let under_way = self.listing.is_some()
            || matches!(self.probe, Probing::For(..) | Probing::Check(_))
            || self.making_parents.is_some()
            || watching
            || self.has_doubt();
        self.entries.is_empty() && self.deletes.is_empty() && self.actions.is_empty() && !under_way
    }

    /// Handles an event. Call [`flush`](Self::flush) after one or several events, and then carry
    /// out the actions that [`next_action`](Self::next_action) returns.
    pub fn handle(&mut self, event: Event) {
        let ends_deferral = self.deferred && event.ends_deferral();
        match event {
            Event::Join(join, naming, kind, intent) => self.join(join, naming, kind, intent),
            Event::Downgrade(reader, writer) => self.downgrade(reader, writer),
            Event::Leave(join) => self.leave(join),
            Event::Release(name) => self.release(name),
            Event::WatchHold(name) => self.watch_hold(&name),
            Event::SessionBegan(seed) => drop(self.namer.get_or_insert_with(|| NodeNamer::new(seed))),
            Event::SessionLost => self.session_lost(),
            Event::Connected => self.connected(),
            Event::Disconnected => self.disconnected(),
            Event::TermBegan => self.term = true,
            Event::TermEnded => self.term = false,
            Event::Resync => self.resync(),
            Event::Certain(doubt) => self.end_doubt(doubt),
            Event::Created(ticket, outcome) => self.created(ticket, outcome),
            Event::CheckForbidden(ticket) => self.check_forbidden(ticket),
            Event::ParentsMade(ticket, outcome) => self.parents_made(ticket, outcome),
            Event::Listed(ticket, outcome) => self.listed(ticket, outcome),
            Event::Probed(ticket, outcome) => self.probed(ticket, outcome),
            Event::Verified(ticket, outcome) => self.verified(ticket, outcome),
            Event::Watched(ticket, outcome) => self.watched(ticket, &outcome),
            Event::Gone(ticket) if self.child_watch == Some(ticket) => self.children_changed(),
            Event::Gone(ticket) => self.watched_node_gone(ticket),
            Event::Missing(name) => self.missing(&name),
            Event::Changed(ticket) if self.child_watch == Some(ticket) => self.children_changed(),
            Event::Changed(ticket) => drop(self.watches.remove_ticket(ticket)),
            Event::Deleted(ticket, outcome) => self.deleted(ticket, &outcome),
        }
        if ends_deferral {
            self.end_deferral();
        }
    }

    /// Decides which actions follow from the events so far: grants, creates, deletes, listings and
    /// watches.
    pub fn flush(&mut self) {
        if !self.connected {
            return;
        }
        self.grant();
        if self.finish_releases() {
            self.grant();
        }
        self.adjust_watches();
        self.adjust_child_watch();
        // Send the listing last, so that one listing shows the result of all creates before it.
        self.send_creates();
        self.send_deletes();
        self.list_for_next_waiter();
        self.send_listing();
    }

    /// Removes and returns the next action, in order.
    pub fn next_action(&mut self) -> Option<Action> {
        let next = self.actions.pop_front();
        if next.is_none() {
            // Free the memory: most queues have nothing to do for a long time.
            self.actions = VecDeque::new();
        }
        next
    }

    /// If the next action is a listing without a sync or a watch, removes it and returns its ticket.
    pub(crate) fn next_listing(&mut self) -> Option<Ticket> {
        let next = self.actions.pop_front()?;
        if let Action::List { ticket, sync: false } = next {
            return Some(ticket);
        }
        self.actions.push_front(next);
        None
    }

    /// Frees the memory of empty collections. Call this when nothing is expected to happen for a
    /// long time.
    pub fn trim(&mut self) {
        self.entries.trim();
        self.deletes.trim();
        if let Some(view) = &mut self.view {
            view.trim();
        }
    }

    /// Returns our nodes in the order of the queue.
    fn line(&self) -> &LocalOrder {
        self.entries.line()
    }

    fn ticket(&mut self) -> Ticket {
        self.last_ticket.0 += 1;
        self.last_ticket
    }
}
