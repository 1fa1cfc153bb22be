//! The state machine.
//!
//! Each contender is in one of seven stages, or out of the queue. It joins as Idle, or as Looking if it only tries or
//! waits behind a limited number of others.
//! This is where each event leads from there; an empty cell means that the event changes nothing. The last row is what
//! `flush` does after a batch of events.
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
//! ✗ Its node is doomed: deleted, again and again, until it or the session is gone (rules 9 and 13).
//!
//! 1. Stays, and is *leaving*: once the fate of its node is known, it is out and the node is doomed (rule 9).
//! 2. Not while a reader is on its way into its place: till then it stays, and is leaving (rule 4).
//! 3. Stays, and remembers whose place it takes.
//! 4. Or out ✗ if it is leaving, or if the sequence number is close to where the counter wraps (rule 2). Or Idle ✗ if
//!    the writer whose place it takes no longer holds (rule 4).
//! 5. And the parents are made. Or out, if it is leaving, or if this has happened too often (rule 3).
//! 6. Stays. Its place is certain once a listing on this connection has shown it (rule 10). If it only tries, and
//!    stands behind another, it is out ✗ (rule 14). If the listing shows an earlier node of it, it is Verifying (rule 8).
//! 7. If the listing was sent later than the try began: Idle if the lock is free, else out (rule 14). One that waits
//!    behind a limited number of others is also Idle if fewer wait.
//! 8. If the listing was sent after a sync and later than the create; else it stays (rule 8). Or out, if it is leaving.
//! 9. If the listing was sent later than the create (rule 3).
//! 10. Or out, if it is leaving.
//! 11. And readers that are Queued in its place are Idle ✗ (rule 4).
//! 12. If there is a session and no parents are being made. Or Looking, if it only tries and has lost the place of the
//!     writer that it was to take; or out, if another of ours is in its way (rule 21).
//! 13. If it is its turn and enough of the term is left (rules 4, 6, 7, 16 and 17).
//! 14. Or Looking, if it only tries (rule 21), or has not seen yet how many wait.
//!
//! A listing that shows a counter that has wrapped counts as refused too (rule 2).
//!
//! Every file here adds methods to [`Queue`], which hands each event to the method that takes it.

mod admission;
mod check;
mod connection;
mod create;
mod delete;
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
use self::entries::Entries;
use self::entries::order::LocalOrder;
pub use self::grant::Company;
use self::position::FarBeyond;
pub use self::position::{ContenderAhead, Known, NEAR};
use self::watches::WatchTable;
use crate::queue::action::Action;
use crate::queue::event::{Event, Ticket};
use crate::queue::node_name::{NodeName, NodeNamer};
use crate::queue::remote_view::RemoteView;

/// The queue of one lock directory as one client sees it.
#[allow(clippy::struct_excessive_bools, reason = "each is one fact, and they combine freely")]
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Queue {
    connected: bool,
    /// Whether the session's term is long enough for a hold to begin. Nothing is granted without it (rule 16).
    term: bool,
    /// Names this session's nodes; none between sessions.
    namer: Option<NodeNamer>,
    entries: Entries,
    /// Our nodes that are to be deleted. They do not block our own waiters (rule 4).
    doomed: PendingDeletes,
    /// The other clients' contenders; none until there is a listing on this connection (rule 10).
    view: Option<RemoteView>,
    /// The view of the connection before this one, while the listing on this one is deferred or under way.
    old_view: Option<Box<RemoteView>>,
    /// Whether the listing on this connection is deferred: none of ours is near (rule 10).
    deferred: bool,
    far_beyond: FarBeyond,
    /// The last node that a check asked for in turn.
    checked: Option<Box<NodeName>>,
    watches: WatchTable,
    /// The listing under way.
    listing: Option<(Ticket, ListingMode)>,
    /// The listing to be sent when none is under way.
    wanted: Option<ListingMode>,
    probe: Probing,
    /// The listing that watches the children, while it is under way and for as long as the watch may fire.
    child_watch: Option<Ticket>,
    /// Whether the children are to be watched, although nobody waits for a permit.
    guards: bool,
    making_parents: Option<Ticket>,
    /// Set while a create that was given up may still be carried out (rule 8): the last ticket when it was.
    doubt: Option<Ticket>,
    /// Whether a child that does not count was reported.
    warned: bool,
    last_ticket: Ticket,
    actions: VecDeque<Action>,
}

/// How to look at the lock directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum ListingMode {
    /// A listing of what the connected server knows.
    Plain,
    /// A listing after a sync: it shows what the ensemble knew before.
    Synced,
}

/// The state of the last probe.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
enum Probing {
    /// None is under way.
    #[default]
    Idle,
    /// It is under way, and asks for these.
    For(Ticket, Vec<NodeName>),
    /// It is under way, and only checks whether nodes that matter exist (rule 10).
    Check(Ticket),
    /// The server does not answer probes.
    Refused,
}

impl Queue {
    /// A queue without contenders, disconnected from the server.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The same, whose tickets follow this one.
    #[must_use]
    pub fn after(last_ticket: Ticket) -> Self {
        Self { last_ticket, ..Self::default() }
    }

    /// Reports no child that does not count: an earlier queue of the path has.
    pub fn warn_no_more(&mut self) {
        self.warned = true;
    }

    /// Whether a child that does not count was reported.
    #[must_use]
    pub fn has_warned(&self) -> bool {
        self.warned
    }

    /// The last ticket that was given to a request.
    #[must_use]
    pub fn last_ticket(&self) -> Ticket {
        self.last_ticket
    }

    /// Whether enough of the session's term is left for a hold to begin.
    pub(crate) fn has_term(&self) -> bool {
        self.term
    }

    /// Whether nothing is left to do or under way, so that the queue may be dropped. Dropping it earlier would be
    /// wrong: the path's next queue would take a late answer for its own.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        let watching = self.child_watch.is_some() || !self.watches.is_empty();
        let under_way = self.listing.is_some()
            || matches!(self.probe, Probing::For(..) | Probing::Check(_))
            || self.making_parents.is_some()
            || watching
            || self.doubt.is_some();
        self.entries.is_empty() && self.doomed.is_empty() && self.actions.is_empty() && !under_way
    }

    /// Takes an event. Call [`flush`](Self::settle) after one or several, then carry out what
    /// [`next_action`](Self::next_action) returns.
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
            Event::LookAgain => self.look_again(),
            Event::Certain(doubt) => self.certain(doubt),
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

    /// Draws the conclusions from the events so far.
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
        // In this order one listing answers all creates before it.
        self.send_creates();
        self.send_deletes();
        self.look_ahead();
        self.send_listing();
    }

    /// The next thing to do, in order.
    pub fn next_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// The places of our contenders.
    fn line(&self) -> &LocalOrder {
        self.entries.line()
    }

    fn ticket(&mut self) -> Ticket {
        self.last_ticket.0 += 1;
        self.last_ticket
    }
}
