//! Tests of the option `cohort`: waiters of one client pass one node, and with it the lock, to one
//! another.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use zklock::{
    Client, ErrorKind, Lease, LeaseState, Lock, LockOptions, LossReason, Mutex, Owner, ReadWriteLock,
    RequestKind, Semaphore, Timeout,
};

use super::{brief_client, client, mutex, run, server, until_contenders};

const BRIEF: Duration = Duration::from_millis(50);

fn options(holds: u32) -> LockOptions {
    LockOptions::default().cohort(holds)
}

fn cohort(client: &Client, path: &str, holds: u32) -> Mutex {
    Mutex::with_options(client, path, options(holds)).expect("a path")
}

fn creates(client: &Client) -> u64 {
    client.stats().requests[&RequestKind::Create]
}

/// Waits until `count` acquires of a client wait.
async fn until_waiting(client: &Client, count: usize) {
    while client.health().waits.len() != count {
        tokio::task::yield_now().await;
    }
}

/// Starts `count` acquires that wait for a lock, in order.
async fn waiters(
    client: &Client,
    lock: &Mutex,
    count: usize,
) -> Vec<tokio::task::JoinHandle<zklock::Result<Lease>>> {
    let mut waiters = Vec::new();
    for number in 1..=count {
        let lock = lock.clone();
        waiters.push(tokio::spawn(async move { lock.acquire().await }));
        until_waiting(client, number).await;
    }
    waiters
}

async fn get(waiter: tokio::task::JoinHandle<zklock::Result<Lease>>) -> Lease {
    waiter.await.expect("no panic").expect("the lock")
}

#[test]
fn a_lock_is_handed_on_in_order_on_one_node_as_often_as_it_may_be() {
    run(async {
        let server = server().await;
        let client = client(&server.hosts()).await;
        let lock = cohort(&client, "/l", 3);
        let mut lease = lock.acquire().await.expect("the lock");
        let mut seen = vec![(lease.fencing_token(), lease.handoffs())];
        let before = creates(&client);
        let waiters = waiters(&client, &lock, 7).await;
        until_contenders(&lock, 2).await;
        assert_eq!(creates(&client), before + 1, "one node for all that wait");
        for waiter in waiters {
            lease.release().await.expect("held");
            lease = get(waiter).await;
            assert_eq!(lease.state(), LeaseState::Held);
            seen.push((lease.fencing_token(), lease.handoffs()));
        }
        let handoffs: Vec<_> = seen.iter().map(|(_, handoffs)| *handoffs).collect();
        assert_eq!(handoffs, [0, 1, 2, 0, 1, 2, 0, 1]);
        assert!(seen.is_sorted() && seen.windows(2).all(|two| two[0] != two[1]), "{seen:?}");
        // One of these nodes was created for the last waiter, which then got the lock on another
        // waiter's node.
        assert_eq!(creates(&client), before + 3);
        lease.release().await.expect("held");
        until_contenders(&lock, 0).await;
        let stats = client.stats();
        assert_eq!((stats.acquisitions, stats.hold.count, stats.contended), (8, 8, 7));
    });
}

#[test]
fn only_their_client_reports_waiters_without_nodes() {
    run(async {
        let server = server().await;
        let (ours, theirs) = (client(&server.hosts()).await, client(&server.hosts()).await);
        let (lock, other) = (cohort(&ours, "/l", 3), mutex(&theirs, "/l"));
        let lease = lock.acquire().await.expect("the lock");
        let waiters = waiters(&ours, &lock, 5).await;
        until_contenders(&other, 2).await;
        for contender in other.contenders().await.expect("a list") {
            let about = contender.about.expect("one of zklock's");
            assert_eq!((about.cohort, about.linger, about.owner), (Some(3), None, None));
        }
        let waits = ours.health().waits;
        assert_eq!(waits.len(), 5);
        for wait in &waits {
            assert_eq!((wait.in_cohort, wait.node.as_deref()), (true, None));
            assert_eq!((wait.position, wait.behind.clone()), (Some(1), Some(lease.node())));
        }
        let line = format!(", 1 ahead, in a cohort, without a node of its own, behind {}", lease.node());
        assert_eq!(zklock::dump().matches(&line).count(), 5);
        // A waiter with its own node does not belong to a cohort.
        let asked = tokio::spawn(async move { other.acquire().await });
        until_contenders(&lock, 3).await;
        let wait = theirs.health().waits.pop().expect("it waits");
        assert_eq!((wait.in_cohort, wait.node.is_some()), (false, true));
        asked.abort();
        drop(lease);
        for waiter in waiters {
            drop(get(waiter).await);
        }
    });
}

