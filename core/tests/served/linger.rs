//! Tests of the option `linger`: after a release, the client keeps the lock's node for a while.

use std::future::Future;
use std::pin::pin;
use std::sync::mpsc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use zklock::internal::begin;
use zklock::{
    Client, Contender, ErrorKind, Lease, LeaseState, Lock, LockOptions, LossReason, Mutex, Owner,
    ReadWriteLock, RequestKind, Semaphore, Timeout,
};

use super::proxy::{RequestEffect, op};
use super::{behind_proxy, brief_client, client, mutex, run, server, until_contenders};

/// Longer than the duration of any of these tests.
const LONG: Duration = Duration::from_secs(600);

const BRIEF: Duration = Duration::from_millis(50);

fn options(time: Duration) -> LockOptions {
    LockOptions::default().linger(time)
}

fn keeps(client: &Client, path: &str, time: Duration) -> Mutex {
    Mutex::with_options(client, path, options(time)).expect("a path")
}

fn halves(client: &Client, path: &str) -> (Lock, Lock) {
    let ReadWriteLock { read_lock, write_lock, .. } =
        ReadWriteLock::with_options(client, path, options(LONG)).expect("a path");
    (read_lock, write_lock)
}

/// Returns a lease if the lock can be acquired without a request. Stops the library's thread during
/// the call, so that the thread cannot grant the lock.
fn at_once(lock: &Lock) -> Option<Lease> {
    let (stop, told_to_stop) = oneshot::channel::<()>();
    let ((stands, stood), (go_on, told_to_go_on)) = (mpsc::channel::<()>(), mpsc::channel::<()>());
    let stopped = begin(told_to_stop, move |_| {
        drop(stands);
        told_to_go_on.recv().ok();
    });
    drop(stop);
    stood.recv().ok();
    let mut asked = pin!(lock.acquire());
    let polled = asked.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    drop(go_on);
    drop(stopped);
    match polled {
        Poll::Ready(lease) => Some(lease.expect("the lock")),
        Poll::Pending => None,
    }
}

/// Acquires and releases a lock until the client keeps its node, so that it can acquire the lock
/// without a request. Returns the fencing token.
async fn kept(lock: &Lock) -> i64 {
    loop {
        drop(lock.acquire().await.expect("the lock"));
        if let Some(lease) = at_once(lock) {
            return lease.fencing_token();
        }
        tokio::task::yield_now().await;
    }
}

fn requests(client: &Client) -> u64 {
    client.stats().requests.values().sum()
}

fn creates(client: &Client) -> u64 {
    client.stats().requests[&RequestKind::Create]
}

#[test]
fn others_see_that_a_node_may_be_kept_and_find_the_lock_taken() {
    run(async {
        let server = server().await;
        let (ours, theirs) = (client(&server.hosts()).await, client(&server.hosts()).await);
        let (lock, other) = (keeps(&ours, "/l", LONG), mutex(&theirs, "/l"));
        kept(&lock).await;
        assert!(ours.health().holds.is_empty());
        let [contender] = &other.contenders().await.expect("a list")[..] else { panic!("one contender") };
        let about = contender.about.as_ref().expect("one of zklock's");
        assert_eq!((about.linger, about.cohort, about.owner.as_ref()), (Some(LONG), None, None));
        assert!(other.try_acquire().await.expect("an answer").is_none());
        drop(other.acquire().await.expect("the lock"));
        // A lock without the option does not report it.
        let plain = mutex(&ours, "/plain");
        let _lease = plain.acquire().await.expect("the lock");
        let all = plain.contenders().await.expect("a list");
        let about = all[0].about.as_ref().expect("one of zklock's");
        assert_eq!((about.linger, about.cohort, about.owner.is_some()), (None, None, true));
    });
}

