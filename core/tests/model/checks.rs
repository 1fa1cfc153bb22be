//! Invariants that must hold after each step and at the end.

use std::collections::BTreeSet;

use zklock::queue::{JoinId, Kind, NodeName};

use super::client::{Guard, Hold, Notification, Place};
use super::foreign::{Foreign, conflict};
use super::server::watched_directory;
use super::world::World;

impl World {
    pub(super) fn check(&mut self) -> Result<Vec<(usize, Notification)>, String> {
        let mut notifications = Vec::new();
        self.check_tries()?;
        for number in 0..self.clients.len() {
            if self.clients[number].notifications.is_empty() {
                continue;
            }
            for news in std::mem::take(&mut self.clients[number].notifications) {
                match news {
                    Notification::Granted(join) => self.check_grant(number, join)?,
                    Notification::Unfounded(join) => {
                        return Err(format!("client {number} was granted {join:?} without a term"));
                    }
                    Notification::Unconnected(join) => {
                        return Err(format!("client {number} was granted {join:?} without a connection"));
                    }
                    Notification::Unwatched(join) => {
                        return Err(format!("client {number} was granted {join:?} without a watch"));
                    }
                    Notification::AskedFor(join) => {
                        return Err(format!("client {number} was granted {join:?} instead of giving up"));
                    }
                    _ => {}
                }
                notifications.push((number, news));
            }
        }
        self.check_exclusion()?;
        self.check_rows()?;
        self.check_rest()?;
        Ok(notifications)
    }

    /// Checks that an idle client has no work left.
    fn check_rest(&self) -> Result<(), String> {
        for (number, client) in self.clients.iter().enumerate() {
            if !client.is_quiet(&self.server) {
                continue;
            }
            if let Some((join, _)) = client.waiting.iter().find(|(_, request)| request.tries) {
                return Err(format!("client {number} lets {join:?} wait, which only tries"));
            }
            self.check_kept(number)?;
            if let Some(node) = self.kept_by(client) {
                return Err(format!("client {number} keeps {node}, for which nobody waits or holds"));
            }
            let mut parts = client.holds.values().filter(|hold| hold.part);
            let keeps =
                |hold: &&Hold| !client.attempts.iter().any(|attempt| attempt.keeps(&hold.node, hold.join));
            if let Some(Hold { node, .. }) = parts.find(keeps) {
                return Err(format!("client {number} keeps {node:?} of an attempt that is over"));
            }
            let mut parts = client.waiting.iter().filter(|(_, request)| request.part);
            let waits =
                |(join, _): &(&JoinId, _)| !client.attempts.iter().any(|attempt| attempt.awaits(**join));
            if let Some((join, _)) = parts.find(waits) {
                return Err(format!("client {number} keeps {join:?} waiting for an attempt that is over"));
            }
            let is_lost =
                |hold: &&Hold| hold.guard == Guard::Watch && !self.server.exists(hold.node.as_str());
            if let Some(Hold { node, .. }) = client.holds.values().find(is_lost) {
                return Err(format!("client {number} still holds through {node:?}, which was deleted"));
            }
        }
        Ok(())
    }