#[test]
fn a_waiter_in_the_line_counts_as_contended_without_a_listing() {
    run(async {
        let server = server().await;
        let client = client(&server.hosts()).await;
        let lock = cohort(&client, "/l", 2);
        let lease = lock.acquire().await.expect("the lock");
        server.pause().await;
        let mut waiters = waiters(&client, &lock, 2).await;
        lease.release().await.expect("held");
        // The server is paused until the first two holds have ended, so it lists the third waiter's
        // node only then.
        get(waiters.remove(0)).await.release_in_background().expect("held");
        server.resume().await;
        let third = get(waiters.remove(0)).await;
        assert_eq!((third.handoffs(), client.stats().contended), (0, 2));
    });
}

#[test]
fn a_contender_of_another_client_gets_its_turn_after_the_holds_of_each_node_before_its_own() {
    run(async {
        let server = server().await;
        let (client, other) = (client(&server.hosts()).await, client(&server.hosts()).await);
        let lock = cohort(&client, "/l", 4);
        let holds = Arc::new(AtomicU64::new(0));
        let first = lock.acquire().await.expect("the lock");
        let stop = Arc::new(AtomicBool::new(false));
        let mut tasks = Vec::new();
        for _ in 0..8 {
            let (lock, holds, stop) = (lock.clone(), Arc::clone(&holds), Arc::clone(&stop));
            tasks.push(tokio::spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    let lease = lock.acquire().await.expect("the lock");
                    holds.fetch_add(1, Ordering::Relaxed);
                    lease.release().await.expect("held");
                }
            }));
        }
        until_contenders(&lock, 2).await;
        let theirs = mutex(&other, "/l");
        let waiting = tokio::spawn(async move { theirs.acquire().await });
        until_contenders(&lock, 3).await;
        first.release().await.expect("held");
        let lease = get(waiting).await;
        let count = holds.load(Ordering::Relaxed);
        // The first node can have three more holds, and the second node four.
        assert_eq!(count, 7);
        stop.store(true, Ordering::Relaxed);
        lease.release().await.expect("held");
        for task in tasks {
            task.await.expect("no panic");
        }
        until_contenders(&lock, 0).await;
    });
}

#[test]
fn a_canceled_waiter_leaves_no_node_and_is_skipped() {
    run(async {
        let server = server().await;
        let client = client(&server.hosts()).await;
        let lock = cohort(&client, "/l", 100);
        let lease = lock.acquire().await.expect("the lock");
        let dropped = lock.clone();
        let dropped = tokio::spawn(async move { dropped.acquire().await });
        until_waiting(&client, 1).await;
        let error = lock.acquire_within(BRIEF).await.expect_err("it is held");
        assert_eq!(error.kind(), ErrorKind::LockTimeout);
        assert!(error.to_string().contains("another owner in this client"), "{error}");
        let last = lock.clone();
        let last = tokio::spawn(async move { last.acquire().await });
        until_waiting(&client, 2).await;
        dropped.abort();
        until_waiting(&client, 1).await;
        lease.release().await.expect("held");
        let lease = get(last).await;
        assert_eq!(lease.handoffs(), 1);
        until_contenders(&lock, 1).await;
        assert_eq!(client.stats().timeouts, 1);
        // When the last waiter gives up, the client deletes the one node that represented all its
        // waiters.
        let error = lock.acquire_within(BRIEF).await.expect_err("it is held");
        assert_eq!(error.kind(), ErrorKind::LockTimeout);
        until_contenders(&lock, 1).await;
        lease.release().await.expect("held");
        until_contenders(&lock, 0).await;
    });
}