#[test]
fn a_lock_is_taken_again_without_a_request() {
    run(async {
        let server = server().await;
        let client = client(&server.hosts()).await;
        let lock = keeps(&client, "/l", LONG);
        let token = kept(&lock).await;
        let (sent, before) = (requests(&client), client.stats());
        let mut handoffs = Vec::new();
        for _ in 0..100 {
            let lease = at_once(&lock).expect("it is kept");
            assert_eq!((lease.fencing_token(), lease.state()), (token, LeaseState::Held));
            handoffs.push(lease.handoffs());
            lease.release().await.expect("held");
            assert_eq!(lease.state(), LeaseState::Released);
        }
        assert!(handoffs.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{handoffs:?}");
        let after = client.stats();
        let grown = (after.acquisitions - before.acquisitions, after.retakes - before.retakes);
        assert_eq!((grown, after.handoffs), ((100, 100), 0));
        assert_eq!(requests(&client), sent);
        assert_eq!(after.hold.count, after.acquisitions);
        // No owner holds the lock, and other clients see its node.
        assert_eq!((client.health().holds.len(), lock.contenders().await.expect("an answer").len()), (0, 1));
    });
}

#[test]
fn a_lock_that_is_requested_immediately_is_reused_before_the_watch_is_set() {
    run(async {
        let server = server().await;
        let client = client(&server.hosts()).await;
        drop(mutex(&client, "/l").acquire().await.expect("the lock"));
        let (lock, created) = (keeps(&client, "/l", LONG), creates(&client));
        let first = lock.acquire().await.expect("the lock");
        first.release().await.expect("held");
        let second = lock.acquire().await.expect("the lock");
        assert_eq!((second.fencing_token(), second.handoffs()), (first.fencing_token(), 1));
        assert_eq!((creates(&client) - created, client.stats().retakes), (1, 1));
    });
}

#[test]
fn a_contender_that_joins_gets_a_kept_lock_immediately() {
    run(async {
        let server = server().await;
        let (client, other) = (client(&server.hosts()).await, client(&server.hosts()).await);
        let lock = keeps(&client, "/l", LONG);
        let token = kept(&lock).await;
        assert!(mutex(&other, "/l").try_acquire().await.expect("an answer").is_none(), "it is taken");
        assert_eq!(kept(&lock).await, token, "a try leaves it");
        let theirs = mutex(&other, "/l").acquire().await.expect("the lock");
        assert!(theirs.fencing_token() > token);
        let waiting = lock.acquire_within(BRIEF).await.expect_err("it is held");
        assert_eq!(waiting.kind(), ErrorKind::LockTimeout);
        theirs.release().await.expect("held");
        assert!(kept(&lock).await > token);
    });
}

#[test]
fn a_holder_that_reuses_a_node_gives_it_up_at_the_release() {
    run(async {
        let server = server().await;
        let (client, other) = (client(&server.hosts()).await, client(&server.hosts()).await);
        let lock = keeps(&client, "/l", LONG);
        kept(&lock).await;
        let lease = at_once(&lock).expect("it is kept");
        let theirs = mutex(&other, "/l");
        let waiting = {
            let lock = theirs.clone();
            tokio::spawn(async move { lock.acquire().await })
        };
        until_contenders(&theirs, 2).await;
        // The earlier watch request is answered before this listing.
        drop(lock.contenders().await.expect("an answer"));
        lease.release().await.expect("held");
        let theirs = waiting.await.expect("no panic").expect("the lock");
        assert_eq!(theirs.state(), LeaseState::Held);
    });
}

#[test]
fn readers_keep_their_nodes_beside_readers_and_give_them_up_for_a_writer() {
    run(async {
        let server = server().await;
        let (client, other) = (client(&server.hosts()).await, client(&server.hosts()).await);
        let (read, _) = halves(&client, "/l");
        let (their_read, their_write) = halves(&other, "/l");
        let token = kept(&read).await;
        let reader = their_read.acquire().await.expect("the lock");
        assert_eq!(kept(&read).await, token);
        drop(reader);
        let writer = their_write.acquire().await.expect("the lock");
        assert!(writer.fencing_token() > token);
        let read = read.acquire_within(BRIEF).await.expect_err("there is a writer");
        assert_eq!(read.kind(), ErrorKind::LockTimeout);
    });
}

#[test]
fn a_writer_that_keeps_its_node_gives_it_up_for_a_reader() {
    run(async {
        let server = server().await;
        let (client, other) = (client(&server.hosts()).await, client(&server.hosts()).await);
        let ((_, writes), (reads, _)) = (halves(&client, "/l"), halves(&other, "/l"));
        let token = kept(&writes).await;
        let theirs = reads.acquire().await.expect("the lock");
        assert!(theirs.fencing_token() > token);
        assert!(at_once(&writes).is_none(), "a reader holds it");
    });
}

#[test]
fn many_readers_of_a_client_keep_a_node_each() {
    run(async {
        let server = server().await;
        let client = client(&server.hosts()).await;
        let (read, _) = halves(&client, "/l");
        let three = async || {
            let mut leases = Vec::new();
            for _ in 0..3 {
                leases.push(read.acquire().await.expect("the lock"));
            }
            leases
        };
        drop(three().await);
        while client.health().holds.len() + read.contenders().await.expect("an answer").len() != 3 {
            tokio::task::yield_now().await;
        }
        let created = creates(&client);
        for _ in 0..10 {
            drop(three().await);
        }
        assert_eq!(creates(&client), created);
    });
}

#[test]
fn an_owner_writes_after_it_has_read_and_reads_after_it_has_written() {
    run(async {
        let server = server().await;
        let client = client(&server.hosts()).await;
        let (read, write) = halves(&client, "/l");
        let owner = Owner::new();
        for _ in 0..3 {
            drop(read.acquire_as(&owner, Timeout::Forever).await.expect("the lock"));
            kept(&read).await;
            drop(write.acquire_as(&owner, Timeout::Forever).await.expect("no owner reads"));
            kept(&write).await;
        }
        let writing = write.acquire_as(&owner, Timeout::Try).await.expect("it is kept");
        let reading = read.acquire_as(&owner, Timeout::Forever).await.expect("a downgrade");
        drop(writing);
        assert_eq!(reading.state(), LeaseState::Held);
        drop(reading);
        // A try of the write lock finds the lock free.
        assert!(write.try_acquire().await.expect("an answer").is_some());
    });
}

#[test]
fn the_time_counts_from_the_first_release() {
    run(async {
        let server = server().await;
        let client = client(&server.hosts()).await;
        let time = Duration::from_millis(300);
        let lock = keeps(&client, "/l", time);
        let first = lock.acquire().await.expect("the lock");
        let token = first.fencing_token();
        let began = Instant::now();
        drop(first);
        // The time for which the node is kept is not extended, however often the lock is acquired
        // again.
        while lock.acquire().await.expect("the lock").fencing_token() == token {
            assert!(began.elapsed() < 100 * time);
            tokio::task::yield_now().await;
        }
        assert!(began.elapsed() >= time);
        // Without an acquire, the node is deleted after the time.
        until_contenders(&lock, 0).await;
    });
}

#[test]
fn a_hold_that_is_longer_than_the_time_ends_with_its_node() {
    run(async {
        let server = server().await;
        let client = client(&server.hosts()).await;
        let lock = keeps(&client, "/l", BRIEF);
        let first = lock.acquire().await.expect("the lock");
        drop(first);
        let second = lock.acquire().await.expect("the lock");
        tokio::time::sleep(2 * BRIEF).await;
        assert_eq!(second.state(), LeaseState::Held);
        second.release().await.expect("held");
        until_contenders(&lock, 0).await;
    });
}

#[test]
fn a_kept_node_is_given_up_when_it_is_broken_or_revoked() {
    run(async {
        let server = server().await;
        let (client, operator) = (client(&server.hosts()).await, client(&server.hosts()).await);
        for revokes in [false, true] {
            let lock = keeps(&client, "/l", LONG);
            let token = kept(&lock).await;
            let node = lock.contenders().await.expect("an answer").remove(0).node;
            if revokes {
                // After the node has existed for a while, the client watches it.
                tokio::time::sleep(Duration::from_millis(400)).await;
                operator.revoke(&node).await.expect("a node");
            } else {
                operator.break_lock(&node).await.expect("a node");
            }
            until_contenders(&mutex(&operator, "/l"), 0).await;
            // The client might not have received the deletion yet.
            while kept(&lock).await == token {
                tokio::task::yield_now().await;
            }
        }
        assert_eq!(client.stats().losses, 0);
    });
}

/// The client must not keep the reader's node while the writer holds the lock. Otherwise, another
/// reader of the process could acquire the read lock.
#[test]
fn a_reader_in_the_place_of_a_writer_that_still_writes_is_not_kept() {
    run(async {
        let server = server().await;
        let client = client(&server.hosts()).await;
        let (read, write) = halves(&client, "/l");
        let owner = Owner::new();
        let writing = write.acquire_as(&owner, Timeout::Forever).await.expect("the lock");
        let reading = read.acquire_as(&owner, Timeout::Forever).await.expect("a downgrade");
        reading.release().await.expect("held");
        let brief = read.acquire_within(BRIEF).await.expect_err("another owner writes");
        assert_eq!(brief.kind(), ErrorKind::LockTimeout);
        writing.release().await.expect("held");
        drop(read.acquire().await.expect("no owner writes"));
    });
}

/// An operator deletes a node that the client keeps. The client must then remove its watch on the
/// children, even if nothing else happens in the directory.
#[test]
fn a_node_that_is_broken_while_it_is_kept_leaves_no_watch() {
    run(async {
        let server = server().await;
        let (client, operator) = (client(&server.hosts()).await, client(&server.hosts()).await);
        let lock = keeps(&client, "/l", LONG);
        kept(&lock).await;
        while watches(&server.hosts()).await == 0 {
            tokio::task::yield_now().await;
        }
        let node = lock.contenders().await.expect("an answer").remove(0).node;
        operator.break_lock(&node).await.expect("a node");
        // The server answers these listings after all earlier requests and events, including any
        // listing that sets the watch again.
        for _ in 0..8 {
            lock.contenders().await.expect("an answer");
        }
        let began = Instant::now();
        while watches(&server.hosts()).await > 0 {
            assert!(began.elapsed() < Duration::from_secs(10), "a watch is left");
            tokio::task::yield_now().await;
        }
    });
}

/// Returns the number of watches on a server.
async fn watches(hosts: &str) -> u32 {
    let mut server = TcpStream::connect(hosts).await.expect("a server");
    server.write_all(b"wchs").await.expect("a question");
    let mut answer = String::new();
    server.read_to_string(&mut answer).await.expect("an answer");
    let count = answer.rsplit_once("Total watches:").expect("a count").1;
    count.trim().parse().expect("a number")
}

#[test]
fn nothing_is_kept_over_a_lost_connection_or_a_lost_session() {
    run(async {
        let server = server().await;
        for expires in [false, true] {
            let client = brief_client(&server.hosts(), Duration::from_secs(20)).await;
            let lock = keeps(&client, "/l", LONG);
            let token = kept(&lock).await;
            let session = client.session_id();
            let connected = |client: &Client| (client.stats().sessions, client.stats().reconnections);
            let before = connected(&client);
            if expires {
                server.expire(session).await;
            } else {
                server.disconnect(session).await;
            }
            while connected(&client) == before {
                tokio::task::yield_now().await;
            }
            assert!(at_once(&lock).is_none(), "others may have come meanwhile");
            assert!(kept(&lock).await > token);
            assert_eq!(client.stats().losses, 0);
            client.close().await.expect("closed");
        }
    });
}

/// In each of ten rounds, acquires the lock `acquires` times, and then lets another client acquire
/// it. Returns how many of the next five acquires create a node.
async fn acquires_after_give_ups(client: &Client, other: &Client, acquires: usize) -> u64 {
    let (lock, wanted) = (keeps(client, "/l", LONG), mutex(other, "/l"));
    for _ in 0..10 {
        for _ in 0..acquires {
            drop(lock.acquire().await.expect("the lock"));
        }
        drop(wanted.acquire().await.expect("the lock"));
    }
    let before = creates(client);
    for _ in 0..5 {
        drop(lock.acquire().await.expect("the lock"));
    }
    creates(client) - before
}

#[test]
fn a_lock_that_is_given_up_too_often_is_not_kept_for_a_while() {
    run(async {
        let server = server().await;
        let (client, other) = (client(&server.hosts()).await, client(&server.hosts()).await);
        assert_eq!(acquires_after_give_ups(&client, &other, 3).await, 5);
    });
}

#[test]
fn a_lock_that_is_taken_again_often_enough_is_kept_however_often_it_is_given_up() {
    run(async {
        let server = server().await;
        let (client, other) = (client(&server.hosts()).await, client(&server.hosts()).await);
        assert_eq!(acquires_after_give_ups(&client, &other, 20).await, 1);
    });
}

#[test]
fn the_end_of_a_client_gives_up_all_nodes() {
    run(async {
        let server = server().await;
        let observer = client(&server.hosts()).await;
        for way in ["close", "drain", "drop"] {
            let client = client(&server.hosts()).await;
            let lock = keeps(&client, "/l", LONG);
            kept(&lock).await;
            match way {
                "close" => client.close().await.expect("closed"),
                "drain" => client.drain(LONG).await.expect("closed"),
                _ => drop((client, lock)),
            }
            until_contenders(&mutex(&observer, "/l"), 0).await;
        }
    });
}

#[test]
fn another_object_of_the_lock_takes_the_node_again() {
    run(async {
        let server = server().await;
        let client = client(&server.hosts()).await;
        let token = kept(&keeps(&client, "/l", LONG)).await;
        assert_eq!(at_once(&keeps(&client, "/l", LONG)).map(|lease| lease.fencing_token()), Some(token));
        // A lock without the option gets its own node and token.
        let plain = mutex(&client, "/l").acquire().await.expect("the lock");
        assert!(plain.fencing_token() > token);
        assert_eq!(plain.handoffs(), 0);
    });
}

#[test]
fn each_hold_has_its_own_limit_and_an_old_node_is_not_taken_again() {
    run(async {
        let server = server().await;
        let client = client(&server.hosts()).await;
        let limit = Duration::from_millis(400);
        let options = options(LONG).max_hold(limit);
        let lock = Mutex::with_options(&client, "/l", options).expect("a path");
        let first = lock.acquire().await.expect("the lock");
        let token = first.fencing_token();
        tokio::time::sleep(limit / 2).await;
        drop(first);
        let begins = Instant::now();
        let second = lock.acquire().await.expect("the lock");
        assert_eq!(second.fencing_token(), token);
        // The second hold has its own limit, and continues after the limit of the first hold.
        let remaining = second.remaining();
        assert!(remaining <= limit && remaining + begins.elapsed() >= limit, "{remaining:?}");
        assert_eq!(second.lost().await, LossReason::HeldTooLong);
        let third = lock.acquire().await.expect("the lock");
        assert!(third.fencing_token() > token);
        tokio::time::sleep(Duration::from_millis(200)).await;
        drop(third);
        tokio::time::sleep(Duration::from_millis(250)).await;
        assert_eq!(lock.acquire().await.expect("the lock").handoffs(), 0);
    });
}

#[test]
fn a_node_is_not_kept_while_a_transaction_may_be_under_way_or_by_a_downgraded_writer() {
    run(async {
        let server = server().await;
        let client = client(&server.hosts()).await;
        let lock = keeps(&client, "/l", LONG);
        let lease = lock.acquire().await.expect("the lock");
        lease.transaction().create("/data", b"y").commit().await.expect("written");
        server.pause().await;
        let sent = tokio::spawn(lease.transaction().set_data("/data", b"z", None).commit());
        tokio::time::sleep(BRIEF).await;
        sent.abort();
        assert!(sent.await.is_err(), "its outcome is not known");
        let released = lease.release();
        server.resume().await;
        released.await.expect("held");
        assert!(lock.acquire().await.expect("the lock").fencing_token() > lease.fencing_token());
        // A reader of a lock with `linger` takes over its writer's position.
        let (owner, (reads, writes)) = (Owner::new(), halves(&client, "/rw"));
        let writing = writes.acquire_as(&owner, Timeout::Forever).await.expect("the lock");
        let reading = reads.acquire_as(&owner, Timeout::Forever).await.expect("the lock");
        writing.release().await.expect("held");
        assert_eq!(reads.contenders().await.expect("an answer").len(), 1, "the reader alone");
        assert_eq!(reading.state(), LeaseState::Held);
    });
}

#[test]
fn keeping_pauses_when_it_costs_more_listings_than_it_saves_acquires() {
    run(async {
        let server = server().await;
        let (client, other) = (client(&server.hosts()).await, client(&server.hosts()).await);
        let (reads, _) = halves(&client, "/l");
        let theirs = ReadWriteLock::new(&other, "/l").expect("a path").read_lock;
        let token = kept(&reads).await;
        let listed = |client: &Client| client.stats().requests[&RequestKind::List];
        let before = listed(&client);
        let is_there = |all: Vec<Contender>| all.iter().any(|contender| contender.fencing_token == token);
        while is_there(theirs.contenders().await.expect("an answer")) {
            drop(theirs.acquire().await.expect("the lock"));
        }
        assert!(listed(&client) - before <= client.stats().retakes.max(8) + 2);
        // Keeping has paused, so the client deletes the node at the release.
        drop(reads.acquire().await.expect("the lock"));
        until_contenders(&theirs, 0).await;
    });
}

#[test]
fn a_lock_with_another_grace_takes_the_node_if_the_session_can_bear_it() {
    run(async {
        let server = server().await;
        let client = brief_client(&server.hosts(), Duration::from_secs(20)).await;
        let lock = keeps(&client, "/l", LONG);
        let token = kept(&lock).await;
        let with = |grace| Mutex::with_options(&client, "/l", options(LONG).grace(grace)).expect("a path");
        let lease = with(Duration::from_millis(100)).acquire().await.expect("the lock");
        assert_eq!(lease.fencing_token(), token);
        assert!(lease.handoffs() > 0);
        drop(lease);
        // This grace is more than a sixth of the session timeout, so the driver refuses it.
        let refused = with(Duration::from_secs(4)).acquire().await.expect_err("it is too long");
        assert_eq!((refused.kind(), refused.argument()), (ErrorKind::BadArgument, Some("grace")));
    });
}

#[test]
fn hand_offs_and_retakes_go_together() {
    run(async {
        let server = server().await;
        let client = client(&server.hosts()).await;
        let lock = Mutex::with_options(&client, "/l", options(LONG).cohort(3)).expect("a path");
        let token = kept(&lock).await;
        let lease = at_once(&lock).expect("it is kept");
        let tasks: Vec<_> = (0..4)
            .map(|_| {
                let lock = lock.clone();
                tokio::spawn(async move { lock.acquire().await.expect("the lock").fencing_token() })
            })
            .collect();
        while client.health().waits.len() != 4 {
            tokio::task::yield_now().await;
        }
        drop(lease);
        let mut tokens = Vec::new();
        for task in tasks {
            tokens.push(task.await.expect("no panic"));
        }
        // After three consecutive holds, the lock goes to the next contender in the ensemble's
        // queue.
        assert_eq!(&tokens[..2], &[token, token]);
        assert!(tokens[2] > token && tokens[3] == tokens[2], "{tokens:?}");
        assert_eq!(client.stats().handoffs, 3);
    });
}

#[test]
fn a_watch_that_is_not_answered_leaves_the_node_to_the_driver() {
    run(async {
        let (server, proxy) = behind_proxy().await;
        let (one, other) = (client(&proxy.hosts).await, client(&server.hosts()).await);
        drop(mutex(&one, "/l").acquire().await.expect("the lock"));
        let (lock, created) = (keeps(&one, "/l", LONG), creates(&one));
        // The first listing belongs to the acquire, and the second one sets the watch.
        let mut lists = 0;
        proxy.rule(move |request| {
            lists += u32::from(request.op == op::LIST);
            if lists < 2 { RequestEffect::Pass } else { RequestEffect::Wait }
        });
        drop(lock.acquire().await.expect("the lock"));
        assert!(at_once(&lock).is_none());
        let lease = lock.acquire().await.expect("the lock");
        assert!(lease.handoffs() > 0);
        assert_eq!(creates(&one) - created, 1);
        drop(lease);
        proxy.rule(|_| RequestEffect::Pass);
        proxy.open();
        kept(&lock).await;
        drop(mutex(&other, "/l").acquire().await.expect("the lock"));
    });
}

#[test]
fn permits_and_turns_are_not_kept() {
    run(async {
        let server = server().await;
        let client = client(&server.hosts()).await;
        let refused = Semaphore::with_options(&client, "/s", 2, options(LONG)).expect_err("permits");
        assert_eq!(refused.argument(), Some("linger"));
        let lock = keeps(&client, "/l", LONG);
        let turn = lock.once("monday", async |_| Ok::<_, zklock::Error>(())).await.expect("a turn");
        assert!(turn.is_some());
        until_contenders(&lock, 0).await;
        assert_eq!(client.stats().retakes, 0);
    });
}
