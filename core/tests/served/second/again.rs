//! Tests that repeat an operation. The first run must not change the result of the second.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::time::{sleep, timeout};
use zklock::{
    ClientState, Election, Error, ErrorKind, Lease, LeaseState, LockOptions, LossReason, Mutex, Owner,
    Permits, Semaphore, Timeout,
};

use super::{BRIEF, Closing, Connected, Cut, LONG, PATIENT, Silent, World, until};
use crate::{client, hold, mutex, run, server, until_contenders};

/// Time for which a closing client waits for its server.
const CLOSE_WAIT: Duration = Duration::from_secs(2);

fn kind<T>(result: Result<T, Error>) -> Result<(), ErrorKind> {
    result.map(drop).map_err(|error| error.kind())
}

#[test]
fn all_callers_of_close_wait_for_the_same_close() {
    run(async {
        let world = World::reach(Silent).await;
        let began = Instant::now();
        let first = tokio::spawn(world.client.close());
        until(|| world.client.state() == ClientState::Closed).await;
        // The first caller still waits for a reply.
        let ends = [
            tokio::spawn(world.client.close()),
            tokio::spawn(world.client.drain(Duration::ZERO)),
            tokio::spawn(world.client.drain(LONG)),
        ];
        sleep(BRIEF).await;
        // If the second caller returned early, it could exit the program before the session is
        // closed.
        assert!(
            first.is_finished() || !ends.iter().any(tokio::task::JoinHandle::is_finished),
            "they did not wait"
        );
        for end in ends {
            end.await.expect("no panic").expect("the same end");
        }
        first.await.expect("no panic").expect("an end");
        assert!(began.elapsed() < 2 * CLOSE_WAIT + PATIENT / 2, "{:?}", began.elapsed());
        world.client.close().await.expect("it is closed");
        world.client.drain(LONG).await.expect("it is closed");
    });
}

#[test]
fn the_earliest_of_several_drains_counts_in_any_order() {
    run(async {
        for times in [[LONG, BRIEF], [BRIEF, LONG], [Duration::MAX, Duration::ZERO], [BRIEF, BRIEF]] {
            let world = World::reach(Connected).await;
            let ends = times.map(|time| tokio::spawn(world.client.drain(time)));
            for end in ends {
                timeout(PATIENT, end)
                    .await
                    .expect("it waits for the later one")
                    .expect("no panic")
                    .expect("an end");
            }
            let lease = world.lease.expect("a lease");
            assert_eq!(lease.loss_reason(), Some(LossReason::ClientClosed), "{times:?}");
        }
    });
}

#[test]
fn a_drain_with_a_silent_server_ends_on_time() {
    run(async {
        let world = World::reach(Silent).await;
        timeout(BRIEF + CLOSE_WAIT + PATIENT, world.client.drain(BRIEF))
            .await
            .expect("it hangs")
            .expect("an end");
        assert_eq!(kind(world.client.ready().await), Err(ErrorKind::ClientClosed));
    });
}

#[test]
fn each_listener_receives_every_state_once() {
    run(async {
        let world = World::reach(Connected).await;
        let (mut one, gone, mut other) =
            (world.client.states(), world.client.states(), world.client.states());
        drop(gone);
        for _ in 0..3 {
            world.proxy.cut(false);
            for states in [&mut one, &mut other] {
                assert_eq!(states.next().await, Some(ClientState::Suspended));
            }
            world.proxy.come_back();
            for states in [&mut one, &mut other] {
                assert_eq!(states.next().await, Some(ClientState::Connected));
            }
        }
        let stats = world.client.stats();
        assert_eq!((stats.reconnections, stats.sessions, stats.losses), (3, 1, 0));
        world.client.close().await.expect("an end");
        for mut states in [one, other] {
            assert_eq!(states.next().await, Some(ClientState::Closed));
            assert_eq!((states.next().await, states.next().await), (None, None));
        }
        assert_eq!(world.client.states().next().await, None);
    });
}

