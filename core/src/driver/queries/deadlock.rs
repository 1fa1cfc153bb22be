//! Searches for a deadlock between two owners, for a waiter near its deadline.
//!
//! Owner A waits for lock X and holds other locks. The search lists the queues of the held locks,
//! and then the queue of lock X. It looks for an owner B with a node behind A's node in the queue
//! of a held lock Y, and a node ahead of A's node in the queue of lock X. Finally, it checks that
//! both nodes in the queue of lock Y still exist.
//!
//! In this case, both owners wait for each other. All replies arrive on one session, so they show
//! successive states of the ensemble. Both nodes in the queue of lock Y exist in the first listing
//! and at the end. A deleted node is never created again, so they also existed when the server
//! listed the queue of lock X with the other two nodes.

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

/// Maximum number of children of a queue that is searched.
const MOST_CHILDREN: usize = 1_000;

/// Maximum number of pairs of contenders that are read again.
const MOST_PAIRS: usize = 4;

/// A search for one waiter.
pub(in crate::driver) struct Search {
    /// The attempt's directory.
    pub(in crate::driver) directory: DirectoryId,
    pub(in crate::driver) join: JoinId,
    /// The waiter's deadline.
    pub(in crate::driver) deadline: Instant,
    /// The data of the waiter's node.
    pub(in crate::driver) data: Arc<[u8]>,
    pub(in crate::driver) waited: OwnPlace,
    pub(in crate::driver) held: Vec<OwnPlace>,
    /// Channel for the result.
    pub(in crate::driver) sender: mpsc::UnboundedSender<Input>,
}

/// A node of ours in a queue.
pub(in crate::driver) struct OwnPlace {
    pub(in crate::driver) client: DirectoryClient,
    pub(in crate::driver) holds: Arc<HoldTable>,
    pub(in crate::driver) node: NodeName,
}

/// Contenders of a queue, each with its node.
type NamedContenders = Vec<(NodeName, Contender)>;

impl Search {
    /// Runs the search. Reports a deadlock if it finds one before the deadline. Reports nothing if
    /// a request fails.
    pub(in crate::driver) async fn run(self) {
        let found = timeout_at(self.deadline, self.find()).await;
        if let Ok(Ok(Some((held, found)))) = found {
            let (directory, join, found) = (self.directory, self.join, Box::new(found));
            self.sender.send(Input::Deadlock { directory, join, held, found }).ok();
        }
    }

    /// Returns the deadlock, and the index in `held` of the hold that the other owner waits for.
    async fn find(&self) -> Result<Option<(usize, Deadlock)>, zk::Error> {
        // All requests are sent before the first reply.
        let listings: Vec<_> = self.held.iter().map(OwnPlace::list).collect();
        let mut behind: Vec<(usize, NamedContenders)> = Vec::new();
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
    /// Sends a request for the directory's children.
    fn list(&self) -> impl Future<Output = Result<Vec<String>, zk::Error>> + Send {
        self.client.client.ask(RequestKind::List).list_children(&self.client.path)
    }

    /// Returns the contenders' nodes in queue order. Returns `None` if there are too many children,
    /// or if our node is missing.
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

    /// Returns `true` if our node and `node` still exist. `czxid` is the zxid that created `node`.
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
    async fn named_contenders(&self, places: &[(usize, NodeName)]) -> Result<NamedContenders, zk::Error> {
        let contenders = self.contenders_at(places).await?;
        Ok(contenders.into_iter().filter_map(|one| Some((NodeName::parse(&one.node)?, one))).collect())
    }
}

/// Returns the wanted names, with their positions.
fn places(names: &[NodeName], wanted: impl Fn(&NodeName) -> bool) -> Vec<(usize, NodeName)> {
    names.iter().enumerate().filter(|(_, name)| wanted(name)).map(|(at, name)| (at, name.clone())).collect()
}

fn reads(name: &NodeName) -> bool {
    name.kind() == Kind::Read
}

fn blocks(ahead: &NodeName, behind: &NodeName) -> bool {
    !(reads(ahead) && reads(behind))
}

fn key(contender: &Contender) -> Option<OwnerKey<'_>> {
    contender.about.as_ref().and_then(OwnerKey::of)
}
