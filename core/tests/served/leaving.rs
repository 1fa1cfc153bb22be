//! Tests that no node is left behind when an acquire stops waiting.

use std::time::{Duration, Instant};

use zklock::{ErrorKind, Semaphore, Timeout};

use super::proxy::{RequestEffect, op};
use super::{behind_proxy, brief_client, client, hold, mutex, run, server, until_contenders};

#[test]
fn a_wait_that_is_given_up_leaves_the_queue() {
    run(async {
        let server = server().await;
        let (one, other) = (client(&server.hosts()).await, client(&server.hosts()).await);
        let lease = hold(&one, "/l").await;
        let lock = mutex(&other, "/l");
        let waiting = tokio::spawn(async move { lock.acquire().await });
        until_contenders(&mutex(&one, "/l"), 2).await;
        waiting.abort();
        until_contenders(&mutex(&one, "/l"), 1).await;
        lease.check().expect("it is held");
    });
}

#[test]
fn a_wait_that_is_canceled_before_its_create_is_answered_leaves_no_node() {
    run(async {
        let (server, proxy) = behind_proxy().await;
        let (one, other) = (client(&server.hosts()).await, client(&proxy.hosts).await);
        drop(hold(&other, "/l").await);
        let known = proxy.requests().len();
        proxy.once(op::CREATE, RequestEffect::LoseReply);
        let lock = mutex(&other, "/l");
        let waiting = tokio::spawn(async move { lock.acquire().await });
        while !proxy.requests()[known..].iter().any(|request| request.op == op::CREATE) {
            tokio::task::yield_now().await;
        }
        waiting.abort();
        // When the client is connected again, it finds the node by its name.
        tokio::time::sleep(Duration::from_millis(100)).await;
        drop(hold(&other, "/m").await);
        until_contenders(&mutex(&one, "/l"), 0).await;
    });
}

#[test]
fn an_acquire_times_out_on_time_and_leaves_the_queue() {
    run(async {
        let server = server().await;
        let (one, other) = (client(&server.hosts()).await, client(&server.hosts()).await);
        let _lease = hold(&one, "/l").await;
        let began = Instant::now();
        let late =
            mutex(&other, "/l").acquire_within(Duration::from_millis(100)).await.expect_err("it is taken");
        assert_eq!(late.kind(), ErrorKind::LockTimeout);
        let took = began.elapsed();
        assert!(took >= Duration::from_millis(100) && took < Duration::from_secs(2), "{took:?}");
        until_contenders(&mutex(&one, "/l"), 1).await;
    });
}

#[test]
fn a_canceled_wait_for_permits_releases_the_turn_and_its_permits() {
    run(async {
        let server = server().await;
        let (one, other) = (client(&server.hosts()).await, client(&server.hosts()).await);
        let (one, other) = (Semaphore::new(&one, "/s", 3).unwrap(), Semaphore::new(&other, "/s", 3).unwrap());
        let taken = one.acquire_many(2, Timeout::Forever).await.expect("the permits");
        let greedy = other.clone();
        let waiting = tokio::spawn(async move { greedy.acquire_many(2, Timeout::Forever).await });
        // The five nodes: two held permits, two requested permits, and the semaphore's mutex.
        while one.contenders().await.expect("an answer").len() < 5 {
            tokio::task::yield_now().await;
        }
        waiting.abort();
        while one.contenders().await.expect("an answer").len() > 2 {
            tokio::task::yield_now().await;
        }
        drop(other.acquire_within(Duration::from_secs(5)).await.expect("the third permit"));
        taken.check().expect("they are held");
    });
}

/// A stuck server replies only to pings. The session therefore continues, and so does the node,
/// which blocks other waiters.
#[test]
fn a_session_that_no_longer_deletes_anything_is_given_up() {
    run(async {
        let (server, proxy) = behind_proxy().await;
        let one = brief_client(&proxy.hosts, Duration::from_secs(2)).await;
        let other = client(&server.hosts()).await;
        let lease = hold(&one, "/l").await;
        // The client sends no other request after the delete.
        proxy.once(op::DELETE, RequestEffect::Vanish);
        lease.release_in_background().expect("the end of the hold");
        drop(hold(&other, "/l").await);
        one.ready().await.expect("a connection");
        assert_ne!(one.session_id(), lease.session_id());
    });
}