/// Ends a hold of `/l` in one of the possible ways.
async fn end(how: &str, world: &World, lease: &Lease) {
    match how {
        "broken" => {
            world.operator().await.break_lock(&lease.node()).await.expect("a node");
            assert_eq!(lease.lost().await, LossReason::NodeDeleted);
        }
        "expired" => {
            assert!(world.server.expire(lease.session_id()).await);
            assert_eq!(lease.lost().await, LossReason::SessionExpired);
        }
        "held too long" => assert_eq!(lease.lost().await, LossReason::HeldTooLong),
        "revoked" => {
            for _ in 0..2 {
                world.operator().await.revoke(&lease.node()).await.expect("a node");
                timeout(PATIENT, lease.revoked()).await.expect("it is asked");
            }
            lease.release().await.expect("the end of the hold");
        }
        _ => lease.release().await.expect("the end of the hold"),
    }
}

#[test]
fn a_lock_is_acquired_again_and_the_earlier_lease_does_not_touch_the_later_one() {
    run(async {
        for how in ["released", "broken", "expired", "held too long", "revoked"] {
            let world = World::reach(Connected).await;
            let options = LockOptions::default();
            let limit = BRIEF * 2;
            let options = if how == "held too long" { options.max_hold(limit) } else { options };
            let lock = Mutex::with_options(&world.client, "/l", options).expect("a lock");
            let owner = Owner::new();
            let first = lock.acquire_as(&owner, Timeout::Forever).await.expect("the lock");
            end(how, &world, &first).await;
            let second = lock.acquire_as(&owner, PATIENT).await.expect("the lock");
            assert!(second.fencing_token() > first.fencing_token(), "{how}");
            assert_ne!(second.node(), first.node(), "{how}");
            let again = if how == "released" || how == "revoked" { Err(ErrorKind::NotHeld) } else { Ok(()) };
            assert_eq!(kind(first.release().await), again, "{how}");
            assert_eq!(kind(first.release().await), Err(ErrorKind::NotHeld), "{how}");
            assert!(first.check().is_err(), "{how}");
            if how == "held too long" {
                // The limit counts from the hold's own grant.
                assert!(second.remaining() > Duration::ZERO && second.remaining() <= limit);
                assert_eq!(second.lost().await, LossReason::HeldTooLong);
                continue;
            }
            until_contenders(&lock, 1).await;
            second.check().expect("it is held");
            assert_eq!(second.state(), LeaseState::Held, "{how}");
            second.release().await.expect("the end of the hold");
            until_contenders(&lock, 0).await;
        }
    });
}

#[test]
fn a_lock_can_be_acquired_after_unsuccessful_waits() {
    run(async {
        let server = server().await;
        let (one, other) = (client(&server.hosts()).await, client(&server.hosts()).await);
        let theirs = hold(&one, "/l").await;
        let lock = mutex(&other, "/l");
        let owner = Owner::new();
        for _ in 0..2 {
            assert_eq!(kind(lock.acquire_as(&owner, BRIEF / 4).await), Err(ErrorKind::LockTimeout));
            assert!(lock.try_acquire().await.expect("an answer").is_none());
            let waiting = lock.clone();
            let same = owner.clone();
            let waiting = tokio::spawn(async move { waiting.acquire_as(&same, Timeout::Forever).await });
            until_contenders(&lock, 2).await;
            waiting.abort();
            until_contenders(&lock, 1).await;
        }
        theirs.release().await.expect("the end of the hold");
        let lease = lock.acquire_as(&owner, PATIENT).await.expect("the lock");
        assert_eq!((other.stats().timeouts, other.stats().busy), (2, 2));
        lease.release().await.expect("the end of the hold");
    });
}