#[test]
fn a_holder_that_is_asked_to_give_up_does_not_hand_the_lock_on() {
    run(async {
        let server = server().await;
        let (client, other) = (client(&server.hosts()).await, client(&server.hosts()).await);
        let lock = cohort(&client, "/l", 100);
        let lease = lock.acquire().await.expect("the lock");
        let mut waiters = waiters(&client, &lock, 2).await;
        let revoked = lease.revoked();
        other.revoke(&lease.node()).await.expect("there is such a node");
        revoked.await;
        lease.release().await.expect("held");
        let next = get(waiters.remove(0)).await;
        assert_eq!(next.handoffs(), 0);
        assert_ne!(next.node(), lease.node());
        next.release().await.expect("held");
        assert_eq!(get(waiters.remove(0)).await.handoffs(), 1);
    });
}

#[test]
fn a_node_that_is_older_than_max_hold_is_not_handed_on_and_each_hold_has_its_own_limit() {
    run(async {
        let server = server().await;
        let client = client(&server.hosts()).await;
        let limit = Duration::from_secs(2);
        let options = options(100).max_hold(limit);
        let lock = Mutex::with_options(&client, "/l", options).expect("a path");
        let lease = lock.acquire().await.expect("the lock");
        let mut waiters = waiters(&client, &lock, 2).await;
        tokio::time::sleep(limit / 10).await;
        let released = Instant::now();
        lease.release().await.expect("held");
        let second = get(waiters.remove(0)).await;
        // The limit of each hold counts from its own grant.
        let remaining = second.remaining();
        assert!(remaining <= limit && remaining + released.elapsed() >= limit, "{remaining:?}");
        assert_eq!(second.handoffs(), 1);
        assert_eq!(second.lost().await, LossReason::HeldTooLong);
        let third = get(waiters.remove(0)).await;
        assert_eq!(third.handoffs(), 0, "what was held too long is not handed on");
        assert_eq!(third.state(), LeaseState::Held);
        drop(second);
        assert_eq!(third.state(), LeaseState::Held);
    });
}

#[test]
fn a_node_that_is_too_old_for_its_holder_or_for_a_waiter_is_not_handed_on() {
    run(async {
        let server = server().await;
        let client = client(&server.hosts()).await;
        let limit = Duration::from_secs(1);
        let brief = Mutex::with_options(&client, "/l", options(100).max_hold(limit)).expect("a path");
        let lock = cohort(&client, "/l", 100);
        for (first, last) in [(&brief, &lock), (&lock, &brief)] {
            let lease = first.acquire().await.expect("the lock");
            let [second, third] = [first, last].map(|lock| {
                let lock = lock.clone();
                async move { lock.acquire().await }
            });
            let second = tokio::spawn(second);
            until_waiting(&client, 1).await;
            let third = tokio::spawn(third);
            until_waiting(&client, 2).await;
            // Each hold is shorter than the limit, and both together are longer.
            tokio::time::sleep(limit * 6 / 10).await;
            drop(lease);
            let lease = get(second).await;
            tokio::time::sleep(limit * 6 / 10).await;
            drop(lease);
            assert_eq!(get(third).await.handoffs(), 0);
        }
    });
}

#[test]
fn a_loss_ends_the_current_hold_and_waiters_keep_waiting() {
    run(async {
        let server = server().await;
        let (client, other) = (client(&server.hosts()).await, client(&server.hosts()).await);
        let lock = cohort(&client, "/l", 100);
        let first = lock.acquire().await.expect("the lock");
        let mut waiters = waiters(&client, &lock, 2).await;
        first.release().await.expect("held");
        let second = get(waiters.remove(0)).await;
        // Wait until the client watches the node that it holds.
        tokio::time::sleep(Duration::from_millis(300)).await;
        other.break_lock(&second.node()).await.expect("there is such a node");
        assert_eq!(second.lost().await, LossReason::NodeDeleted);
        let third = get(waiters.remove(0)).await;
        assert_eq!((third.handoffs(), third.state()), (0, LeaseState::Held));
        assert_eq!(first.state(), LeaseState::Released);
        assert_eq!(client.stats().losses, 1);
        // The loss of a session also ends the hold. The waiters acquire the lock in the next
        // session.
        let mut waiters = self::waiters(&client, &lock, 1).await;
        server.expire(third.session_id()).await;
        assert_eq!(third.lost().await, LossReason::SessionExpired);
        let fourth = get(waiters.remove(0)).await;
        assert_ne!(fourth.session_id(), third.session_id());
    });
}

