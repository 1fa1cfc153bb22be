//! Tests of the values that locks and their leases report.

use std::time::Duration;

use zklock::{Client, ErrorKind, LeaseState, LockOptions, LossReason, Mutex, Owner, Timeout};
use zklock_embedded::Server;

use super::{client, hold, mutex, options, run, server, until_contenders};

#[test]
fn a_lease_reports_its_owner_and_tokens_grow_from_holder_to_holder() {
    run(async {
        let server = server().await;
        let (one, other) = (client(&server.hosts()).await, client(&server.hosts()).await);
        let (lock, theirs) = (mutex(&one, "/a/l"), mutex(&other, "/a/l"));
        assert!(!lock.locked().await.expect("an answer"));
        let first = lock.acquire().await.expect("the lock");
        assert_eq!(first.session_id(), one.session_id());
        assert_ne!(first.session_id(), other.session_id());
        assert_eq!(first.session_timeout(), one.session_timeout());
        let contender = theirs.contenders().await.expect("an answer").remove(0);
        assert_eq!((first.node(), first.fencing_token()), (contender.node, contender.fencing_token));
        assert_eq!(contender.session_id, first.session_id());
        assert!(first.remaining() > Duration::ZERO && first.remaining() <= first.session_timeout() / 2);
        assert!(theirs.locked().await.expect("an answer"));
        first.release().await.expect("the end of the hold");
        assert_eq!((first.state(), first.remaining()), (LeaseState::Released, Duration::ZERO));
        let second = theirs.acquire().await.expect("the lock");
        assert!(second.fencing_token() > first.fencing_token());
        second.release().await.expect("the end of the hold");
        assert!(!lock.locked().await.expect("an answer"));
    });
}

#[test]
fn an_owner_re_enters_unless_the_lock_does_without_re_entry() {
    run(async {
        let server = server().await;
        let client = client(&server.hosts()).await;
        let owner = Owner::new();
        let lock = mutex(&client, "/l");
        let first = lock.acquire_as(&owner, Timeout::Try).await.expect("the lock");
        let second = lock.acquire_as(&owner, Timeout::Try).await.expect("it is the owner's");
        assert_eq!((first.node(), second.owner()), (second.node(), owner.clone()));
        let other = lock.acquire_as(&Owner::new(), Timeout::Try).await.expect_err("another owner");
        assert_eq!(other.kind(), ErrorKind::LockTimeout);
        first.release().await.expect("the end of a level");
        second.check().expect("the hold goes on");
        let simple =
            Mutex::with_options(&client, "/m", LockOptions::default().reentrant(false)).expect("a path");
        let _lease = simple.acquire_as(&owner, Timeout::Try).await.expect("the lock");
        let refused = simple.acquire_as(&owner, Timeout::Try).await.expect_err("no re-entry");
        assert_eq!(refused.kind(), ErrorKind::LockTimeout);
    });
}

#[test]
fn a_timeout_error_names_the_label_of_the_blocker() {
    run(async {
        let server = server().await;
        let client = client(&server.hosts()).await;
        let labelled = |label: &str| {
            Mutex::with_options(&client, "/l", LockOptions::default().label(label)).expect("a label")
        };
        let lease = labelled("first").acquire().await.expect("the lock");
        let error =
            labelled("second").acquire_within(Duration::from_millis(200)).await.expect_err("it is taken");
        assert_eq!(error.kind(), ErrorKind::LockTimeout);
        assert!(error.to_string().contains("\"/l\" is taken: 1 still ahead in the queue"), "{error}");
        let blocker = error.blockers().first().expect("who is in the way");
        assert_eq!((blocker.node.as_str(), blocker.session_id), (lease.node().as_str(), client.session_id()));
        assert_eq!(blocker.about.as_ref().and_then(|about| about.label.as_deref()), Some("first"));
        // Now the waiter and the blocker belong to different clients. The error reports the data of
        // the blocker's node. The waiting client read this data when it set its watch.
        let theirs = super::client(&server.hosts()).await;
        let late = mutex(&theirs, "/l").acquire_within(Duration::from_millis(200)).await;
        assert_eq!(late.expect_err("it is taken").blockers(), error.blockers());
        let contender = mutex(&client, "/l").contenders().await.expect("an answer").remove(0);
        let about = contender.about.expect("its description");
        assert_eq!((about.label.as_deref(), about.pid), (Some("first"), std::process::id()));
        assert_eq!(contender.data_length, contender.data.len());
    });
}