#[test]
fn only_one_of_two_concurrent_releases_ends_the_hold() {
    run(async {
        let server = server().await;
        let client = client(&server.hosts()).await;
        for _ in 0..20 {
            let lease = Arc::new(hold(&client, "/l").await);
            let releases = [lease.release(), lease.release(), lease.release()].map(tokio::spawn);
            let mut outcomes = Vec::new();
            for release in releases {
                outcomes.push(kind(release.await.expect("no panic")));
            }
            assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 1, "{outcomes:?}");
            assert!(
                outcomes.iter().all(|one| matches!(one, Ok(()) | Err(ErrorKind::NotHeld))),
                "{outcomes:?}"
            );
            until_contenders(&mutex(&client, "/l"), 0).await;
        }
    });
}

#[test]
fn a_lock_released_without_a_reply_is_free_after_reconnection() {
    run(async {
        let world = World::reach(Cut).await;
        let lease = world.lease.as_ref().expect("a lease");
        lease.release_in_background().expect("the end of the hold");
        assert_eq!(kind(lease.release_in_background()), Err(ErrorKind::NotHeld));
        assert_eq!(kind(lease.release().await), Err(ErrorKind::NotHeld));
        let theirs = mutex(&world.operator().await, "/held");
        assert_eq!(theirs.contenders().await.expect("an answer").len(), 1);
        world.proxy.come_back();
        until_contenders(&theirs, 0).await;
        // The lock object still works.
        let again = mutex(&world.client, "/held").acquire_within(PATIENT).await.expect("the lock");
        assert_eq!(again.session_id(), lease.session_id());
    });
}

#[test]
fn an_acquire_between_two_sessions_succeeds_in_the_next_session() {
    run(async {
        let world = World::reach(super::NoSession).await;
        let lost = world.lease.as_ref().expect("a lease");
        let lock = mutex(&world.client, "/held");
        let [waiting, other] = [(); 2].map(|()| {
            let lock = lock.clone();
            tokio::spawn(async move { lock.acquire().await })
        });
        // Another acquire gives up in the meantime. It must not create a node in the next session.
        other.abort();
        assert_eq!(kind(lock.acquire_within(BRIEF).await), Err(ErrorKind::LockTimeout));
        assert!(!waiting.is_finished());
        assert_eq!(world.client.state(), ClientState::Connecting);
        world.server.resume().await;
        world.server.latency(Duration::ZERO).await;
        let granted = waiting.await.expect("no panic").expect("the lock");
        assert_ne!(granted.session_id(), lost.session_id());
        assert_eq!(world.client.session_id(), granted.session_id());
        until_contenders(&lock, 1).await;
        assert_eq!(kind(lost.release().await), Ok(()));
        granted.check().expect("it is held");
    });
}

#[test]
fn two_outages_and_two_sessions_are_no_different_from_one() {
    run(async {
        let world = World::reach(Connected).await;
        let lease = world.lease.as_ref().expect("a lease");
        for _ in 0..2 {
            world.proxy.cut(false);
            until(|| lease.state() == LeaseState::Suspended).await;
            world.proxy.come_back();
            until(|| lease.state() == LeaseState::Held).await;
        }
        let mut sessions = vec![lease.session_id()];
        for _ in 0..2 {
            let lease = mutex(&world.client, "/l").acquire().await.expect("the lock");
            assert!(world.server.expire(lease.session_id()).await);
            assert_eq!(lease.lost().await, LossReason::SessionExpired);
            world.client.ready().await.expect("a session");
            let next = hold(&world.client, "/m").await;
            sessions.push(next.session_id());
        }
        sessions.dedup();
        assert_eq!(sessions.len(), 3);
        let stats = world.client.stats();
        assert_eq!((stats.sessions, stats.losses_by_reason[&LossReason::SessionExpired]), (3, 3));
    });
}