    /// Checks a grant: the client's term runs, the node belongs to this session, and no earlier
    /// node conflicts with it.
    fn check_grant(&self, number: usize, join: JoinId) -> Result<(), String> {
        let client = &self.clients[number];
        let Some(hold) = client.holds.values().find(|hold| hold.join == join) else {
            return Ok(());
        };
        let who = format!("client {number} was granted {join:?} through {:?}", hold.node);
        let node = &self.server.nodes[hold.node.as_str()];
        let in_place = self.check_place(&who, hold)?;
        // After a downgrade, the reader has the writer's position in the queue and keeps the
        // writer's token.
        if (node.made != hold.czxid && !in_place) || node.owner != Some(hold.session) {
            return Err(format!("{who}, whose Stat is {node:?}"));
        }
        if node.deleted_by_operator {
            return self.check_deleted(&who, hold);
        }
        if node.gone.is_some() {
            let ended = !self.server.is_alive(hold.session);
            let how = if ended { "went with its session" } else { "it had deleted itself" };
            return Err(format!("{who}, which {how}"));
        }
        // An operator deleted the writer's node, and the reader was created without a check that
        // this node exists. The client does not know that yet, and will report the hold as lost.
        if in_place && self.is_deleted(&hold.node) {
            return Ok(());
        }
        for child in self.server.children_at(hold.directory, self.server.now) {
            let before = |name: &NodeName| *name < hold.node && conflict(hold.kind, name.kind());
            // Ignore a reader that took over the position of a writer whose node an operator
            // deleted. The client does not know that yet, and will report the hold as lost.
            let Some(name) = NodeName::parse(&child).filter(|name| before(name) && !self.is_deleted(name))
            else {
                continue;
            };
            if self.server.nodes[&child].owner != Some(hold.session) {
                return Err(format!("{who}, behind {name:?} of another client"));
            }
            // A second node of the granted contender is an orphan, which the client deletes.
            let wanted = |other| {
                let holds = || client.holds.values().any(|hold| hold.join == other);
                other != join && (client.waiting.contains_key(&other) || holds())
            };
            let in_the_way =
                name.sequence() != hold.node.sequence() && client.made_for(&child).is_some_and(wanted);
            if in_the_way {
                return Err(format!("{who}, behind {name:?} of its own"));
            }
        }
        Ok(())
    }

    /// Returns `true` if the reader of a downgrade has the writer's position in the queue. Fails if
    /// the reader has another position, because another contender could get between the two. It is
    /// not an error if the position was lost, for example with the session.
    fn check_place(&self, who: &str, hold: &Hold) -> Result<bool, String> {
        let Some(Place { session, sequence, late, .. }) = hold.place else { return Ok(false) };
        let same = |name: &str| NodeName::parse(name).is_some_and(|name| name.sequence() == sequence);
        let lost = self.server.nodes.iter().any(|(name, node)| node.deleted_by_operator && same(name));
        if hold.node.sequence() == sequence {
            Ok(true)
        } else if session != hold.session || lost || late {
            Ok(false)
        } else {
            Err(format!("{who}, and not in the writer's place {sequence}"))
        }
    }

    /// Checks a grant whose node an operator deleted. In general, a holder may find out about such
    /// a deletion after the next contender has received the lock. But a waiter must not be granted
    /// the lock if its node was deleted while the waiter was behind another client's node (rule 6).
    fn check_deleted(&self, who: &str, hold: &Hold) -> Result<(), String> {
        let node = &self.server.nodes[hold.node.as_str()];
        let stood_before = |name: &NodeName| {
            let other = &self.server.nodes[name.as_str()];
            *name < hold.node
                && other.directory == hold.directory
                && (other.owner == node.owner || conflict(hold.kind, name.kind()))
                && other.gone.is_none_or(|gone| gone > node.made)
                // If a directory is deleted and created again, its sequence numbers start again at
                // zero.
                && node.gone.is_none_or(|gone| other.made < gone)
        };
        let names = self.server.nodes.keys().filter_map(|name| NodeName::parse(name));
        let mut before: Vec<_> = names.filter(stood_before).collect();
        before.sort();
        // Ignore nodes that are behind another node of this client. When the client hands the lock
        // on between its own nodes, or grants it to several readers together, it sends no request.
        let owner = |name: &NodeName| self.server.nodes[name.as_str()].owner;
        let nearest = before.iter().rev().take_while(|name| owner(name) != node.owner);
        for other in nearest {
            if self.server.nodes[other.as_str()].gone.is_none_or(|gone| node.gone < Some(gone)) {
                return Err(format!("{who}, which was deleted while it waited behind {other:?}"));
            }
        }
        Ok(())
    }

    /// Returns `true` if an operator deleted the node. If a reader's node might have been created
    /// without the check that the writer's node exists, also returns `true` if an operator deleted
    /// that writer's node.
    fn is_deleted(&self, name: &NodeName) -> bool {
        if !self.server.reading_was_forbidden {
            return self.server.nodes.get(name.as_str()).is_some_and(|node| node.deleted_by_operator);
        }
        let same =
            |other: &str| NodeName::parse(other).is_some_and(|other| other.sequence() == name.sequence());
        self.server.nodes.iter().any(|(other, node)| node.deleted_by_operator && same(other))
    }