#[test]
fn an_owner_enters_again_on_a_lock_that_it_was_handed() {
    run(async {
        let server = server().await;
        let client = client(&server.hosts()).await;
        let lock = cohort(&client, "/l", 100);
        let lease = lock.acquire().await.expect("the lock");
        let owner = Owner::new();
        // Two acquires of one owner share one hold, which needs two releases.
        let attempts: Vec<_> = (0..2)
            .map(|_| {
                let (lock, owner) = (lock.clone(), owner.clone());
                tokio::spawn(async move { lock.acquire_as(&owner, Timeout::Forever).await })
            })
            .collect();
        until_waiting(&client, 2).await;
        let after = lock.clone();
        let after = tokio::spawn(async move { after.acquire().await });
        until_waiting(&client, 3).await;
        lease.release().await.expect("held");
        let mut levels = Vec::new();
        for attempt in attempts {
            levels.push(get(attempt).await);
        }
        assert_eq!([levels[0].handoffs(), levels[1].handoffs()], [1, 1]);
        let again = lock.acquire_as(&owner, Timeout::Try).await.expect("it holds");
        drop(levels);
        assert_eq!(again.state(), LeaseState::Held);
        until_waiting(&client, 1).await;
        drop(again);
        assert_eq!(get(after).await.handoffs(), 2);
    });
}

/// Returns an owner's hold of a lock that another owner handed to it.
async fn handed_the_lock(client: &Client, lock: &Lock, owner: &Owner) -> Lease {
    let before = lock.acquire().await.expect("the lock");
    let (lock, same) = (lock.clone(), owner.clone());
    let waiting = tokio::spawn(async move { lock.acquire_as(&same, Timeout::Forever).await });
    until_waiting(client, 1).await;
    before.release().await.expect("held");
    get(waiting).await
}

#[test]
fn a_writer_that_reads_too_does_not_hand_its_node_to_another_writer() {
    run(async {
        let server = server().await;
        let client = client(&server.hosts()).await;
        let options = options(100);
        let catalogue = ReadWriteLock::with_options(&client, "/l", options).expect("a path");
        let owner = Owner::new();
        let writing = handed_the_lock(&client, &catalogue.write_lock, &owner).await;
        let mut others = Vec::new();
        for number in 1..=2 {
            let lock = catalogue.write_lock.clone();
            others.push(tokio::spawn(async move { lock.acquire().await }));
            until_waiting(&client, number).await;
        }
        let reading = catalogue.read_lock.acquire_as(&owner, Timeout::Forever).await.expect("a downgrade");
        let told = |lease: &Lease| (lease.fencing_token(), lease.handoffs());
        assert_eq!((told(&reading), reading.handoffs()), (told(&writing), 1));
        writing.release().await.expect("held");
        let brief = catalogue.write_lock.acquire_within(BRIEF).await.expect_err("there is a reader");
        assert_eq!(brief.kind(), ErrorKind::LockTimeout);
        assert_eq!(client.health().holds.len(), 1);
        reading.release().await.expect("held");
        let next = get(others.remove(0)).await;
        assert_eq!(next.handoffs(), 0);
        next.release().await.expect("held");
        assert_eq!(get(others.remove(0)).await.handoffs(), 1);
    });
}

