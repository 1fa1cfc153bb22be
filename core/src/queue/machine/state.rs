//! What a queue knows, and which method takes which event.

use std::collections::VecDeque;

use super::super::action::Action;
use super::super::event::{Event, Ticket};
use super::super::name::{Mint, NodeName};
use super::super::view::View;
use super::doomed::Dooms;
use super::far::FarBeyond;
use super::joins::Joins;
use super::line::Line;
use super::watch_book::WatchBook;

/// The queue of one lock directory as one client sees it.
#[allow(clippy::struct_excessive_bools, reason = "each is one fact, and they combine freely")]
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Queue {
    pub(super) connected: bool,
    /// Whether the session's term is long enough for a hold to begin. Nothing is granted without it (rule 16).
    pub(super) term: bool,
    /// Names this session's nodes; none between sessions.
    pub(super) mint: Option<Mint>,
    pub(super) joins: Joins,
    /// Our nodes that are to be deleted. They do not block our own waiters (rule 4).
    pub(super) doomed: Dooms,
    /// What is known of the others; none until there is a listing on this connection (rule 10).
    pub(super) view: Option<View>,
    /// The view of the connection before this one, while the listing on this one is deferred or under way.
    pub(super) old_view: Option<Box<View>>,
    /// Whether the listing on this connection is deferred: none of ours is near (rule 10).
    pub(super) deferred: bool,
    pub(super) far_beyond: FarBeyond,
    /// The last node that a check asked for in turn.
    pub(super) checked: Option<Box<NodeName>>,
    pub(super) watches: WatchBook,
    /// The listing under way.
    pub(super) listing: Option<(Ticket, Look)>,
    /// The listing to be sent when none is under way.
    pub(super) wanted: Option<Look>,
    pub(super) probe: Probing,
    /// The listing that watches the children, while it is under way and for as long as the watch may fire.
    pub(super) child_watch: Option<Ticket>,
    pub(super) making_parents: Option<Ticket>,
    /// Set while a create that was given up may still be carried out (rule 8): the last ticket when it was.
    pub(super) doubt: Option<Ticket>,
    /// Whether a child that does not count was reported.
    pub(super) warned: bool,
    pub(super) last_ticket: Ticket,
    pub(super) actions: VecDeque<Action>,
}

/// How to look at the lock directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Look {
    /// A listing of what the connected server knows.
    Plain,
    /// A listing after a sync: it shows what the ensemble knew before.
    Synced,
}

/// What became of the last probe.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum Probing {
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
        self.joins.is_empty() && self.doomed.is_empty() && self.actions.is_empty() && !under_way
    }

    /// Takes an event. Call [`settle`](Self::settle) after one or several, then carry out what
    /// [`next_action`](Self::next_action) returns.
    pub fn handle(&mut self, event: Event) {
        let ends_deferral = self.deferred && event.ends_deferral();
        match event {
            Event::Join(join, naming, kind, intent) => self.join(join, naming, kind, intent),
            Event::Downgrade(reader, writer) => self.downgrade(reader, writer),
            Event::Leave(join) => self.leave(join),
            Event::Release(name) => self.release(name),
            Event::WatchHold(name) => self.watch_hold(&name),
            Event::SessionBegan(seed) => drop(self.mint.get_or_insert_with(|| Mint::new(seed))),
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
    pub fn settle(&mut self) {
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
    pub(super) fn line(&self) -> &Line {
        self.joins.line()
    }

    pub(super) fn ticket(&mut self) -> Ticket {
        self.last_ticket.0 += 1;
        self.last_ticket
    }
}
