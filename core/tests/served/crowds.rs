//! More nodes than are dealt with at once.

use std::time::{Duration, Instant};

use tokio::task::JoinHandle;
use zklock::Lease;

use super::proxy::{Proxy, op};
use super::{behind_proxy, brief_client, client, hold, mutex, run, server, until_contenders};

/// The time-out of sessions whose heartbeats are waited for: each comes a sixth of it after the one before.
const BRIEF: Duration = Duration::from_secs(6);

#[test]
fn of_many_nodes_that_are_held_each_is_checked_in_its_turn() {
    run(async {
        let (_server, proxy) = behind_proxy().await;
        let client = brief_client(&proxy.hosts, BRIEF).await;
        // All at once: one after the other they take longer than their session on a busy machine.
        let holding: Vec<_> = (0..300)
            .map(|number| {
                let lock = mutex(&client, &format!("/l{number}"));
                tokio::spawn(async move { lock.acquire().await })
            })
            .collect();
        let mut leases = Vec::new();
        for lease in holding {
            leases.push(lease.await.expect("no panic").expect("the lock"));
        }
        all_are_checked(&proxy, leases.iter().map(Lease::node).collect()).await;
    });
}

#[test]
fn of_many_nodes_that_wait_in_one_queue_each_is_checked_in_its_turn() {
    run(async {
        let (_server, proxy) = behind_proxy().await;
        let client = brief_client(&proxy.hosts, BRIEF).await;
        let _lease = hold(&client, "/l").await;
        let waiting: Vec<_> = (0..299)
            .map(|_| {
                let lock = mutex(&client, "/l");
                tokio::spawn(async move { lock.acquire().await })
            })
            .collect();
        let lock = mutex(&client, "/l");
        until_contenders(&lock, 300).await;
        let contenders = lock.contenders().await.expect("an answer");
        all_are_checked(&proxy, contenders.into_iter().map(|contender| contender.node).collect()).await;
        waiting.iter().for_each(JoinHandle::abort);
    });
}

/// Fails unless the next heartbeats check all these nodes, and none of them too many.
async fn all_are_checked(proxy: &Proxy, nodes: Vec<String>) {
    let known = proxy.requests().len();
    let beats = || {
        let requests = proxy.requests().split_off(known);
        requests.into_iter().filter(|request| request.op == op::MULTI).collect::<Vec<_>>()
    };
    // Each sixth of the time-out a heartbeat, of 128 nodes at most: the fourth has seen them all.
    while beats().len() < 4 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let beats = beats();
    let unchecked = nodes.iter().filter(|node| !beats.iter().any(|beat| beat.names(node)));
    assert_eq!(unchecked.count(), 0, "of {}", nodes.len());
    for beat in &beats {
        let count = nodes.iter().filter(|node| beat.names(node)).count();
        assert!((1..=128).contains(&count), "{count}");
    }
}

#[test]
fn more_than_a_thousand_contenders_are_reported_in_order() {
    run(async {
        let server = server().await;
        let client = client(&server.hosts()).await;
        let lease = hold(&client, "/gate").await;
        drop(hold(&client, "/l").await);
        let mut crowd = lease.transaction();
        for number in (1_000..2_050).rev() {
            crowd = crowd.create(&format!("/l/_c_x-lock-{number:010}"), b"");
        }
        crowd.commit().await.expect("a crowd");
        let contenders = mutex(&client, "/l").contenders().await.expect("an answer");
        let expected: Vec<_> = (1_000..2_050).map(|number| format!("/l/_c_x-lock-{number:010}")).collect();
        let found: Vec<_> = contenders.iter().map(|contender| contender.node.clone()).collect();
        assert_eq!(found, expected);
        assert!(contenders.iter().enumerate().all(|(position, contender)| contender.position == position));
    });
}

#[test]
fn while_other_writes_prove_the_session_heartbeats_are_rare() {
    run(async {
        let (_server, proxy) = behind_proxy().await;
        let client = brief_client(&proxy.hosts, Duration::from_secs(9)).await;
        let _lease = hold(&client, "/l").await;
        drop(hold(&client, "/m").await);
        let known = proxy.requests().len();
        let began = Instant::now();
        // Without the writes there would be three.
        while began.elapsed() < Duration::from_millis(4_700) {
            drop(hold(&client, "/m").await);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let beats =
            proxy.requests().split_off(known).iter().filter(|request| request.op == op::MULTI).count();
        assert!(beats <= 1, "{beats}");
    });
}

#[test]
fn those_between_two_of_a_clients_waiters_are_asked_for_by_name() {
    run(async {
        let (server, proxy) = behind_proxy().await;
        let (theirs, ours) = (client(&server.hosts()).await, client(&proxy.hosts).await);
        let first = hold(&theirs, "/l").await;
        let mut turns = Vec::new();
        for crowd in [5, 6, 8] {
            let joining = std::iter::repeat_n(&theirs, crowd).chain((crowd < 8).then_some(&ours));
            for client in joining {
                let lock = mutex(client, "/l");
                turns.push(tokio::spawn(async move { lock.acquire().await?.release().await }));
                until_contenders(&mutex(&theirs, "/l"), turns.len() + 1).await;
            }
        }
        first.release().await.expect("the end of the hold");
        for turn in turns {
            turn.await.expect("no panic").expect("a turn");
        }
        let probes = proxy.requests().into_iter().filter(|request| request.op == op::MULTI_READ).count();
        assert!((1..=2).contains(&probes), "{probes} probes for two waiters");
    });
}
