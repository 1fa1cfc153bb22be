//! Tests of clients that close after their last hold.

use std::time::Duration;

use tokio::task::yield_now;
use zklock::{
    Client, ClientState, Election, ErrorKind, LeaseState, LossReason, Owner, ReadWriteLock, Semaphore,
    Timeout,
};

use super::{client, hold, mutex, options, run, server, until_contenders};

const LONG: Duration = Duration::from_secs(600);
const SHORT: Duration = Duration::from_millis(50);

/// Waits until new acquires are refused.
async fn until_draining(client: &Client) {
    while mutex(client, "/probe").try_acquire().await.is_ok() {
        yield_now().await;
    }
}

#[test]
fn a_drain_waits_for_holds_and_refuses_new_acquires() {
    run(async {
        let server = server().await;
        let (operator, client) = (client(&server.hosts()).await, client(&server.hosts()).await);
        let owner = Owner::new();
        let lock = mutex(&client, "/l");
        let lease = lock.acquire_as(&owner, Timeout::Forever).await.expect("the lock");
        let waiting = mutex(&client, "/l");
        let waiting = tokio::spawn(async move { waiting.acquire().await });
        until_contenders(&lock, 2).await;
        let mut draining = tokio::spawn(client.drain(LONG));
        let refused = waiting.await.expect("no panic").expect_err("it waited");
        assert_eq!(refused.kind(), ErrorKind::ClientClosed, "{refused}");
        assert!(refused.to_string().contains("is draining: it acquires no new locks"), "{refused}");
        // Its node is deleted, although the client stays open.
        until_contenders(&mutex(&operator, "/l"), 1).await;
        let permit = Semaphore::new(&client, "/s", 2).expect("a path").try_acquire().await;
        let new = [mutex(&client, "/m").acquire().await.err(), permit.err()];
        assert!(new.iter().flatten().all(|error| error.kind() == ErrorKind::ClientClosed), "{new:?}");
        assert_eq!(new.iter().flatten().count(), 2);
        // The owner that already holds the lock can acquire it again.
        drop(lock.acquire_as(&owner, Timeout::Forever).await.expect("it is the owner's"));
        assert_eq!((lease.state(), client.state()), (LeaseState::Held, ClientState::Connected));
        assert!(tokio::time::timeout(Duration::from_millis(50), &mut draining).await.is_err());
        lease.release().await.expect("the end of the hold");
        draining.await.expect("no panic").expect("the end");
        assert_eq!(client.state(), ClientState::Closed);
        assert_eq!(lease.state(), LeaseState::Released);
        assert_eq!(client.stats().losses, 0);
    });
}

#[test]
fn a_writer_that_drains_may_still_downgrade() {
    run(async {
        let server = server().await;
        let client = client(&server.hosts()).await;
        let lock = ReadWriteLock::new(&client, "/l").expect("a path");
        let owner = Owner::new();
        let writer = lock.write_lock.acquire_as(&owner, Timeout::Forever).await.expect("the lock");
        let draining = tokio::spawn(client.drain(LONG));
        until_draining(&client).await;
        let reader = lock.read_lock.acquire_as(&owner, Timeout::Forever).await.expect("a downgrade");
        writer.release().await.expect("the end of writing");
        assert_eq!((reader.state(), client.state()), (LeaseState::Held, ClientState::Connected));
        reader.release().await.expect("the end of reading");
        draining.await.expect("no panic").expect("the end");
    });
}

#[test]
fn a_drain_closes_the_client_at_the_earliest_timeout() {
    run(async {
        let server = server().await;
        for (first, second) in [(Duration::MAX, SHORT), (LONG, SHORT), (SHORT, LONG)] {
            let client = client(&server.hosts()).await;
            let lease = hold(&client, "/l").await;
            let draining = tokio::spawn(client.drain(first));
            until_draining(&client).await;
            client.drain(second).await.expect("the end");
            draining.await.expect("no panic").expect("the same end");
            assert_eq!(
                lease.state(),
                LeaseState::Lost(LossReason::ClientClosed),
                "{first:?}, then {second:?}"
            );
            // A second drain does nothing.
            client.drain(LONG).await.expect("the end");
        }
    });
}