    /// Checks that all holders of a lock can hold it together. A holder does not count if an
    /// operator deleted its node, or the node of the writer whose position it took over.
    fn check_exclusion(&self) -> Result<(), String> {
        for directory in 1..self.server.directories.len() {
            self.check_exclusion_in(directory)?;
        }
        self.check_exclusion_in(0)
    }

    fn check_exclusion_in(&self, directory: usize) -> Result<(), String> {
        let stands = |node: &NodeName| !self.is_deleted(node);
        #[allow(clippy::type_complexity, reason = "it is used here alone")]
        let mut holders: Vec<(Option<(usize, &Hold)>, &NodeName, Kind)> = Vec::new();
        for (number, client) in self.clients.iter().enumerate() {
            let here = client.believed().filter(|hold| hold.directory == directory);
            let held = here.filter(|hold| stands(&hold.node));
            holders.extend(held.map(|hold| (Some((number, hold)), &hold.node, hold.kind)));
        }
        let foreign = self.foreign.iter().filter(|_| directory == 0);
        let foreign = foreign.filter_map(Foreign::held).filter(|node| stands(node));
        holders.extend(foreign.map(|node| (None, node, node.kind())));
        // A writer and the reader that takes over its position have the same owner.
        let is_readers = |reader: &Hold, writer: &Hold| {
            reader.place.is_some_and(|place| place.writer == writer.join)
                && reader.node.sequence() == writer.node.sequence()
        };
        for (at, (ours, node, kind)) in holders.iter().enumerate() {
            for (others, other, other_kind) in &holders[..at] {
                let same = ours.zip(*others).is_some_and(|((client, hold), (other_client, other))| {
                    client == other_client && (is_readers(hold, other) || is_readers(other, hold))
                });
                if !same && conflict(*kind, *other_kind) {
                    return Err(format!("{other:?} and {node:?} are held at once"));
                }
            }
            if matches!(kind, Kind::Permit(permits) if (*permits as usize) < holders.len()) {
                return Err(format!("more are held than there are permits: {holders:?}"));
            }
        }
        Ok(())
    }

    /// Checks that no node is watched twice, that there are at most three watches for each queued
    /// contender, and that the children are watched at most once. The watch on the children may
    /// continue for a short time after the wait for a permit.
    pub(super) fn check_watches(&self, number: usize) -> Result<(), String> {
        let client = &self.clients[number % self.clients.len()];
        let Some(session) = client.session.as_ref().filter(|_| client.has_settled()) else { return Ok(()) };
        let watches = session.wanted_watches();
        let distinct: BTreeSet<_> = watches.iter().collect();
        let theirs = |name: &str| watched_directory(name).is_none() && client.made_for(name).is_none();
        let others = watches.iter().filter(|name| theirs(name)).count();
        if distinct.len() < watches.len() || others > 2 * client.waiting.len() {
            return Err(format!("client {number} watches {watches:?} for {:?}", client.waiting));
        }
        Ok(())
    }

    pub(super) fn check_end(&self) -> Result<(), String> {
        for (number, client) in self.clients.iter().enumerate() {
            if !client.waiting.is_empty() {
                return Err(format!("client {number} waits forever: {:?}", client.waiting));
            }
            if !client.holds.is_empty() || !client.queues.is_empty() {
                return Err(format!(
                    "client {number} has not let go: {:?} {:?}",
                    client.holds, client.queues
                ));
            }
            let session = client.session.as_ref().expect("all faults are over");
            let watches = session.server_watches();
            // A missed event leaves a watch that never fires.
            let awaits = !session.wanted_watches().is_empty() && !self.server.event_was_missed;
            if !watches.is_empty() || awaits {
                return Err(format!(
                    "client {number} left watches: {watches:?}, {:?}",
                    session.wanted_watches()
                ));
            }
        }
        Ok(())
    }

    /// Checks that idle clients have no node left. Idle clients must have found and deleted
    /// leftover nodes already, and must not need a later timer for that.
    pub(super) fn check_nodes(&self) -> Result<(), String> {
        let left: Vec<_> = self.server.all_children();
        let left: Vec<_> = left.iter().filter(|child| self.server.nodes[*child].owner.is_some()).collect();
        if left.is_empty() { Ok(()) } else { Err(format!("nodes are left: {left:?}")) }
    }
}
