//! Tests of the wait-for graph.

use super::*;
use crate::queue::contender::OwnerInfo;

/// Returns a contender of the owner with this number. If the number is 0, the contender's node does
/// not describe its owner.
fn contender(path: &str, position: usize, owner: u64, reader: bool) -> Contender {
    let about = (owner > 0).then(|| ContenderInfo {
        host: "h".to_owned(),
        pid: 7,
        owner: Some(OwnerInfo { number: owner, name: None, process: 1 }),
        ..ContenderInfo::default()
    });
    Contender {
        position,
        node: format!("{path}/{}-{position:010}", if reader { "__READ__" } else { "lock" }),
        reader,
        session_id: 1,
        fencing_token: 100 + i64::try_from(position).unwrap(),
        about,
        data: Vec::new(),
        data_length: 0,
        permits: None,
    }
}

/// Returns a queue of these owners. A negative number is a reader.
fn queue(path: &str, owners: &[i64]) -> LockQueue {
    let one = |(position, owner): (usize, &i64)| contender(path, position, owner.unsigned_abs(), *owner < 0);
    LockQueue { path: path.to_owned(), contenders: owners.iter().enumerate().map(one).collect() }
}

/// Returns each cycle as a list of its owners, each with the path of the lock that it waits for.
fn cycles(queues: &[LockQueue]) -> Vec<Vec<(u64, String)>> {
    let number = |place: &CyclePlace| {
        let about = place.contender.about.as_ref();
        about.and_then(|about| about.owner.as_ref()).map_or(0, |owner| owner.number)
    };
    let shown = |cycle: &Cycle| {
        for (owner, next) in cycle.owners.iter().zip(cycle.owners.iter().cycle().skip(1)) {
            assert_eq!(owner.waiting.path, next.blocking.path);
            assert!(next.blocking.contender.position < owner.waiting.contender.position);
            assert_eq!(number(&owner.blocking), number(&owner.waiting));
        }
        cycle.owners.iter().map(|owner| (number(&owner.waiting), owner.waiting.path.clone())).collect()
    };
    WaitGraph::new(queues).cycles().iter().map(shown).collect()
}

fn told(cycle: &[(u64, &str)]) -> Vec<(u64, String)> {
    cycle.iter().map(|(owner, path)| (*owner, (*path).to_owned())).collect()
}

#[test]
fn two_and_three_owners_that_wait_for_each_other_are_cycles() {
    let two = [queue("/a", &[1, 2]), queue("/b", &[2, 1])];
    assert_eq!(cycles(&two), [told(&[(1, "/b"), (2, "/a")])]);
    let three = [queue("/a", &[1, 3]), queue("/b", &[2, 1]), queue("/c", &[3, 2])];
    assert_eq!(cycles(&three), [told(&[(1, "/b"), (2, "/c"), (3, "/a")])]);
}

#[test]
fn one_order_of_locks_has_no_cycle() {
    let queues = [queue("/a", &[1, 2, 3]), queue("/b", &[1, 4, 2]), queue("/c", &[5, 1, 4])];
    assert!(cycles(&queues).is_empty());
    assert_eq!(WaitGraph::new(&queues).waiting(), 6);
}

#[test]
fn readers_that_share_do_not_wait_for_each_other() {
    // Owners 1 and 2 read together at /a, so both hold it.
    assert!(cycles(&[queue("/a", &[-1, -2]), queue("/b", &[2, 1])]).is_empty());
    // A writer waits for both readers and blocks no holder.
    assert!(cycles(&[queue("/a", &[-1, -2, 3]), queue("/b", &[2, 1])]).is_empty());
}

#[test]
fn a_reader_waits_for_the_writers_before_it() {
    let queues = [queue("/a", &[-1, 3, -2]), queue("/b", &[2, 1])];
    // The writer waits between the two readers, so one contender both blocks and waits.
    let found = WaitGraph::new(&queues).cycles();
    assert_eq!(cycles(&queues), [told(&[(1, "/b"), (2, "/a"), (3, "/a")])]);
    assert_eq!(found[0].owners[2].blocking, found[0].owners[2].waiting);
    assert!(found[0].owners[0].blocking.holds && !found[0].owners[2].blocking.holds);
}

#[test]
fn waiters_behind_a_deadlock_are_no_part_of_it() {
    let queues = [queue("/a", &[1, 2, 4, 5]), queue("/b", &[2, 1, 6]), queue("/c", &[4, 6])];
    assert_eq!(cycles(&queues), [told(&[(1, "/b"), (2, "/a")])]);
}