#[test]
fn a_close_does_not_wait_for_the_drain() {
    run(async {
        let server = server().await;
        let client = client(&server.hosts()).await;
        let lease = hold(&client, "/l").await;
        let draining = tokio::spawn(client.drain(LONG));
        until_draining(&client).await;
        client.close().await.expect("the end");
        draining.await.expect("no panic").expect("the same end");
        assert_eq!(lease.state(), LeaseState::Lost(LossReason::ClientClosed));
    });
}

#[test]
fn the_drain_goes_on_without_its_future() {
    run(async {
        let server = server().await;
        let client = client(&server.hosts()).await;
        let lease = hold(&client, "/l").await;
        drop(client.drain(LONG));
        until_draining(&client).await;
        lease.release().await.expect("the end of the hold");
        let mut states = client.states();
        while client.state() != ClientState::Closed {
            states.next().await;
        }
    });
}

#[test]
fn a_drain_without_holds_closes_immediately() {
    run(async {
        let server = server().await;
        let (connected, idle) = (client(&server.hosts()).await, Client::new(options(&server.hosts())));
        for client in [connected, idle] {
            client.drain(LONG).await.expect("the end");
            assert_eq!(client.state(), ClientState::Closed);
        }
    });
}

#[test]
fn a_thousand_waiters_of_one_owner_are_turned_away() {
    run(async {
        let server = server().await;
        let (operator, client) = (client(&server.hosts()).await, client(&server.hosts()).await);
        let theirs = hold(&operator, "/l").await;
        let (lock, owner) = (mutex(&client, "/l"), Owner::new());
        let wait =
            |lock: zklock::Mutex, owner| async move { lock.acquire_as(&owner, Timeout::Forever).await };
        let waiting: Vec<_> = (0..1000).map(|_| tokio::spawn(wait(lock.clone(), owner.clone()))).collect();
        until_contenders(&lock, 2).await;
        client.drain(LONG).await.expect("the end");
        for waiting in waiting {
            let refused = waiting.await.expect("no panic").expect_err("it waited");
            assert_eq!(refused.kind(), ErrorKind::ClientClosed);
        }
        theirs.check().expect("it is held");
    });
}

#[test]
fn a_candidate_leads_again_and_again_until_its_client_is_drained() {
    run(async {
        let server = server().await;
        let client = client(&server.hosts()).await;
        let election = Election::new(&client, "/e").expect("a path");
        let (mut tokens, lost_in) = (Vec::new(), 2);
        let running = election.run(|lease| {
            tokens.push(lease.fencing_token());
            let (round, client, server) = (tokens.len(), client.clone(), &server);
            async move {
                if round == lost_in {
                    assert!(server.expire(lease.session_id()).await);
                    std::future::pending::<()>().await;
                }
                if round == 4 {
                    drop(client.drain(LONG));
                }
                Ok::<_, zklock::Error>(())
            }
        });
        running.await.expect("the end of the client");
        assert_eq!(tokens.len(), 4);
        assert!(tokens.is_sorted_by(|one, next| one < next), "{tokens:?}");
        assert!(!election.is_leader());
    });
}

#[test]
fn a_body_that_fails_ends_the_run_and_resigns() {
    run(async {
        let server = server().await;
        let client = client(&server.hosts()).await;
        let election = Election::new(&client, "/e").expect("a path");
        let failure =
            election.run(|_| async { Err::<(), _>(Box::<dyn std::error::Error>::from("out of coffee")) });
        assert_eq!(failure.await.expect_err("a failure").to_string(), "out of coffee");
        assert!(!election.is_leader() && election.leader().await.expect("an answer").is_none());
    });
}
