//! Tests with more nodes than one request or one batch can handle.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;
use zklock::Lease;

use super::proxy::{Proxy, op};
use super::{behind_proxy, brief_client, client, hold, mutex, run, server, until_contenders};

/// Session timeout of the heartbeat tests. The client sends a heartbeat every sixth of this time.
const BRIEF: Duration = Duration::from_secs(6);

#[test]
fn heartbeats_check_each_of_many_held_nodes_in_turn() {
    run(async {
        let (_server, proxy) = behind_proxy().await;
        let client = brief_client(&proxy.hosts, BRIEF).await;
        // The acquires run concurrently. In sequence they could take longer than the session
        // timeout on a busy machine.
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
fn heartbeats_check_each_of_many_waiting_nodes_in_turn() {
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

/// Waits for the next heartbeats, which must check all these nodes. No single heartbeat may check
/// too many of them.
async fn all_are_checked(proxy: &Proxy, nodes: Vec<String>) {
    let known = proxy.requests().len();
    let beats = || {
        let requests = proxy.requests().split_off(known);
        requests.into_iter().filter(|request| request.op == op::MULTI).collect::<Vec<_>>()
    };
    // A heartbeat checks at most 128 nodes, so four heartbeats check all nodes.
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
        // Without these writes, there would be three heartbeats in this time.
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
fn nodes_between_two_waiters_of_a_client_are_probed_by_name() {
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

/// Limits for a long queue: the requests for `PER` hand-offs (heartbeats excluded), the bytes of
/// replies for each hand-off, and the waiters that one release wakes.
const MOST_REQUESTS: usize = 6_500;
const PER: usize = 1_000;
const MOST_BYTES: usize = 8 * 1024;
const MOST_WOKEN: usize = 2;

#[test]
fn a_hand_off_among_two_thousand_waiters_costs_a_few_requests_and_wakes_two() {
    const CLIENTS: usize = 20;
    const EACH: usize = 100;
    const AGAIN: usize = 400;
    run(async {
        let (server, proxy) = behind_proxy().await;
        let bystander = client(&server.hosts()).await;
        let gate = hold(&bystander, "/l").await;
        let mut clients = Vec::new();
        for _ in 0..CLIENTS {
            clients.push(client(&proxy.hosts).await);
        }
        let turns = Arc::new(AtomicUsize::new(0));
        let mut waiters = Vec::new();
        for number in 0..CLIENTS * EACH {
            // Clients alternate in the queue, so no waiter is directly behind a waiter of the same
            // client.
            if number % CLIENTS == 0 {
                until_asked(&proxy, op::CREATE, number).await;
            }
            let (lock, turns) = (mutex(&clients[number % CLIENTS], "/l"), Arc::clone(&turns));
            waiters.push(tokio::spawn(async move {
                loop {
                    let lease = lock.acquire().await?;
                    let turn = turns.fetch_add(1, Ordering::Relaxed);
                    lease.release().await?;
                    // The first ones queue again, behind all others.
                    if turn >= AGAIN {
                        return Ok::<_, zklock::Error>(());
                    }
                }
            }));
        }
        until_contenders(&mutex(&bystander, "/l"), CLIENTS * EACH + 1).await;
        gate.release().await.expect("the end of the hold");
        for waiter in waiters {
            waiter.await.expect("no panic").expect("a turn");
        }
        let (requests, replies) = (proxy.requests(), proxy.replies());
        let ends = requests.iter().filter(|request| request.op == op::DELETE);
        let ends: BTreeMap<_, _> = ends.map(|request| (path(&request.bytes), request.connection)).collect();
        let hand_offs = CLIENTS * EACH + AGAIN;
        assert_eq!(ends.len(), hand_offs, "each deletes its node");
        let asked = requests.iter().filter(|request| request.op != op::MULTI).count() * PER / hand_offs;
        assert!(asked <= MOST_REQUESTS, "{asked} requests for {PER} hand-offs");
        let bytes = replies.bytes / hand_offs;
        assert!(bytes <= MOST_BYTES, "{bytes} bytes of replies for each hand-off");
        let mut woken = BTreeMap::<_, usize>::new();
        for (connection, node) in &replies.told {
            // A waiter can still watch its own node when it deletes that node. Do not count the
            // event of this watch.
            if ends.get(node.as_bytes()) != Some(connection) {
                *woken.entry(node).or_default() += 1;
            }
        }
        assert!(woken.len() > hand_offs / 2, "other clients received only {} deletions", woken.len());
        let most = woken.values().max().copied().unwrap_or_default();
        assert!(most <= MOST_WOKEN, "{most} woken by one release");
    });
}

/// Waits until `count` requests of this kind have arrived.
async fn until_asked(proxy: &Proxy, op: i32, count: usize) {
    while proxy.asked(op) < count {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Returns the path of a request, which follows the `xid` and the operation number.
fn path(request: &[u8]) -> &[u8] {
    let length = request.get(8..12).and_then(|four| four.try_into().ok()).map_or(0, u32::from_be_bytes);
    request.get(12..12 + length as usize).unwrap_or_default()
}
