//! Tests of several locks that are acquired as one.

use std::pin::pin;
use std::time::{Duration, Instant};

use tokio::time::timeout;
use zklock::{
    AnyLock, Client, ErrorKind, LeaseState, LockOptions, LossReason, MultiLock, Mutex, Owner, Semaphore,
    Timeout,
};

use super::{client, hold, mutex, options, run, server};

#[test]
fn a_member_that_is_lost_at_the_moment_of_the_last_grant_is_not_returned() {
    run(async {
        let server = server().await;
        let (one, other) = (client(&server.hosts()).await, client(&server.hosts()).await);
        let (gate, blocker) = (hold(&other, "/gate").await, hold(&other, "/b").await);
        let (first, second) = (mutex(&one, "/a"), mutex(&one, "/b"));
        let members: [AnyLock; 2] = [(&first).into(), (&second).into()];
        let both = MultiLock::new(members).expect("two locks");
        let mut taking = pin!(both.acquire());
        while second.contenders().await.expect("an answer").len() < 2 {
            assert!(timeout(Duration::from_millis(10), taking.as_mut()).await.is_err());
        }
        // Wait until the client watches the node of the lock that it already holds.
        assert!(timeout(Duration::from_millis(300), taking.as_mut()).await.is_err());
        let member = first.contenders().await.expect("an answer").remove(0).node;
        // Delete both nodes in one transaction: the multi-lock loses one lock and is granted the
        // other at the same time.
        let broken = gate.transaction().delete(&member, None).delete(&blocker.node(), None).commit().await;
        broken.expect("both are gone");
        tokio::time::sleep(Duration::from_millis(100)).await;
        let leases = taking.await.expect("the locks");
        let states: Vec<_> = leases.iter().map(|lease| (lease.node(), lease.state())).collect();
        assert!(
            states.iter().all(|(node, state)| *state == LeaseState::Held && *node != member),
            "{states:?}"
        );
        assert_eq!(blocker.lost().await, LossReason::NodeDeleted);
    });
}

#[test]
fn a_try_of_locks_that_cannot_be_held_together_ends() {
    run(async {
        let server = server().await;
        let client = client(&server.hosts()).await;
        let briefly = LockOptions::default().max_hold(Duration::from_millis(20));
        let first = Mutex::with_options(&client, "/a", briefly).expect("a lock");
        let second = mutex(&client, "/b");
        let both = MultiLock::new([(&first).into(), (&second).into()]).expect("two locks");
        // The first hold ends before the second can begin.
        server.latency(Duration::from_millis(50)).await;
        let tried = timeout(Duration::from_secs(20), both.try_acquire()).await.expect("an end");
        assert!(tried.expect("an answer").is_none());
    });
}

#[test]
fn members_with_a_limit_shorter_than_the_wait_are_asked_for_less_and_less_often() {
    run(async {
        let server = server().await;
        let (one, other) = (client(&server.hosts()).await, client(&server.hosts()).await);
        let blocker = hold(&other, "/b").await;
        let briefly = LockOptions::default().max_hold(Duration::from_millis(20));
        let first = Mutex::with_options(&one, "/a", briefly).expect("a lock");
        let second = mutex(&one, "/b");
        let both = MultiLock::new([(&first).into(), (&second).into()]).expect("two locks");
        let began = Instant::now();
        let mut taking = pin!(both.acquire());
        // Eight losses: the first attempt, the second attempt immediately after it, and six more
        // attempts with a pause before each.
        while one.stats().losses < 8 {
            assert!(timeout(Duration::from_millis(5), taking.as_mut()).await.is_err());
        }
        // The minimum is half of the total of 50, 100, 200, 400, 800 and 1000 ms, because jitter
        // shortens a pause by at most half.
        assert!(began.elapsed() >= Duration::from_millis(1275), "{:?}", began.elapsed());
        let reasons = one.stats().losses_by_reason;
        assert_eq!(reasons.get(&LossReason::HeldTooLong), Some(&8), "{reasons:?}");
        blocker.release().await.expect("the end of the hold");
        let leases = taking.await.expect("both, once the second is free");
        assert_eq!(leases.len(), 2);
    });
}

