//! `zklock doctor --deadlocks`: reads the queues of all locks below a path, and searches them for
//! cycles of owners that wait for each other. Reads the queues of a cycle a second time to confirm
//! it.

use std::collections::{BTreeSet, VecDeque};
use std::future::Future;
use std::io::{IsTerminal, stderr};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use zklock::internal::list;
use zklock::queue::{Cycle, LockQueue, WaitGraph, confirmed};
use zklock::{Client, ErrorKind, Mutex};

use crate::contender::Child;
use crate::failure::Failure;
use crate::missing::missing;
use crate::terminal_output::report_problem;

/// Maximum number of directories that are read at the same time.
const MAX_CONCURRENT_REQUESTS: usize = 16;

/// Interval between progress reports of a long search.
const PROGRESS: Duration = Duration::from_secs(2);

/// Maximum number of reads that try to confirm cycles. After the last one, only the confirmed
/// cycles are reported.
const ROUNDS: usize = 5;

/// The result of a search.
#[derive(Debug, Default)]
pub(crate) struct Search {
    /// The deadlocks, each confirmed by a second pass.
    pub(crate) cycles: Vec<Cycle>,
    pub(crate) counts: Counts,
}

/// Number of directories, locks and contenders that were read or skipped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Nodes whose children were listed.
    pub(crate) directories: usize,
    /// Locks with at least two contenders. At other locks, no contender waits.
    pub(crate) contended: usize,
    pub(crate) waiting: usize,
    /// Contenders of contended locks whose nodes do not state their owner.
    pub(crate) unattributed: usize,
    pub(crate) semaphores: usize,
    /// Directories that are not readable.
    pub(crate) refused: usize,
}

/// Result of reading one directory.
#[derive(Debug, Default)]
struct Visit {
    queue: Option<LockQueue>,
    inner: Vec<String>,
    semaphore: bool,
    refused: bool,
}

/// Searches for deadlocks at and below a path. If the path does not exist, the second value is a
/// message that reports this.
pub(crate) async fn search(client: &Client, root: &str) -> Result<(Search, Option<String>), Failure> {
    // Fail if the root is unreadable. Unreadable directories below it are only counted.
    if list(client, root).await?.is_none() {
        return Ok((Search::default(), missing(client, root).await));
    }
    let (queues, mut counts) = walk(client, root).await?;
    let graph = WaitGraph::new(&queues);
    (counts.waiting, counts.unattributed) = (graph.waiting(), graph.unattributed());
    let cycles = confirmed_cycles(queues, |paths| read_queues(client, paths)).await?;
    Ok((Search { cycles, counts }, None))
}

/// Returns the cycles in these queues that a second read confirms. If a cycle is not confirmed, its
/// queues have changed. The changed queues are then searched again, because that cycle might have
/// hidden another one.
async fn confirmed_cycles<F>(
    mut queues: Vec<LockQueue>,
    mut read: impl FnMut(Vec<String>) -> F,
) -> Result<Vec<Cycle>, Failure>
where
    F: Future<Output = Result<Vec<LockQueue>, Failure>>,
{
    let mut certain = Vec::new();
    for _ in 0..ROUNDS {
        let cycles = WaitGraph::new(&queues).cycles();
        let all = cycles.len();
        if all == 0 {
            return Ok(cycles);
        }
        let paths: BTreeSet<_> = cycles.iter().flat_map(Cycle::places).map(|place| &place.path).collect();
        let later = read(paths.into_iter().cloned().collect()).await?;
        certain = confirmed(cycles, &later);
        if certain.len() == all {
            break;
        }
        for queue in later {
            if let Some(old) = queues.iter_mut().find(|old| old.path == queue.path) {
                *old = queue;
            }
        }
    }
    Ok(certain)
}

/// Reads the contended queues at and below a path, in the order of their paths.
async fn walk(client: &Client, root: &str) -> Result<(Vec<LockQueue>, Counts), Failure> {
    let (mut queues, mut counts) = (Vec::new(), Counts::default());
    let mut pending = VecDeque::from([root.to_owned()]);
    let mut visits = JoinSet::new();
    let mut last_progress = Instant::now();
    loop {
        while visits.len() < MAX_CONCURRENT_REQUESTS
            && let Some(path) = pending.pop_front()
        {
            let client = client.clone();
            visits.spawn(async move { visit(&client, path).await });
        }
        let Some(visit) = visits.join_next().await else { break };
        let visit = visit.map_err(|error| Failure::system("cannot read the locks", &error))?;
        let Visit { queue, inner, semaphore, refused } = visit?;
        counts.directories += 1;
        counts.contended += usize::from(queue.is_some());
        counts.semaphores += usize::from(semaphore);
        counts.refused += usize::from(refused);
        queues.extend(queue);
        pending.extend(inner);
        if last_progress.elapsed() >= PROGRESS && stderr().is_terminal() {
            last_progress = Instant::now();
            let (read, left) = (counts.directories, pending.len() + visits.len());
            report_problem(format_args!("{read} directories read, {left} known that are not"));
        }
    }
    queues.sort_by(|one, other| one.path.cmp(&other.path));
    Ok((queues, counts))
}

