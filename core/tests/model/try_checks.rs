//! Checks of the rules for tries (acquires that do not wait), and for acquires of several locks or
//! permits.

use zklock::queue::{JoinId, Kind, NodeName};

use super::attempt::{Attempt, TURNS};
use super::client::{Client, LockRequest, TryAction};
use super::foreign::conflict;
use super::server::{Node, Zxid};
use super::world::World;

impl World {
    /// Checks each result of a try (an acquire that does not wait). The client may refuse a try
    /// only if the lock was taken at some time since the request. It may create a node only if the
    /// lock was free at some time since then.
    pub(super) fn check_tries(&mut self) -> Result<(), String> {
        for number in 0..self.clients.len() {
            if !self.clients[number].has_tries() {
                continue;
            }
            for tried in std::mem::take(&mut self.clients[number].tried) {
                let client = &self.clients[number];
                match tried {
                    TryAction::Busy(join, request) if !self.was_taken(client, join, &request) => {
                        return Err(format!("client {number} refuses {join:?}, and no contender blocked it"));
                    }
                    TryAction::Creates(join, request) if !self.was_free(client, join, &request) => {
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

    /// Returns the nodes that block a contender. For a permit, all nodes block. For a lock, only
    /// conflicting nodes do. A contender is not blocked by its own node, or by the node of the
    /// writer whose position it takes over in a downgrade.
    fn in_the_way<'a>(
        &'a self,
        client: &'a Client,
        join: JoinId,
        request: &'a LockRequest,
    ) -> impl Iterator<Item = (&'a String, &'a Node)> {
        let blocks = move |(name, node): &(&String, &Node)| {
            let Some(parsed) = NodeName::parse(name) else { return false };
            let kind = matches!(request.kind, Kind::Permit(_)) || conflict(request.kind, parsed.kind());
            // Only nodes of the current session count as the contender's own.
            let session = client.session.as_ref().map(|session| session.id);
            let own = (client.made_for(name) == Some(join) && node.owner == session)
                || request.place.is_some_and(|place| place.sequence == parsed.sequence());
            node.directory == request.directory && kind && !own
        };
        self.server.nodes.iter().filter(blocks)
    }

    /// Returns how many of these nodes existed after each transaction since the request.
    fn crowd(&self, nodes: &[&Node], request: &LockRequest) -> impl Iterator<Item = usize> {
        let there = |at: Zxid| {
            nodes.iter().filter(|node| node.made <= at && node.gone.is_none_or(|gone| at < gone)).count()
        };
        (request.since..=self.server.now).map(there)
    }

    fn was_taken(&self, client: &Client, join: JoinId, request: &LockRequest) -> bool {
        let nodes: Vec<_> = self.in_the_way(client, join, request).map(|(_, node)| node).collect();
        let room = if let Kind::Permit(permits) = request.kind { permits as usize } else { 1 };
        request.beside || self.crowd(&nodes, request).any(|count| count >= room)
    }

    /// Returns `true` if the lock was free, or enough permits were free, at some time since the
    /// request. Nodes that the client is deleting do not count.
    fn was_free(&self, client: &Client, join: JoinId, request: &LockRequest) -> bool {
        let session = client.session.as_ref().map(|session| session.id);
        let wanted = |(name, node): &(&String, &Node)| node.owner != session || Self::is_wanted(client, name);
        let nodes: Vec<_> =
            self.in_the_way(client, join, request).filter(wanted).map(|(_, node)| node).collect();
        let room = if let Kind::Permit(permits) = request.kind { permits as usize } else { 1 };
        self.crowd(&nodes, request).any(|count| count < room)
    }

    fn is_wanted(client: &Client, name: &str) -> bool {
        let made_for = client.made_for(name);
        let local = client.local.as_deref();
        let stands =
            |join| client.waiting.contains_key(&join) || local.is_some_and(|local| local.needs(join));
        made_for.is_some_and(stands)
            || local.is_some_and(|local| local.kept().any(|node| node.as_str() == name))
            || client.holds.keys().any(|node| node.as_str() == name)
    }

    /// Returns a node that the client no longer needs but has not deleted. Returns `None` while the
    /// result of a create is unknown, because the client cannot delete a node that it does not
    /// know.
    pub(super) fn kept_by(&self, client: &Client) -> Option<&String> {
        let session = client.session.as_ref()?;
        let knows = client.queues.values().all(|queue| queue.doubt().is_none()) && !session.has_ghosts();
        let kept = |(name, node): &(&String, &Node)| {
            node.gone.is_none() && node.owner == Some(session.id) && !Self::is_wanted(client, name)
        };
        self.server.nodes.iter().filter(|_| knows).find(kept).map(|(name, _)| name)
    }

    /// Checks that a completed acquire of several locks or permits holds all of them. For permits,
    /// also checks that the acquire's node in the semaphore's mutex, if it still exists, is the
    /// first one.
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

    /// Checks that every acquire of several locks or permits has completed.
    pub(super) fn check_attempts(&self) -> Result<(), String> {
        for (number, client) in self.clients.iter().enumerate() {
            if let Some(attempt) = client.attempts.first() {
                return Err(format!("client {number} never gets all for {:?}: {attempt:?}", attempt.plan));
            }
        }
        Ok(())
    }
}
