//! Sends the requests of zklock's hand-off. A table that the contenders of this process share tells
//! them which nodes are left, so that no request depends on the logic of a lock. Unlike a lock, it
//! is not safe: it ignores lost sessions and other processes.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use zklock_bench_locks::{Gate, Stopwatch, Task};
use zookeeper_client::{Client, Error, OneshotWatcher};

use super::nodes::{DATA, NUMBERED, PREFIX};
use super::{Result, make};

/// Number of predecessors that a waiter watches.
const WATCHED: usize = 2;

/// The names of the nodes that were created and not yet deleted.
#[derive(Default)]
struct Shared(Mutex<BTreeSet<String>>);

impl Shared {
    fn change(&self, change: impl FnOnce(&mut BTreeSet<String>)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Returns `true` if no node is older.
    fn is_first(&self, name: &str) -> bool {
        let nodes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        nodes.first().is_none_or(|first| first.as_str() >= name)
    }
}

/// Starts the contenders.
pub(super) async fn start(task: &Task, clients: &[Client], gate: &Arc<Gate>) -> Result<()> {
    let shared = Arc::new(Shared::default());
    for contender in 0..task.contenders() {
        let client = clients[contender / task.number("contenders")].clone();
        let (path, shared, gate) = (task.path(contender), shared.clone(), gate.clone());
        make(&client, &path).await?;
        tokio::spawn(async move {
            let mut watch = Stopwatch::new(&gate);
            // The error comes from closing the client.
            loop {
                watch.start().await;
                let (held, own) = acquire(&client, &path, &shared).await?;
                watch.acquired();
                gate.pass().await;
                watch.releasing();
                shared.change(|nodes| {
                    nodes.remove(&held);
                });
                client.delete(&format!("{path}/{held}"), None).await?;
                // The watch has fired. If it were dropped before, the client would send a request.
                drop(own);
                watch.released();
                gate.done(1);
            }
            #[expect(unreachable_code, reason = "names the type")]
            Ok::<(), Error>(())
        });
    }
    Ok(())
}

/// Returns the name of a new node, with a watch on it, when no older node is left.
async fn acquire(client: &Client, path: &str, shared: &Shared) -> Result<(String, Option<OneshotWatcher>)> {
    let numbered = format!("{path}/{PREFIX}");
    let create = client.create(&numbered, DATA, &NUMBERED);
    let ((_, sequence), mut names) = tokio::try_join!(create, client.list_children(path))?;
    let ours = format!("{PREFIX}{sequence}");
    shared.change(|nodes| {
        nodes.insert(ours.clone());
    });
    names.retain(|name| *name < ours);
    names.sort_unstable_by(|one, other| other.cmp(one));
    names.truncate(WATCHED);
    if names.is_empty() {
        return Ok((ours, None));
    }
    let (own, nearest, second) = tokio::try_join!(
        watched(client, path, Some(&ours)),
        watched(client, path, names.first()),
        watched(client, path, names.get(1)),
    )?;
    let second =
        (names.len() == WATCHED).then(|| tokio::spawn(list_after(client.clone(), path.to_owned(), second)));
    if let Some(nearest) = nearest {
        nearest.changed().await;
    }
    if let Some(second) = second.filter(|_| !shared.is_first(&ours)) {
        second.await.map_err(|error| Error::UnexpectedError(error.to_string()))??;
    }
    Ok((ours, own))
}

/// Lists the directory when the second-nearest node is gone, as a lock must. The listing is not
/// waited for: the next event wakes the contender.
async fn list_after(client: Client, path: String, second: Option<OneshotWatcher>) -> Result<()> {
    if let Some(second) = second {
        second.changed().await;
    }
    client.list_children(&path).await?;
    Ok(())
}

/// Reads a node and watches its data. The result is `None` if there is no such node.
async fn watched(client: &Client, path: &str, name: Option<&String>) -> Result<Option<OneshotWatcher>> {
    let Some(name) = name else { return Ok(None) };
    match client.get_and_watch_data(&format!("{path}/{name}")).await {
        Ok((_, _, watcher)) => Ok(Some(watcher)),
        Err(Error::NoNode) => Ok(None),
        Err(error) => Err(error),
    }
}
