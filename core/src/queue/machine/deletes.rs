//! Releases and deletes: a node that is no longer wanted is deleted until it or the session is gone (rules 9 and 13).

use super::super::action::Action;
use super::super::event::{Outcome, Ticket};
use super::super::name::NodeName;
use super::state::Queue;

impl Queue {
    pub(super) fn release(&mut self, name: NodeName) {
        let Some(id) = self.holder(&name) else {
            // Already lost: the node is gone.
            return self.actions.push_back(Action::Released(name));
        };
        // The reader that takes its place must exist before it goes, or a writer could slip in between (rule 4).
        if self.is_downgrading(&name) {
            self.joins.change(id, |join| join.leaving = true);
            return;
        }
        self.joins.remove(id);
        self.doom_as(name, true);
    }

    /// Has a node deleted. No one holds through it, or waits there.
    pub(super) fn doom(&mut self, name: NodeName) {
        self.doom_as(name, false);
    }

    fn doom_as(&mut self, name: NodeName, released: bool) {
        self.doomed.add(name, released);
    }

    pub(super) fn send_deletes(&mut self) {
        for name in self.doomed.take_unsent() {
            let ticket = self.ticket();
            self.doomed.send(ticket, name.clone());
            self.actions.push_back(Action::Delete(ticket, name));
        }
    }

    pub(super) fn deleted(&mut self, ticket: Ticket, outcome: &Outcome<()>) {
        let Some(name) = self.doomed.answered(ticket) else { return };
        match outcome {
            Outcome::Lost => self.doomed.retry(name),
            // Its owner need not wait, but it blocks all others until it can be deleted or the session ends.
            Outcome::Refused(_) => {
                if self.doomed.refuse(&name) {
                    self.actions.push_back(Action::Released(name));
                }
            }
            Outcome::Done(()) | Outcome::NoNode => {
                self.watch_went(&name);
                if self.doomed.remove(&name).is_some_and(|doomed| doomed.released) {
                    self.actions.push_back(Action::Released(name));
                }
            }
        }
    }

    pub(super) fn retry_refused_deletes(&mut self) {
        self.doomed.retry_refused();
    }
}
