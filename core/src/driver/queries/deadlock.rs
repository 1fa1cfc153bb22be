//! Searches a deadlock of two owners for a waiter whose time will soon be up.
//!
//! The waiter's owner holds some locks. The search lists their queues, then the queue in which the owner waits, and then
//! looks again at two nodes of a held lock's queue: at our node, through which we hold, and at the node of another owner
//! that waits behind it. In the waiter's queue it finds a node of that same owner, in front of ours. All answers come from
//! one session, so they show states of the ensemble that follow each other. The two nodes of the held lock exist in the
//! first listing and at the end, and a node does not come back: so they also exist at the moment of the listing in
//! between, which shows the other two. At that moment each owner waited for the other.

use std::future::Future;
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};
use zookeeper_client as zk;

use crate::driver::connection::requests::DirectoryClient;
use crate::driver::mailbox::{DirectoryId, Input};
use crate::error::deadlock::Deadlock;
use crate::lease::hold::HoldTable;
use crate::metrics::RequestKind;
use crate::queue::contender::{Contender, ContenderInfo};
use crate::queue::{JoinId, Kind, NodeName, OwnerKey};

/// A queue with more children is not looked at.
const MOST_CHILDREN: usize = 1_000;

/// So many pairs of contenders are looked at again.
const MOST_PAIRS: usize = 4;

/// A search for one waiter.
pub(in crate::driver) struct Search {
    /// The attempt, in its directory.
    pub(in crate::driver) directory: DirectoryId,
    pub(in crate::driver) join: JoinId,
    /// When its time is up.
    pub(in crate::driver) deadline: Instant,
    /// The data of its node.
    pub(in crate::driver) data: Arc<[u8]>,
    pub(in crate::driver) waited: OwnPlace,
    pub(in crate::driver) held: Vec<OwnPlace>,
    /// Where the result goes.
    pub(in crate::driver) sender: mpsc::UnboundedSender<Input>,
}

/// A node of ours in a queue.
pub(in crate::driver) struct OwnPlace {
    pub(in crate::driver) client: DirectoryClient,
    pub(in crate::driver) holds: Arc<HoldTable>,
    pub(in crate::driver) node: NodeName,
}

/// Contenders of a queue, each with its node.
type Found = Vec<(NodeName, Contender)>;

impl Search {
    /// Reports what it finds in time. A search that fails finds nothing.
    pub(in crate::driver) async fn run(self) {
        let found = timeout_at(self.deadline, self.find()).await;
        if let Ok(Ok(Some((held, found)))) = found {
            let (directory, join, found) = (self.directory, self.join, Box::new(found));
            self.sender.send(Input::Deadlock { directory, join, held, found }).ok();
        }
    }

    /// The deadlock, with the number of the hold in it.
    async fn find(&self) -> Result<Option<(usize, Deadlock)>, zk::Error> {
        // All are asked for before the first is answered.
        let listings: Vec<_> = self.held.iter().map(OwnPlace::list).collect();
        let mut behind: Vec<(usize, Found)> = Vec::new();
        for (number, (place, listing)) in self.held.iter().zip(listings).enumerate() {
            let Some(names) = place.sorted(listing.await)? else { continue };
            let blocked = places(&names, |name| *name > place.node && blocks(&place.node, name));
            if !blocked.is_empty() {
                behind.push((number, place.client.named_contenders(&blocked).await?));
            }
        }
        if behind.is_empty() {
            return Ok(None);
        }
        let Some(names) = self.waited.sorted(self.waited.list().await)? else { return Ok(None) };
        let in_front = places(&names, |name| *name < self.waited.node && blocks(name, &self.waited.node));
        let in_front = self.waited.client.named_contenders(&in_front).await?;
        let us = serde_json::from_slice(&self.data).ok().and_then(|data| ContenderInfo::parse(&data));
        let us = us.as_ref().and_then(OwnerKey::of);
        let mut pairs = 0;
        for (name, other) in in_front {
            let Some(key) = key(&other).filter(|key| Some(*key) != us) else { continue };
            for (number, behind) in &behind {
                let Some((node, waiter)) = behind.iter().find(|(_, waiter)| self::key(waiter) == Some(key))
                else {
                    continue;
                };
                if pairs == MOST_PAIRS {
                    return Ok(None);
                }
                pairs += 1;
                let Some(held) = self.held.get(*number) else { continue };
                if held.still_blocks(node, waiter.fencing_token).await? {
                    let writers =
                        || names.iter().take_while(|other| **other < name).any(|other| !reads(other));
                    let holds = other.position == 0 || reads(&name) && !writers();
                    let place = &self.waited.holds.place;
                    let other = other.clone().within(place.directory());
                    return Ok(Some((
                        *number,
                        Deadlock::new(held.holds.place.path(), place.path(), other, holds),
                    )));
                }
            }
        }
        Ok(None)
    }
}

impl OwnPlace {
    /// Asks for the children of the directory.
    fn list(&self) -> impl Future<Output = Result<Vec<String>, zk::Error>> + Send {
        self.client.client.ask(RequestKind::List).list_children(&self.client.path)
    }

    /// The names of the nodes that count, in order; nothing if there are too many, or ours is not among them.
    fn sorted(&self, listing: Result<Vec<String>, zk::Error>) -> Result<Option<Vec<NodeName>>, zk::Error> {
        let children = match listing {
            Err(zk::Error::NoNode) => return Ok(None),
            listing => listing?,
        };
        if children.len() > MOST_CHILDREN {
            return Ok(None);
        }
        let mut names: Vec<_> = children.iter().filter_map(|child| NodeName::parse(child)).collect();
        names.sort();
        Ok(names.binary_search(&self.node).is_ok().then_some(names))
    }

    /// Whether this node of ours still exists, and behind it the node that a transaction created.
    async fn still_blocks(&self, node: &NodeName, czxid: i64) -> Result<bool, zk::Error> {
        let stat = |node: &NodeName| {
            let node = self.client.child(node.as_str());
            self.client.client.ask(RequestKind::Read).check_stat(&node)
        };
        let (ours, other) = (stat(&self.node), stat(node));
        Ok(ours.await?.is_some() && other.await?.is_some_and(|stat| stat.czxid == czxid))
    }
}

impl DirectoryClient {
    /// The contenders at these places, with their names.
    async fn named_contenders(&self, places: &[(usize, NodeName)]) -> Result<Found, zk::Error> {
        let contenders = self.contenders_at(places).await?;
        Ok(contenders.into_iter().filter_map(|one| Some((NodeName::parse(&one.node)?, one))).collect())
    }
}

/// Those of the names that are wanted, with their positions.
fn places(names: &[NodeName], wanted: impl Fn(&NodeName) -> bool) -> Vec<(usize, NodeName)> {
    names.iter().enumerate().filter(|(_, name)| wanted(name)).map(|(at, name)| (at, name.clone())).collect()
}

fn reads(name: &NodeName) -> bool {
    name.kind() == Kind::Read
}

/// Whether a contender keeps one out that is behind it.
fn blocks(ahead: &NodeName, behind: &NodeName) -> bool {
    !(reads(ahead) && reads(behind))
}

fn key(contender: &Contender) -> Option<OwnerKey<'_>> {
    contender.about.as_ref().and_then(OwnerKey::of)
}