#[test]
fn a_pause_between_two_attempts_ends_with_the_time_of_the_caller() {
    run(async {
        let server = server().await;
        let (one, other) = (client(&server.hosts()).await, client(&server.hosts()).await);
        let _blocker = hold(&other, "/b").await;
        let briefly = LockOptions::default().max_hold(Duration::from_millis(20));
        let first = Mutex::with_options(&one, "/a", briefly).expect("a lock");
        let second = mutex(&one, "/b");
        let both = MultiLock::new([(&first).into(), (&second).into()]).expect("two locks");
        let refused = both.acquire_within(Duration::from_millis(300)).await.expect_err("the second is taken");
        assert_eq!(refused.kind(), ErrorKind::LockTimeout, "{refused}");
        // The nodes of the last attempt are deleted.
        while !first.contenders().await.expect("an answer").is_empty() {
            tokio::task::yield_now().await;
        }
    });
}

#[test]
fn a_try_of_several_locks_ends_within_one_connect_timeout() {
    run(async {
        let server = server().await;
        let limit = Duration::from_secs(1);
        let options = options(&server.hosts()).connect_timeout(limit).expect("a time-out");
        let client = Client::connect_with(options).await.expect("a session");
        let locks = ["/a", "/b", "/c"].map(|path| mutex(&client, path));
        for lock in &locks {
            lock.acquire().await.expect("the lock").release().await.expect("the end of the hold");
        }
        // Acquiring one lock takes two round trips, which is within the time limit. Acquiring all
        // of them takes longer than the limit.
        server.latency(Duration::from_millis(400)).await;
        let all = MultiLock::new(locks.iter().map(AnyLock::from)).expect("three locks");
        let tried = all.try_acquire().await.expect_err("there is no time for all");
        assert_eq!(tried.kind(), ErrorKind::ConnectionFailed, "{tried}");
        server.latency(Duration::ZERO).await;
        let leases = all.acquire().await.expect("what the try had taken is free again");
        leases.release().await.expect("the end of the holds");
    });
}

#[test]
fn a_try_for_a_permit_ends_within_one_connect_timeout() {
    run(async {
        let server = server().await;
        let limit = Duration::from_secs(1);
        let options = options(&server.hosts()).connect_timeout(limit).expect("a time-out");
        let client = Client::connect_with(options).await.expect("a session");
        let semaphore = Semaphore::new(&client, "/s", 1).expect("a path");
        semaphore.acquire().await.expect("a permit").release().await.expect("the end of the hold");
        // A try takes four round trips: a listing, a lock of the semaphore's mutex, another
        // listing, and the permit.
        server.latency(Duration::from_millis(300)).await;
        let tried = semaphore.try_acquire().await.expect_err("there is no time for all");
        assert_eq!(tried.kind(), ErrorKind::ConnectionFailed, "{tried}");
        server.latency(Duration::ZERO).await;
        drop(semaphore.acquire().await.expect("what the try had taken is free again"));
    });
}

#[test]
fn a_multi_lock_refuses_an_owner_that_holds_a_later_member() {
    run(async {
        let server = server().await;
        let client = client(&server.hosts()).await;
        let (first, second) = (mutex(&client, "/a"), mutex(&client, "/b"));
        let members: [AnyLock; 2] = [(&first).into(), (&second).into()];
        let (both, owner) = (MultiLock::new(members).expect("two locks"), Owner::new());
        let held = second.acquire_as(&owner, Timeout::Try).await.expect("the lock");
        let refused = both.acquire_as(&owner, Timeout::Try).await.expect_err("the order is wrong");
        assert_eq!(
            (refused.kind(), refused.argument()),
            (ErrorKind::BadArgument, Some("locks")),
            "{refused}"
        );
        held.release().await.expect("the end of the hold");
        let earlier = first.acquire_as(&owner, Timeout::Try).await.expect("the lock");
        assert_eq!(both.acquire_as(&owner, Timeout::Try).await.expect("both").len(), 2);
        drop(earlier);
    });
}