#[test]
fn a_hold_ends_at_its_limit() {
    run(async {
        let server = server().await;
        let client = client(&server.hosts()).await;
        let limited = LockOptions::default().max_hold(Duration::from_millis(200));
        let lock = Mutex::with_options(&client, "/l", limited).expect("a limit");
        let lease = lock.acquire().await.expect("the lock");
        assert!(lease.remaining() <= Duration::from_millis(200));
        assert_eq!(lease.lost().await, LossReason::HeldTooLong);
        drop(hold(&client, "/l").await);
        // A limit longer than any clock can count means forever.
        let endless = LockOptions::default().max_hold(Duration::MAX);
        let lease =
            Mutex::with_options(&client, "/m", endless).expect("a limit").acquire().await.expect("the lock");
        lease.check().expect("it is held");
        lease.release().await.expect("the end of the hold");
    });
}

#[test]
fn a_waiter_that_leaves_the_line_unblocks_its_owners_next_attempt() {
    run(async {
        let server = server().await;
        let (holder, waiter) = (client(&server.hosts()).await, client(&server.hosts()).await);
        // Only the first acquire has a node in the queue. Cancel this acquire, or the second
        // acquire and then this one.
        for leaving in [&[0][..], &[1, 0]] {
            let lease = hold(&holder, "/l").await;
            let owner = Owner::new();
            let attempt = |_| {
                let (lock, owner) = (mutex(&waiter, "/l"), owner.clone());
                tokio::spawn(async move { lock.acquire_as(&owner, Timeout::Forever).await })
            };
            let mut attempts: Vec<_> = (0..=leaving.len()).map(attempt).collect();
            until_contenders(&mutex(&holder, "/l"), 2).await;
            for number in leaving {
                attempts[*number].abort();
                assert!((&mut attempts[*number]).await.is_err());
            }
            lease.release().await.expect("the end of the hold");
            let last = attempts.pop().expect("one that stays");
            last.await.expect("no panic").expect("the lock").release().await.expect("the end of the hold");
            until_contenders(&mutex(&holder, "/l"), 0).await;
        }
    });
}

#[test]
fn a_lock_that_was_broken_shortly_before_its_release_was_lost() {
    run(async {
        let server = server().await;
        let (holder, operator) = (client(&server.hosts()).await, client(&server.hosts()).await);
        // The client has no watch on the node yet, so it learns of the deletion only from the reply
        // to its own delete.
        let lease = hold(&holder, "/l").await;
        operator.break_lock(&lease.node()).await.expect("a node");
        lease.release().await.expect("the end of the hold");
        assert_eq!(lease.state(), LeaseState::Lost(LossReason::NodeDeleted));
    });
}

#[test]
fn a_caller_keeps_waiting_for_a_server_when_another_caller_gives_up() {
    run(async {
        let nobody = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let hosts = nobody.local_addr().expect("an address").to_string();
        drop(nobody);
        let client = Client::new(options(&hosts));
        let lock = mutex(&client, "/l");
        let waiting = tokio::spawn(async move { lock.acquire().await });
        let given_up = mutex(&client, "/m").acquire_within(Duration::from_millis(200)).await;
        assert_eq!(given_up.expect_err("nobody answers").kind(), ErrorKind::LockTimeout);
        let _server = Server::start(&hosts).await.expect("the port is free");
        drop(waiting.await.expect("no panic").expect("the lock"));
    });
}

#[test]
fn a_waiter_behind_many_of_its_own_client_counts_as_contended_without_a_listing() {
    run(async {
        let server = server().await;
        let client = client(&server.hosts()).await;
        let lock = mutex(&client, "/l");
        let first = hold(&client, "/l").await;
        let join = || {
            let lock = lock.clone();
            tokio::spawn(async move { lock.acquire_as(&Owner::new(), Timeout::Forever).await })
        };
        let others: Vec<_> = std::iter::repeat_with(join).take(20).collect();
        until_contenders(&lock, 21).await;
        let last = join();
        until_contenders(&lock, 22).await;
        // All waiters ahead leave at the same time. Only then is the last waiter near enough to
        // list the queue.
        others.iter().for_each(tokio::task::JoinHandle::abort);
        drop(first);
        let lease = last.await.expect("no panic").expect("the lock");
        assert_eq!(client.stats().contended, 1);
        drop(lease);
    });
}