/// Lists a directory with one request. Also reads its queue if it can have at least two contenders.
async fn visit(client: &Client, path: String) -> Result<Visit, Failure> {
    let listing = match list(client, &path).await {
        Err(error) if error.kind() == ErrorKind::AuthFailed => {
            return Ok(Visit { refused: true, ..Visit::default() });
        }
        listing => listing?.unwrap_or_default(),
    };
    // A semaphore has the children `leases` and `locks`. Check only `leases`, because users often
    // name the directory of all their locks `locks`.
    let semaphore = listing.names.iter().any(|name| name == "leases");
    let parent = if path == "/" { "" } else { &path };
    let (mut contenders, mut ambiguous) = (0, 0);
    let mut inner = Vec::new();
    for name in &listing.names {
        match Child::of(name, &listing) {
            Child::Contender(_) => contenders += 1,
            Child::Ambiguous(_) => ambiguous += 1,
            Child::Directory if semaphore && matches!(name.as_str(), "leases" | "locks") => {}
            // ZooKeeper's own nodes contain no locks.
            Child::Directory if path == "/" && name == "zookeeper" => {}
            Child::Directory => inner.push(format!("{parent}/{name}")),
        }
    }
    let mut found = Visit { inner, semaphore, ..Visit::default() };
    // The root is not a lock.
    if path != "/" && (contenders + ambiguous > 1 || ambiguous > 0) {
        let queue = read_queue(client, &path).await?;
        // A persistent node with the name of a contender can be the directory of another lock, so
        // visit it too.
        let persistent = queue.contenders.iter().filter(|contender| contender.session_id == 0);
        found.inner.extend(persistent.map(|contender| contender.node.clone()));
        let states_permits = queue
            .contenders
            .iter()
            .any(|contender| contender.about.as_ref().is_some_and(|about| about.permits.is_some()));
        found.semaphore |= states_permits;
        let ephemeral = queue.contenders.iter().filter(|contender| contender.session_id != 0).count();
        if ephemeral > 1 && !states_permits {
            found.queue = Some(queue);
        }
    }
    Ok(found)
}

async fn read_queue(client: &Client, path: &str) -> Result<LockQueue, Failure> {
    let contenders = Mutex::new(client, path)?.contenders().await?;
    Ok(LockQueue { path: path.to_owned(), contenders })
}

/// Reads these queues again.
async fn read_queues(client: &Client, paths: Vec<String>) -> Result<Vec<LockQueue>, Failure> {
    let (mut paths, mut reads) = (paths.into_iter(), JoinSet::new());
    let mut queues = Vec::new();
    loop {
        while reads.len() < MAX_CONCURRENT_REQUESTS
            && let Some(path) = paths.next()
        {
            let client = client.clone();
            reads.spawn(async move { read_queue(&client, &path).await });
        }
        let Some(read) = reads.join_next().await else { return Ok(queues) };
        queues.push(read.map_err(|error| Failure::system("cannot read the locks", &error))??);
    }
}

#[cfg(test)]
mod tests {
    use std::future::ready;

    use super::*;
    use crate::doctor::deadlock_findings::tests::queue;

    /// Searches the queues in `first`. Each further read of the search returns the next element of
    /// `later`. Returns the number of confirmed cycles and the number of further reads.
    fn certain(first: &[LockQueue], later: Vec<Vec<LockQueue>>) -> (usize, usize) {
        let (mut views, all) = (later.into_iter(), first.to_vec());
        let mut reads = 0;
        let search = confirmed_cycles(all, |_| {
            reads += 1;
            ready(Ok(views.next().unwrap_or_default()))
        });
        let cycles = crate::session::runtime().and_then(|runtime| runtime.block_on(search));
        (cycles.map_or(0, |cycles| cycles.len()), reads)
    }

    #[test]
    fn a_cycle_of_two_moments_is_no_deadlock() {
        let mixed = [queue("/a", &[1, 2]), queue("/b", &[2, 1])];
        assert_eq!(certain(&mixed, vec![mixed.to_vec()]), (1, 1));
        // Owner 2 left /b before it joined the queue of /a.
        let now = vec![queue("/a", &[1, 2]), queue("/b", &[1])];
        assert_eq!(certain(&mixed, vec![now]), (0, 1));
    }

    #[test]
    fn a_cycle_behind_one_that_has_gone_is_searched_as_well() {
        // In the second read, owners 1 and 2 no longer wait for each other. Owners 1, 2 and 3 form
        // a cycle, which the shorter cycle of 1 and 2 hid in the first read.
        let mixed = [queue("/a", &[1, 2]), queue("/b", &[2, 1]), queue("/c", &[3, 2]), queue("/d", &[1, 3])];
        let now = [queue("/a", &[1]), queue("/b", &[2, 1])];
        let later = [queue("/b", &[2, 1]), queue("/c", &[3, 2]), queue("/d", &[1, 3])];
        assert_eq!(certain(&mixed, vec![now.to_vec(), later.to_vec()]), (1, 2));
        assert_eq!(certain(&mixed, vec![now.to_vec(), now.to_vec()]), (0, 5));
    }
}
