//! Doubts: the server might have a node of ours that no listing has shown yet (rule 8).

use super::{ListingMode, Queue};
use crate::queue::event::Ticket;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum Doubt {
    /// No abandoned create is left.
    #[default]
    None,
    /// The doubt began after the request with this ticket. Either the server might still execute
    /// the create, or it refused a listing that should have shown the node.
    Since(Ticket),
    /// The server can no longer execute the create. A listing after this ticket shows the node, if
    /// there is one.
    UntilListed(Ticket),
}

impl Queue {
    /// Returns the ticket at which a doubt began, until the driver reports with `Event::Certain`
    /// that the server can no longer execute the create.
    #[must_use]
    pub fn doubt(&self) -> Option<Ticket> {
        match self.doubt {
            Doubt::Since(ticket) => Some(ticket),
            Doubt::None | Doubt::UntilListed(_) => None,
        }
    }

    pub(super) fn has_doubt(&self) -> bool {
        self.doubt != Doubt::None
    }

    pub(super) fn begin_doubt(&mut self) {
        self.doubt = Doubt::Since(self.last_ticket);
    }

    /// Handles the event that the server can no longer execute the create. The server might have
    /// executed it after the last listing, so the queue requests another one.
    pub(super) fn end_doubt(&mut self, doubt: Ticket) {
        if self.connected && self.doubt == Doubt::Since(doubt) {
            self.doubt = Doubt::UntilListed(self.last_ticket);
            self.request_listing(ListingMode::Plain);
        }
    }

    /// Ends the doubt if this listing was sent after the server could no longer execute the create.
    pub(super) fn answer_doubt(&mut self, listing: Ticket) {
        if matches!(self.doubt, Doubt::UntilListed(ticket) if ticket < listing) {
            self.doubt = Doubt::None;
        }
    }
}
