//! The rules for tries, and for attempts at several locks or permits.

use zklock::queue::{JoinId, Kind, NodeName};

use super::attempt::{Attempt, TURNS};
use super::client::{Client, Tried, Wish};
use super::foreign::conflict;
use super::server::{Node, Zxid};
use super::world::World;

impl World {
    /// A contender that only tries has a reason for whatever it does, and the reason was true at some moment since it was
    /// asked for, as a server that has answered since then saw it.
    pub(super) fn check_tries(&mut self) -> Result<(), String> {
        for number in 0..self.clients.len() {
            if !self.clients[number].has_tries() {
                continue;
            }
            for tried in std::mem::take(&mut self.clients[number].tried) {
                let client = &self.clients[number];
                match tried {
                    Tried::Busy(join, wish) if !self.was_taken(client, join, &wish) => {
                        return Err(format!("client {number} refuses {join:?}, and nobody stood in its way"));
                    }
                    Tried::Creates(join, wish) if !self.was_free(client, join, &wish) => {
                        return Err(format!(
                            "client {number} creates a node for {join:?}, for which the lock was taken"
                        ));
                    }
                    _ => {}
                }
            }
            self.clients[number].follow_tries();
        }
        Ok(())
    }

    /// The nodes with which a contender cannot hold, or which count beside it: not its own, nor that of the writer whose
    /// place it takes.
    fn in_the_way<'a>(
        &'a self,
        client: &'a Client,
        join: JoinId,
        wish: &'a Wish,
    ) -> impl Iterator<Item = (&'a String, &'a Node)> {
        let blocks = move |(name, node): &(&String, &Node)| {
            let Some(parsed) = NodeName::parse(name) else { return false };
            let kind = matches!(wish.kind, Kind::Permit(_)) || conflict(wish.kind, parsed.kind());
            // A node that an earlier session has left stands in the way like anybody's.
            let session = client.session.as_ref().map(|session| session.id);
            let own = (client.made_for(name) == Some(join) && node.owner == session)
                || wish.place.is_some_and(|place| place.sequence == parsed.sequence());
            node.directory == wish.directory && kind && !own
        };
        self.server.nodes.iter().filter(blocks)
    }

    /// How many stood in the way of a contender, at most or at least, at any moment since it was asked for.
    fn crowd(&self, nodes: &[&Node], wish: &Wish) -> impl Iterator<Item = usize> {
        let there = |at: Zxid| {
            nodes.iter().filter(|node| node.made <= at && node.gone.is_none_or(|gone| at < gone)).count()
        };
        (wish.since..=self.server.now).map(there)
    }

    fn was_taken(&self, client: &Client, join: JoinId, wish: &Wish) -> bool {
        let nodes: Vec<_> = self.in_the_way(client, join, wish).map(|(_, node)| node).collect();
        let room = if let Kind::Permit(permits) = wish.kind { permits as usize } else { 1 };
        wish.beside || self.crowd(&nodes, wish).any(|count| count >= room)
    }

    /// Nodes of the client's own that it deletes are in nobody's way.
    fn was_free(&self, client: &Client, join: JoinId, wish: &Wish) -> bool {
        let session = client.session.as_ref().map(|session| session.id);
        let wanted = |(name, node): &(&String, &Node)| node.owner != session || Self::is_wanted(client, name);
        let nodes: Vec<_> =
            self.in_the_way(client, join, wish).filter(wanted).map(|(_, node)| node).collect();
        let room = if let Kind::Permit(permits) = wish.kind { permits as usize } else { 1 };
        self.crowd(&nodes, wish).any(|count| count < room)
    }

    /// Whether the client waits or holds through a node.
    fn is_wanted(client: &Client, name: &str) -> bool {
        let made_for = client.made_for(name);
        let local = client.local.as_deref();
        let stands =
            |join| client.waiting.contains_key(&join) || local.is_some_and(|local| local.needs(join));
        made_for.is_some_and(stands)
            || local.is_some_and(|local| local.kept().any(|node| node.as_str() == name))
            || client.holds.keys().any(|node| node.as_str() == name)
    }

    /// A node that a client which is at rest has left behind. While a create is in doubt, or an event was missed, it need
    /// not know of it.
    pub(super) fn kept_by(&self, client: &Client) -> Option<&String> {
        let session = client.session.as_ref()?;
        let knows = client.queues.values().all(|queue| queue.doubt().is_none()) && !session.has_ghosts();
        let kept = |(name, node): &(&String, &Node)| {
            node.gone.is_none() && node.owner == Some(session.id) && !Self::is_wanted(client, name)
        };
        self.server.nodes.iter().filter(|_| knows).find(kept).map(|(name, _)| name)
    }

    /// An attempt has just got all that it wanted: it holds all of it, and overtook nobody.
    pub(super) fn check_complete(&self, number: usize, attempt: &Attempt) -> Result<(), String> {
        let Some((leases, turn)) = attempt.complete() else { return Ok(()) };
        let client = &self.clients[number];
        let held = leases.iter().filter(|node| client.believed().any(|hold| hold.node == **node)).count();
        if held < attempt.size() {
            return Err(format!("client {number} has {held} of {} for {:?}", attempt.size(), attempt.plan));
        }
        let Some(turn) = turn.filter(|turn| self.server.exists(turn.as_str())) else { return Ok(()) };
        let children = self.server.children_at(TURNS, self.server.now);
        let mut before = children.iter().filter_map(|child| NodeName::parse(child));
        match before.find(|name| *name < *turn && self.server.nodes[name.as_str()].owner.is_some()) {
            Some(other) => Err(format!("client {number} has permits through {turn:?}, before {other:?}")),
            None => Ok(()),
        }
    }

    /// Attempts at several end, if all that have what they want release it.
    pub(super) fn check_attempts(&self) -> Result<(), String> {
        for (number, client) in self.clients.iter().enumerate() {
            if let Some(attempt) = client.attempts.first() {
                return Err(format!("client {number} never gets all for {:?}: {attempt:?}", attempt.plan));
            }
        }
        Ok(())
    }
}
