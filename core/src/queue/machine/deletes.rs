//! Releases and deletes: a node that is no longer wanted is deleted until it or the session is gone (rules 9 and 13).

use super::super::action::Action;
use super::super::event::{JoinId, Outcome, Ticket};
use super::super::name::NodeName;
use super::join::{Join, Stage};
use super::state::{Doomed, Queue};

impl Queue {
    pub(super) fn release(&mut self, id: JoinId) {
        let downgrading = self.is_downgrading(id);
        match self.joins.get_mut(id) {
            // The reader that takes its place must exist before it goes, or a writer could slip in between (rule 4).
            Some(join @ Join { stage: Stage::Held(_), .. }) if downgrading => join.leaving = true,
            Some(Join { stage: Stage::Held(place), .. }) => {
                let name = place.name.clone();
                self.joins.remove(id);
                self.doom(name, Some(id));
            }
            // Already lost: the node is gone.
            _ => self.actions.push_back(Action::Released(id)),
        }
    }

    /// Takes a node out of the line, to be deleted; a hold ends with it, if there is one.
    pub(super) fn doom(&mut self, name: NodeName, release: Option<JoinId>) {
        self.line.remove(&name);
        self.doomed.entry(name).or_insert(Doomed { ticket: None, release, refused: false });
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
        let Some((name, doomed)) = self.doomed.iter_mut().find(|(_, doomed)| sent(doomed)) else {
            return;
        };
        match outcome {
            Outcome::Lost => {
                doomed.ticket = None;
                return;
            }
            // Its owner need not wait, but it blocks all others until it can be deleted or the session ends.
            Outcome::Refused(_) => {
                doomed.ticket = None;
                doomed.refused = true;
                self.actions.extend(doomed.release.take().map(Action::Released));
                return;
            }
            Outcome::Done(()) | Outcome::NoNode => {}
        }
        let name = name.clone();
        // The watch on the node, if any, went with it.
        self.watches.remove(&name);
        if let Some(Doomed { release: Some(id), .. }) = self.doomed.remove(&name) {
            self.actions.push_back(Action::Released(id));
        }
    }

    pub(super) fn retry_refused_deletes(&mut self) {
        for doomed in self.doomed.values_mut() {
            doomed.refused = false;
        }
    }
}
