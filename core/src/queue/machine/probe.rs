//! Probes: requests that ask whether a few nodes exist. A probe takes fewer bytes than a listing,
//! which returns all nodes (rule 6).

use super::{ListingMode, Probing, Queue};
use crate::queue::action::Action;
use crate::queue::event::{Outcome, Ticket};
use crate::queue::node_name::{Kind, NodeName};
use crate::queue::remote_view::RemoteView;

/// Maximum number of nodes in a probe. They fit in one request unless the path is very long.
const MAX_PROBED_NODES: usize = 256;

impl Queue {
    /// Asks the server whether nodes in `needed` exist, and removes these nodes from `needed`, so
    /// that they are not watched yet. The remaining nodes can be watched immediately. They are our
    /// own nodes, nodes that are known to exist, and each node that is the only one that can block
    /// our contender.
    pub(super) fn probe_before_watching(&mut self, needed: &mut Vec<NodeName>) {
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
            // The reply to the probe in progress might already cover these nodes. If it does not,
            // another probe follows.
            self.watches.mark_changed(doubtful);
        } else if self.probe == Probing::Refused || self.wanted.is_some() || !self.is_smaller(doubtful.len())
        {
            self.request_listing(ListingMode::Plain);
        } else {
            let ticket = self.ticket();
            self.actions.push_back(Action::Probe(ticket, doubtful.clone()));
            self.probe = Probing::For(ticket, doubtful);
        }
    }

    fn is_smaller(&self, count: usize) -> bool {
        count <= self.max_probe_size()
    }

    /// Returns the maximum number of nodes for which a probe takes fewer bytes than a listing. For
    /// each node, a probe and its reply take about twice as many bytes as a listing.
    fn max_probe_size(&self) -> usize {
        let all = self.view.as_ref().map_or(0, RemoteView::len) + self.line().len();
        MAX_PROBED_NODES.min(all / 2)
    }

    /// Returns the node `name` of another client, and the nodes ahead of it that might block our
    /// next contender behind `name` once our earlier contenders are gone. For an exclusive hold,
    /// these are all nodes between `name` and our nearest node ahead of it. For a reader, these are
    /// all writers ahead of `name`. The list is cut off when it is too long for a probe, because a
    /// listing then takes fewer bytes.
    fn unknown_up_to(&self, name: &NodeName) -> Vec<NodeName> {
        let Some(view) = &self.view else { return Vec::new() };
        let before: Vec<_> = if self.line().behind(name).map(NodeName::kind) == Some(Kind::Read) {
            view.writers_before(name).rev().take(self.max_probe_size() + 1).cloned().collect()
        } else {
            let ours = self.line().range(..name).next_back().map(|(ours, _)| ours);
            let behind = |other: &&NodeName| ours.is_none_or(|ours| ours < *other);
            view.all_before(name).rev().take_while(behind).take(self.max_probe_size() + 1).cloned().collect()
        };
        before.into_iter().chain([name.clone()]).collect()
    }

    /// Handles the reply to a probe. A missing node is treated like a node whose watch has fired,
    /// because the node will never exist again.
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
        // Without a view, the client knows no contenders of other clients, so the reply is useless.
        // A listing is in progress or follows on the next connection.
        let Some(view) = &mut self.view else { return };
        let Outcome::Done(gone) = outcome else { return self.request_listing(ListingMode::Plain) };
        let mut unclear = false;
        for name in &gone {
            unclear |= view.subtract(name);
        }
        view.find(asked.iter().filter(|name| !gone.contains(name)).cloned());
        self.watches.mark_changed(asked);
        // Only a listing can show whether a reader has taken over the position of a deleted writer
        // (rule 6).
        if unclear && !self.line().writers().is_empty() {
            self.request_listing(ListingMode::Plain);
        }
    }
}