#[test]
fn of_owners_that_all_wait_for_each_other_the_shortest_cycles_are_told() {
    // Cycles: 1 -> 2 -> 3 -> 1, 2 -> 1, and 4 <-> 5. Owners 4 and 5 also wait for owner 3, and
    // owner 3 waits for them.
    let queues = [
        queue("/a", &[1, 2]),
        queue("/b", &[2, 1]),
        queue("/c", &[3, 4]),
        queue("/d", &[4, 5]),
        queue("/e", &[5, 4, 3]),
        queue("/f", &[4, 1]),
    ];
    let found = cycles(&queues);
    assert_eq!(found, [told(&[(1, "/b"), (2, "/a")]), told(&[(3, "/e"), (4, "/c")])]);
}

#[test]
fn an_owner_does_not_wait_for_itself() {
    assert!(cycles(&[queue("/a", &[1, 1])]).is_empty());
    // An owner with two contenders in one queue is in a deadlock with an owner that waits between
    // them.
    assert_eq!(cycles(&[queue("/a", &[1, 2, 1])]), [told(&[(1, "/a"), (2, "/a")])]);
}

#[test]
fn a_writer_that_reads_too_waits_for_nobody() {
    // Owner 1 holds the lock both as a writer and as a reader, although owner 2 waits between the
    // two.
    assert!(cycles(&[queue("/a", &[1, 2, -1])]).is_empty());
    let elsewhere = [queue("/a", &[1, 2, -1]), queue("/b", &[2, 1])];
    assert_eq!(cycles(&elsewhere), [told(&[(1, "/b"), (2, "/a")])]);
    // In the same position, another owner's reader waits.
    assert_eq!(cycles(&[queue("/a", &[3, 2, -1]), queue("/b", &[1, 3])]).len(), 1);
}

#[test]
fn a_contender_without_an_owner_is_told_and_belongs_to_no_other() {
    let queues = [queue("/a", &[0, 1]), queue("/b", &[1, 0])];
    assert!(cycles(&queues).is_empty(), "two nodes may be of two programs");
    assert_eq!(WaitGraph::new(&queues).unattributed(), 2);
    // A contender without an owner still passes on the wait.
    assert_eq!(cycles(&[queue("/a", &[-1, 0, -2]), queue("/b", &[2, 1])]).len(), 1);
}

#[test]
fn a_persistent_node_waits_for_nobody() {
    let mut queues = [queue("/a", &[1, 2]), queue("/b", &[2, 1])];
    queues[0].contenders[1].session_id = 0;
    assert!(cycles(&queues).is_empty());
}

#[test]
fn owners_of_processes_with_one_name_are_told_apart() {
    let mut queues = [queue("/a", &[1, 2]), queue("/b", &[2, 1])];
    let owner = queues[1].contenders[0].about.as_mut().and_then(|about| about.owner.as_mut());
    owner.expect("an owner").process = 2;
    assert!(cycles(&queues).is_empty());
}

#[test]
fn a_long_chain_and_a_long_queue_take_no_recursion_and_few_edges() {
    const MANY: i64 = 10_000;
    // Each owner holds one lock and waits for the next owner's lock. The last owner closes the
    // cycle.
    let mut queues: Vec<_> = (1..=MANY)
        .map(|owner| queue(&format!("/{owner}"), &[owner, (owner + MANY - 2) % MANY + 1]))
        .collect();
    let found = WaitGraph::new(&queues).cycles();
    assert_eq!(found.iter().map(|cycle| cycle.owners.len()).collect::<Vec<_>>(), [10_000]);
    queues.pop();
    assert!(WaitGraph::new(&queues).cycles().is_empty());
    // All owners wait behind owner 1, which is in a deadlock with the last owner.
    let all: Vec<_> = (1..=MANY).collect();
    let queues = [queue("/a", &all), queue("/b", &[MANY, 1])];
    let graph = WaitGraph::new(&queues);
    assert!(graph.helpers.len() < 100_000);
    assert_eq!(cycles(&queues), [told(&[(1, "/b"), (10_000, "/a")])]);
}

#[test]
fn a_cycle_counts_only_if_a_later_pass_shows_the_same_nodes() {
    let first = [queue("/a", &[1, 2]), queue("/b", &[2, 1])];
    let cycles = || WaitGraph::new(&first).cycles();
    assert_eq!(confirmed(cycles(), &first).len(), 1);
    // Since the first pass, one of the owners has left, or has joined again with a new node.
    assert!(confirmed(cycles(), &[queue("/a", &[1]), queue("/b", &[2, 1])]).is_empty());
    let mut again = first.clone();
    again[0].contenders[1].fencing_token += 1;
    assert!(confirmed(cycles(), &again).is_empty());
    // Other contenders do not matter.
    assert_eq!(confirmed(cycles(), &[queue("/a", &[1, 2, 3]), queue("/b", &[2, 1, 3])]).len(), 1);
}
