//! Reads the contenders of a lock when a program requests them. Other clients write the nodes'
//! names and data, so this module limits the amount of data that it reads.

use std::collections::BTreeSet;

use zookeeper_client as zk;

use crate::driver::connection::request_size;
use crate::driver::connection::requests::{DirectoryClient, LONGEST_DATA};
use crate::driver::mailbox::node_watch::NodeWatch;
use crate::driver::mailbox::replies::First;
use crate::error::escape::Escaped;
use crate::metrics::RequestKind;
use crate::queue::NodeName;
use crate::queue::contender::{Contender, data_length};
use crate::runtime::offload::offload_work;
use crate::session::watch_budget::WatchBudget;

/// Maximum number of nodes in one batch. Heartbeats can be sent between two batches.
const MAX_NODES_PER_REQUEST: usize = 1000;

/// Maximum number of bytes of node data that one query reads, starting at the front of the queue.
const MAX_DATA: usize = 16 << 20;

/// Maximum number of contenders reported, counted from the first.
const MAX_CONTENDERS: usize = 100_000;

/// A node, with its data if that was read.
type ReadNode = (NodeName, zk::Stat, Option<Vec<u8>>);

impl DirectoryClient {
    /// Returns the contenders in queue order. Reads a node's data only if the node's Stat shows
    /// that the data is small. Takes three round trips for up to a thousand contenders, and two
    /// more for each further thousand.
    pub(in crate::driver) async fn contenders(&self) -> Result<Vec<Contender>, zk::Error> {
        let mut names = self.names().await?;
        if names.len() > MAX_CONTENDERS {
            let (path, found) = (Escaped(self.shown()), names.len());
            tracing::warn!(%path, found, "too many contenders; only the first {MAX_CONTENDERS} are reported");
            names.truncate(MAX_CONTENDERS);
        }
        let (mut contenders, mut room) = (Vec::with_capacity(names.len()), MAX_DATA);
        let mut rest = names.as_slice();
        while !rest.is_empty() {
            let (names, others) = rest.split_at(self.batch_size(rest));
            rest = others;
            let found = self.read_data(self.find(names).await?, &mut room).await?;
            let size = found.iter().filter_map(|(.., data)| data.as_ref()).map(Vec::len).sum();
            let first = contenders.len();
            let parse = move || {
                let numbered = found.into_iter().zip(first..);
                let new = |((name, stat, data), at)| Contender::new(at, &name, &stat, data);
                numbered.map(new).collect::<Vec<_>>()
            };
            contenders.append(&mut offload_work(size, parse).await.ok_or(zk::Error::RuntimeInconsistent)?);
        }
        Ok(contenders)
    }

    /// Returns the contenders with these positions and node names. Omits nodes that no longer
    /// exist. Takes two round trips.
    pub(in crate::driver) async fn contenders_at(
        &self,
        places: &[(usize, NodeName)],
    ) -> Result<Vec<Contender>, zk::Error> {
        let names: Vec<_> = places.iter().map(|(_, name)| name.clone()).collect();
        let (names, _) = names.split_at(self.batch_size(&names).min(names.len()));
        let found = self.read_data(self.find(names).await?, &mut { MAX_DATA }).await?;
        let mut places = places.iter();
        // Both lists are in order.
        let mut at = |name: &NodeName| places.find(|(_, other)| other == name).map(|(position, _)| *position);
        let new = |(name, stat, data): ReadNode| Some(Contender::new(at(&name)?, &name, &stat, data));
        Ok(found.into_iter().filter_map(new).collect())
    }

    /// Returns the first contender. If `room` is given, also returns a watch that fires when
    /// another contender might have become the first. The watch is on the first contender's node.
    /// If there is no contender, it is on the directory's children, and if there is no directory,
    /// on the directory's path. Takes three round trips.
    pub(in crate::driver) async fn first(&self, room: Option<&WatchBudget>) -> Result<First, zk::Error> {
        loop {
            let names = self.names().await?;
            let found = match names.first() {
                Some(name) => self.first_named(name, room).await?,
                None => self.watch_empty_queue(room).await?,
            };
            // `None`: the queue has changed since the listing.
            if let Some(found) = found {
                return Ok(found);
            }
        }
    }