#[test]
fn a_reader_in_the_place_of_a_writer_that_was_handed_the_lock_has_a_limit_of_its_own() {
    run(async {
        let server = server().await;
        let client = client(&server.hosts()).await;
        let options = options(100).max_hold(Duration::from_millis(400));
        let catalogue = ReadWriteLock::with_options(&client, "/l", options).expect("a path");
        let owner = Owner::new();
        let writing = handed_the_lock(&client, &catalogue.write_lock, &owner).await;
        let reading = catalogue.read_lock.acquire_as(&owner, Timeout::Forever).await.expect("a downgrade");
        drop(writing);
        assert_eq!(reading.handoffs(), 1);
        // The limit takes effect although no code checks the lease.
        assert_eq!(reading.lost().await, LossReason::HeldTooLong);
    });
}

#[test]
fn while_a_transaction_may_be_under_way_the_node_is_not_handed_on() {
    run(async {
        let server = server().await;
        let client = client(&server.hosts()).await;
        let lock = cohort(&client, "/l", 100);
        let lease = lock.acquire().await.expect("the lock");
        let mut waiters = waiters(&client, &lock, 2).await;
        lease.transaction().create("/data", b"y").commit().await.expect("written");
        server.pause().await;
        let sent = tokio::spawn(lease.transaction().set_data("/data", b"z", None).commit());
        tokio::time::sleep(BRIEF).await;
        sent.abort();
        assert!(sent.await.is_err(), "its outcome is not known");
        let released = lease.release();
        server.resume().await;
        released.await.expect("held");
        let next = get(waiters.remove(0)).await;
        assert_eq!(next.handoffs(), 0, "the transaction would pass under the next holder");
        next.transaction().set_data("/data", b"next", None).commit().await.expect("written");
        next.release().await.expect("held");
        assert_eq!(get(waiters.remove(0)).await.handoffs(), 1, "the outcome of that one is known");
    });
}

#[test]
fn while_the_connection_is_lost_nothing_is_handed_on() {
    run(async {
        let server = server().await;
        let client = brief_client(&server.hosts(), Duration::from_secs(20)).await;
        let lock = cohort(&client, "/l", 100);
        let lease = lock.acquire().await.expect("the lock");
        let mut waiters = waiters(&client, &lock, 1).await;
        server.pause().await;
        server.disconnect(lease.session_id()).await;
        while lease.state() == LeaseState::Held {
            tokio::task::yield_now().await;
        }
        assert_eq!(lease.state(), LeaseState::Suspended);
        lease.release_in_background().expect("held");
        assert_eq!(client.health().waits.len(), 1);
        server.resume().await;
        assert_eq!(get(waiters.remove(0)).await.handoffs(), 0);
    });
}

#[test]
fn a_client_that_drains_turns_the_line_away() {
    run(async {
        let server = server().await;
        let client = client(&server.hosts()).await;
        let lock = cohort(&client, "/l", 100);
        let lease = lock.acquire().await.expect("the lock");
        let waiters = waiters(&client, &lock, 3).await;
        let closing = client.clone();
        let closing = tokio::spawn(async move { closing.drain(Duration::from_secs(60)).await });
        for waiter in waiters {
            let error = waiter.await.expect("no panic").expect_err("the client closes");
            assert_eq!(error.kind(), ErrorKind::ClientClosed);
        }
        lease.release().await.expect("held");
        closing.await.expect("no panic").expect("closed");
    });
}

#[test]
fn locks_that_cannot_be_handed_on_refuse_the_option() {
    run(async {
        let server = server().await;
        let client = client(&server.hosts()).await;
        let options = options(2);
        let refused = Semaphore::with_options(&client, "/l", 2, options.clone()).expect_err("permits");
        assert_eq!(refused.argument(), Some("cohort"));
        let refused =
            Mutex::with_options(&client, "/l", options.max_waiters(3)).expect_err("it counts nodes");
        assert_eq!(refused.argument(), Some("cohort"));
        for holds in [0, 1] {
            let lock = cohort(&client, "/l", holds);
            let lease = lock.acquire().await.expect("the lock");
            let mut waiters = waiters(&client, &lock, 1).await;
            until_contenders(&lock, 2).await;
            lease.release().await.expect("held");
            assert_eq!(get(waiters.remove(0)).await.handoffs(), 0);
        }
    });
}