#[test]
fn a_number_of_permits_that_is_set_again_counts_each_time() {
    run(async {
        let server = server().await;
        let (writer, client) = (client(&server.hosts()).await, client(&server.hosts()).await);
        writer.set_shared_count("/n", 1).await.expect("a number");
        let permits = Permits::SharedCount("/n".to_owned());
        let semaphore =
            Semaphore::with_options(&client, "/s", permits, LockOptions::default()).expect("a path");
        let mut held = vec![semaphore.acquire().await.expect("a permit")];
        for number in 2..5 {
            let waiting = semaphore.clone();
            let waiting = tokio::spawn(async move { waiting.acquire().await });
            // Setting the same number again admits no waiter.
            for _ in 0..2 {
                writer.set_shared_count("/n", number - 1).await.expect("a number");
            }
            sleep(BRIEF / 4).await;
            assert!(!waiting.is_finished(), "{number}");
            for _ in 0..2 {
                writer.set_shared_count("/n", number).await.expect("a number");
            }
            let granted = timeout(PATIENT, waiting).await.expect("it was not notified");
            held.push(granted.expect("no panic").expect("a permit"));
        }
        // A shared count below the number of held permits revokes no permit and admits no waiter.
        for number in [1, 1, 2] {
            writer.set_shared_count("/n", number).await.expect("a number");
            assert!(semaphore.try_acquire().await.expect("an answer").is_none());
        }
        for lease in &held {
            lease.check().expect("it is held");
        }
        for lease in held {
            lease.release().await.expect("the end of the hold");
        }
        drop(semaphore.acquire_many(2, PATIENT).await.expect("both permits"));
    });
}

#[test]
fn a_transaction_that_failed_leaves_the_next_one_alone() {
    run(async {
        let world = World::reach(Connected).await;
        let lease = world.lease.as_ref().expect("a lease");
        for version in 0..2 {
            let writes = lease.transaction().create("/x", b"1").check("/none", 3);
            assert_eq!(kind(writes.commit().await), Err(ErrorKind::TransactionFailed));
            assert!(world.client.get("/x").await.expect("an answer").is_none());
            let path = format!("/x{version}");
            lease.transaction().create(&path, b"1").commit().await.expect("it is held");
            // The node exists by now, so its create fails.
            assert_eq!(
                kind(lease.transaction().create(&path, b"1").commit().await),
                Err(ErrorKind::TransactionFailed)
            );
            lease.transaction().set_data(&path, b"2", Some(0)).commit().await.expect("its first version");
            let stale = lease.transaction().set_data(&path, b"3", Some(0)).commit().await;
            assert_eq!(kind(stale), Err(ErrorKind::TransactionFailed));
            lease.check().expect("a transaction that fails is no loss");
        }
        lease.release().await.expect("the end of the hold");
        for _ in 0..2 {
            let late = lease.transaction().create("/y", b"").commit().await;
            assert_eq!(kind(late), Err(ErrorKind::NotHeld));
        }
    });
}

#[test]
fn a_leadership_is_won_shared_lost_and_won_again() {
    run(async {
        let world = World::reach(Connected).await;
        let election = Election::new(&world.client, "/e").expect("a path");
        let (first, shared) =
            (election.campaign().await.expect("the lead"), election.campaign().await.expect("it"));
        assert_eq!(first.fencing_token(), shared.fencing_token());
        first.resign().await.expect("the end of its share");
        assert_eq!(kind(first.resign().await), Err(ErrorKind::NotHeld));
        assert!(election.is_leader() && shared.check().is_ok());
        world.operator().await.break_lock(&shared.node()).await.expect("a node");
        assert_eq!(shared.lost().await, LossReason::NodeDeleted);
        assert!(!election.is_leader());
        let next = election.campaign_within(PATIENT).await.expect("the lead");
        assert!(next.fencing_token() > shared.fencing_token() && election.is_leader());
        // Resigning a lost leadership does not end the next one.
        assert_eq!(kind(shared.resign().await), Ok(()));
        assert_eq!(kind(shared.resign().await), Err(ErrorKind::NotHeld));
        assert!(election.is_leader() && next.check().is_ok());
        next.resign().await.expect("the end of the lead");
        assert!(!election.is_leader());
        assert!(election.candidates().await.expect("an answer").is_empty());
    });
}