    /// Returns the contender with this node, and a watch on the node. Returns `None` if the node no
    /// longer exists.
    async fn first_named(
        &self,
        name: &NodeName,
        room: Option<&WatchBudget>,
    ) -> Result<Option<First>, zk::Error> {
        let node = self.child(name.as_str());
        let (stat, changed) = self.stat(&node, room).await?;
        let Some(stat) = stat else { return Ok(None) };
        let size = data_length(&stat);
        let mut data = None;
        if size > 0 && size <= LONGEST_DATA {
            match self.client.ask(RequestKind::Read).get_data(&node).await {
                // The data might have grown in between.
                Ok((read, _)) => data = (read.len() <= LONGEST_DATA).then_some(read),
                Err(zk::Error::NoNode) => return Ok(None),
                Err(zk::Error::NoAuth) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Some(First { contender: Some(Contender::new(0, name, &stat, data)), changed }))
    }

    /// Returns a [`First`] without a contender, with a watch on the children. Returns `None` if
    /// there is a contender now.
    async fn watch_empty_queue(&self, room: Option<&WatchBudget>) -> Result<Option<First>, zk::Error> {
        let reserved = room.and_then(|room| room.reserve(self.path.len()));
        let Some(reserved) = reserved else { return Ok(Some(First { contender: None, changed: None })) };
        let changed = match self.client.ask(RequestKind::List).list_and_watch_children(&self.path).await {
            Ok((children, watcher)) => {
                let counts = |child: &String| NodeName::parse(child).is_some();
                let some = offload_work(size(&children), move || children.iter().any(counts)).await;
                if some.ok_or(zk::Error::RuntimeInconsistent)? {
                    return Ok(None);
                }
                Some(NodeWatch { watcher, room: reserved, tasks: self.tasks.clone() })
            }
            Err(zk::Error::NoNode) => {
                drop(reserved);
                match self.stat(&self.path, room).await? {
                    (None, changed) => changed,
                    (Some(_), _) => return Ok(None),
                }
            }
            Err(error) => return Err(error),
        };
        Ok(Some(First { contender: None, changed }))
    }

    /// Returns a node's Stat. If the watch budget has room, also returns a watch that fires when
    /// the node is created, changed or deleted.
    async fn stat(
        &self,
        node: &str,
        room: Option<&WatchBudget>,
    ) -> Result<(Option<zk::Stat>, Option<NodeWatch>), zk::Error> {
        let Some(room) = room.and_then(|room| room.reserve(node.len())) else {
            return Ok((self.client.ask(RequestKind::Read).check_stat(node).await?, None));
        };
        let (stat, watcher) = self.client.ask(RequestKind::Watch).check_and_watch_stat(node).await?;
        Ok((stat, Some(NodeWatch { watcher, room, tasks: self.tasks.clone() })))
    }

    /// Returns the number of contenders.
    pub(in crate::driver) async fn count(&self) -> Result<usize, zk::Error> {
        let children = self.children().await?;
        let counts = |child: &String| NodeName::parse(child).is_some();
        offload_work(size(&children), move || children.iter().filter(|child| counts(child)).count())
            .await
            .ok_or(zk::Error::RuntimeInconsistent)
    }

    /// Returns the names of the nodes that count as contenders, in queue order.
    async fn names(&self) -> Result<Vec<NodeName>, zk::Error> {
        let children = self.children().await?;
        let size = size(&children);
        let sort = move || {
            let mut names: Vec<_> = children.iter().filter_map(|child| NodeName::parse(child)).collect();
            names.sort();
            names
        };
        offload_work(size, sort).await.ok_or(zk::Error::RuntimeInconsistent)
    }

    pub(in crate::driver) async fn children(&self) -> Result<Vec<String>, zk::Error> {
        match self.client.ask(RequestKind::List).list_children(&self.path).await {
            Err(zk::Error::NoNode) => Ok(Vec::new()),
            children => children,
        }
    }

    /// Returns the number of nodes at the start of `names` that fit in one batch. Their paths must
    /// fit in one request.
    fn batch_size(&self, names: &[NodeName]) -> usize {
        // Read at least one node. A request to read it fits, because the request that created it
        // was larger.
        request_size::readable(&self.path, &names[..names.len().min(MAX_NODES_PER_REQUEST)]).max(1)
    }

    /// Returns the nodes that still exist. Sends all requests before it waits for a reply.
    async fn find(&self, names: &[NodeName]) -> Result<Vec<ReadNode>, zk::Error> {
        let ask = |name: &NodeName| self.client.ask(RequestKind::Read).check_stat(&self.child(name.as_str()));
        let asked: Vec<_> = names.iter().map(ask).collect();
        let mut found = Vec::with_capacity(names.len());
        for (name, stat) in names.iter().zip(asked) {
            if let Some(stat) = stat.await? {
                found.push((name.clone(), stat, None));
            }
        }
        Ok(found)
    }

    /// Reads the data of each node whose data is small, until `room` bytes have been read. Omits
    /// nodes that were deleted after their Stat was read.
    async fn read_data(
        &self,
        mut found: Vec<ReadNode>,
        room: &mut usize,
    ) -> Result<Vec<ReadNode>, zk::Error> {
        let mut reader = self.client.ask(RequestKind::Read).new_multi_reader();
        let mut asked = Vec::new();
        for (at, (name, stat, _)) in found.iter().enumerate() {
            let size = data_length(stat);
            if size > 0 && size <= LONGEST_DATA.min(*room) {
                *room -= size;
                reader.add_get_data(&self.child(name.as_str()))?;
                asked.push(at);
            }
        }
        if asked.is_empty() {
            return Ok(found);
        }
        let mut gone = BTreeSet::new();
        for (at, node) in asked.into_iter().zip(reader.commit().await?) {
            match node {
                // The data might have grown in between.
                zk::MultiReadResult::Data { data, stat } => {
                    let data = (data.len() <= LONGEST_DATA).then_some(data);
                    (found[at].1, found[at].2) = (stat, data);
                }
                zk::MultiReadResult::Error { err: zk::Error::NoNode } => drop(gone.insert(at)),
                // Reading the data is forbidden.
                _ => {}
            }
        }
        let all = found.into_iter().enumerate();
        Ok(all.filter(|(at, _)| !gone.contains(at)).map(|(_, found)| found).collect())
    }
}

fn size(children: &[String]) -> usize {
    children.iter().map(String::len).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_crowd_is_sorted_on_a_thread_of_its_own_and_a_few_names_are_not() {
        for (count, elsewhere) in [(1, false), (1_000, true)] {
            let names: Vec<_> = (0..count).map(|number| format!("lock-{number:010}")).collect();
            let here = std::thread::current().id();
            let there = offload_work(size(&names), || std::thread::current().id()).await;
            assert_eq!(there != Some(here), elsewhere, "{count}");
        }
    }
}
