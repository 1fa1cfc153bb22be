//! Probes: a few nodes are asked for by name where a listing would tell of a whole crowd (rule 6).

use super::{ListingMode, Probing, Queue};
use crate::queue::action::Action;
use crate::queue::event::{Outcome, Ticket};
use crate::queue::node_name::{Kind, NodeName};
use crate::queue::remote_view::RemoteView;

/// A probe asks for at most so many nodes, so that it fits in a request unless the path is very long.
const MOST: usize = 256;

impl Queue {
    /// Of the nodes that need a watch, keeps those to be watched at once: ours, and those of others that are known to be
    /// there, or are the only ones of which anything is to be learned. For the rest it asks whether they exist.
    pub(super) fn ask_before_watching(&mut self, needed: &mut Vec<NodeName>) {
        let mut doubtful = Vec::new();
        needed.retain(|name| {
            let unknown = if self.line().contains_key(name) { Vec::new() } else { self.unknown_up_to(name) };
            let certain = unknown.len() <= 1 || self.view.as_ref().is_some_and(|view| view.found(name));
            if !certain {
                doubtful.extend(unknown);
            }
            certain
        });
        if doubtful.is_empty() {
            return;
        }
        doubtful.sort_unstable();
        doubtful.dedup();
        if matches!(self.probe, Probing::For(..) | Probing::Check(_)) {
            // Its answer may tell; if it does not, there is another one.
            self.watches.look_at(doubtful);
        } else if self.probe == Probing::Refused || self.wanted.is_some() || !self.is_smaller(doubtful.len())
        {
            self.want(ListingMode::Plain);
        } else {
            let ticket = self.ticket();
            self.actions.push_back(Action::Probe(ticket, doubtful.clone()));
            self.probe = Probing::For(ticket, doubtful);
        }
    }

    /// Whether asking for so many nodes takes fewer bytes than a listing. A path in a request, with its answer, is about
    /// twice as long as a name in a listing.
    fn is_smaller(&self, count: usize) -> bool {
        count <= self.most()
    }

    /// For so many nodes that is so.
    fn most(&self) -> usize {
        let all = self.view.as_ref().map_or(0, RemoteView::len) + self.line().len();
        MOST.min(all / 2)
    }

    /// Another client's node, and those before it that may be in the way of the first of ours behind it as soon as ours
    /// before that are gone: all between the two. For a reader all writers, since readers of ours do not wait for them. No
    /// more than tell that a listing is smaller.
    fn unknown_up_to(&self, name: &NodeName) -> Vec<NodeName> {
        let Some(view) = &self.view else { return Vec::new() };
        let before: Vec<_> = if self.line().behind(name).map(NodeName::kind) == Some(Kind::Read) {
            view.writers_before(name).rev().take(self.most() + 1).cloned().collect()
        } else {
            let ours = self.line().range(..name).next_back().map(|(ours, _)| ours);
            let behind = |other: &&NodeName| ours.is_none_or(|ours| ours < *other);
            view.all_before(name).rev().take_while(behind).take(self.most() + 1).cloned().collect()
        };
        before.into_iter().chain([name.clone()]).collect()
    }

    /// Takes in the answer to a probe. A node that does not exist any more will never exist again: it counts like one
    /// whose watch has reported so.
    pub(super) fn probed(&mut self, ticket: Ticket, outcome: Outcome<Vec<NodeName>>) {
        if self.probe == Probing::Check(ticket) {
            self.probe = Probing::Idle;
            return self.check_answered(outcome);
        }
        if !matches!(&self.probe, Probing::For(sent, _) if *sent == ticket) {
            return;
        }
        let Probing::For(_, asked) = std::mem::take(&mut self.probe) else { return };
        if !matches!(outcome, Outcome::Done(_) | Outcome::Lost) {
            self.probe = Probing::Refused;
        }
        // Nothing is known of the others: the next listing is on its way, or comes with the next connection.
        let Some(view) = &mut self.view else { return };
        let Outcome::Done(gone) = outcome else { return self.want(ListingMode::Plain) };
        let mut unclear = false;
        for name in &gone {
            unclear |= view.subtract(name);
        }
        view.find(asked.iter().filter(|name| !gone.contains(name)).cloned());
        self.watches.look_at(asked);
        // What became of a writer only a listing can tell (rule 6).
        if unclear && !self.line().writers().is_empty() {
            self.want(ListingMode::Plain);
        }
    }
}