#[test]
fn a_run_that_failed_is_begun_again() {
    run(async {
        let world = World::reach(Connected).await;
        let election = Election::new(&world.client, "/e").expect("a path");
        let rounds = AtomicUsize::new(0);
        for round in 1..4 {
            let failing = election.run(|lease| {
                rounds.fetch_add(1, Ordering::Relaxed);
                async move {
                    lease.check()?;
                    Err::<(), Box<dyn std::error::Error>>("out of coffee".into())
                }
            });
            assert_eq!(failing.await.expect_err("a failure").to_string(), "out of coffee");
            assert_eq!(rounds.load(Ordering::Relaxed), round);
            assert!(!election.is_leader());
            assert!(election.candidates().await.expect("an answer").is_empty());
        }
        world.client.close().await.expect("an end");
        for _ in 0..2 {
            let closed = election.run(async |_| Ok::<_, Error>(())).await;
            assert_eq!(kind(closed), Ok(()), "the end of the client is the end of a run");
        }
        assert_eq!(rounds.load(Ordering::Relaxed), 3);
    });
}

#[test]
fn a_scope_that_failed_is_entered_again_with_the_same_lock() {
    run(async {
        let world = World::reach(Connected).await;
        let lock = mutex(&world.client, "/l");
        let mut tokens = Vec::new();
        for lose in [false, true, false, true, false] {
            let (server, operator) = (&world.server, world.operator().await);
            let left = lock
                .hold(async |lease| {
                    tokens.push(lease.fencing_token());
                    if lose {
                        assert!(!server.expire(operator.session_id() + 1_000_000).await);
                        operator.break_lock(&lease.node()).await.expect("a node");
                        std::future::pending::<()>().await;
                    }
                })
                .await;
            assert_eq!(kind(left), if lose { Err(ErrorKind::LockLost) } else { Ok(()) });
            until_contenders(&lock, 0).await;
        }
        assert!(tokens.is_sorted_by(|one, next| one < next), "{tokens:?}");
        assert_eq!(world.client.stats().losses, 2);
    });
}

#[test]
fn a_contender_is_revoked_and_broken_again_and_again() {
    run(async {
        let world = World::reach(Connected).await;
        let lease = world.lease.as_ref().expect("a lease");
        let operator = world.operator().await;
        let node = lease.node();
        for _ in 0..3 {
            operator.revoke(&node).await.expect("a node");
        }
        for _ in 0..2 {
            timeout(PATIENT, lease.revoked()).await.expect("it was asked");
        }
        lease.check().expect("a request does not end the lease");
        operator.break_lock(&node).await.expect("a node");
        for _ in 0..2 {
            assert_eq!(kind(operator.break_lock(&node).await), Err(ErrorKind::NotHeld));
            assert_eq!(kind(operator.revoke(&node).await), Err(ErrorKind::NotHeld));
        }
        assert_eq!(lease.lost().await, LossReason::NodeDeleted);
        assert!(
            timeout(BRIEF, lease.revoked()).await.is_err(),
            "a lost lease receives no request to give up the lock"
        );
    });
}

#[test]
fn a_closing_client_immediately_refuses_operations() {
    run(async {
        let world = World::reach(Closing).await;
        // A closing client waits for its server, but no other call may wait for that.
        let asking = async {
            for _ in 0..2 {
                assert_eq!(kind(world.client.ready().await), Err(ErrorKind::ClientClosed));
                assert_eq!(kind(mutex(&world.client, "/l").acquire().await), Err(ErrorKind::ClientClosed));
                let client = &world.client;
                let semaphore = Semaphore::new(client, "/s", 2).expect("a path");
                assert_eq!(
                    kind(semaphore.acquire_many(2, Timeout::Forever).await),
                    Err(ErrorKind::ClientClosed)
                );
                let election = Election::new(client, "/e").expect("a path");
                assert_eq!(kind(election.campaign().await), Err(ErrorKind::ClientClosed));
                assert_eq!(kind(election.observe().next().await), Err(ErrorKind::ClientClosed));
            }
        };
        timeout(CLOSE_WAIT / 2, asking).await.expect("they wait for the server");
        assert!(!world.server.tree().await.is_empty());
    });
}
