//! Releases and deletes: a node that is no longer wanted is deleted until it or the session is gone (rules 9 and 13).

use super::super::action::Action;
use super::super::event::{Outcome, Ticket};
use super::super::name::NodeName;
use super::state::{Doomed, Queue};

impl Queue {
    pub(super) fn release(&mut self, name: NodeName) {
        let Some(id) = self.holder(&name) else {
            // Already lost: the node is gone.
            return self.actions.push_back(Action::Released(name));
        };
        // The reader that takes its place must exist before it goes, or a writer could slip in between (rule 4).
        if self.is_downgrading(&name) {
            if let Some(join) = self.joins.get_mut(id) {
                join.leaving = true;
            }
            return;
        }
        self.joins.remove(id);
        self.doom_as(name, true);
    }

    /// Takes a node out of the line, to be deleted. No one holds through it.
    pub(super) fn doom(&mut self, name: NodeName) {
        self.doom_as(name, false);
    }

    fn doom_as(&mut self, name: NodeName, released: bool) {
        self.line.remove(&name);
        self.doomed.entry(name).or_insert(Doomed { ticket: None, released, refused: false });
    }

    pub(super) fn send_deletes(&mut self) {
        let unsent: Vec<_> = self
            .doomed
            .iter()
            .filter(|(_, doomed)| doomed.ticket.is_none() && !doomed.refused)
            .map(|(name, _)| name.clone())
            .collect();
        for name in unsent {
            let ticket = self.ticket();
            self.doomed.entry(name.clone()).and_modify(|doomed| doomed.ticket = Some(ticket));
            self.actions.push_back(Action::Delete(ticket, name));
        }
    }

    pub(super) fn deleted(&mut self, ticket: Ticket, outcome: &Outcome<()>) {
        let sent = |doomed: &Doomed| doomed.ticket == Some(ticket);
        let Some((name, doomed)) = self.doomed.iter_mut().find(|(_, doomed)| sent(doomed)) else { return };
        match outcome {
            Outcome::Lost => {
                doomed.ticket = None;
                return;
            }
            // Its owner need not wait, but it blocks all others until it can be deleted or the session ends.
            Outcome::Refused(_) => {
                doomed.ticket = None;
                doomed.refused = true;
                if std::mem::take(&mut doomed.released) {
                    self.actions.push_back(Action::Released(name.clone()));
                }
                return;
            }
            Outcome::Done(()) | Outcome::NoNode => {}
        }
        let name = name.clone();
        // The watch on the node, if any, went with it.
        self.watches.remove(&name);
        if self.doomed.remove(&name).is_some_and(|doomed| doomed.released) {
            self.actions.push_back(Action::Released(name));
        }
    }

    pub(super) fn retry_refused_deletes(&mut self) {
        for doomed in self.doomed.values_mut() {
            doomed.refused = false;
        }
    }
}
