//! Tests of waiters whose client has reached its limit of watches.

use std::time::{Duration, Instant};

use tokio::task::JoinHandle;
use zklock::{Client, Lease, Semaphore};

use super::{client, hold, mutex, run, server, until_contenders};

/// Time within which all waiters must be granted their locks. A waiter without a watch lists its
/// queue every two seconds. A waiter with a watch lists it only after twenty seconds without an
/// event.
const LATEST: Duration = Duration::from_secs(10);

/// Returns a path so long that the watches of a few waiters reach the limit on the total length of
/// the paths that a session watches.
fn path(number: usize) -> String {
    format!("/{number}{}", "x".repeat(4_000))
}

/// Returns the leases of one client, and the waiters of another client. The waiters need more
/// watches than that limit allows.
async fn crowded(holder: &Client, waiter: &Client) -> (Vec<Lease>, Vec<JoinHandle<zklock::Result<Lease>>>) {
    let (mut leases, mut waiting) = (Vec::new(), Vec::new());
    for number in 0..24 {
        leases.push(hold(holder, &path(number)).await);
        let lock = mutex(waiter, &path(number));
        waiting.push(tokio::spawn(async move { lock.acquire().await }));
        until_contenders(&mutex(holder, &path(number)), 2).await;
    }
    (leases, waiting)
}

#[test]
fn a_waiter_is_granted_the_lock_without_a_watch() {
    run(async {
        let server = server().await;
        let (holder, waiter) = (client(&server.hosts()).await, client(&server.hosts()).await);
        let (leases, waiting) = crowded(&holder, &waiter).await;
        let began = Instant::now();
        for lease in leases {
            lease.release().await.expect("the end of the hold");
        }
        for waiting in waiting {
            drop(waiting.await.expect("no panic").expect("the lock"));
        }
        let took = began.elapsed();
        assert!(took < LATEST, "{took:?}");
        assert!(took > Duration::from_millis(500), "there was room for all watches: {took:?}");
    });
}

#[test]
fn a_waiter_for_a_permit_is_granted_it_without_a_watch() {
    run(async {
        let server = server().await;
        let (holder, waiter) = (client(&server.hosts()).await, client(&server.hosts()).await);
        let (_leases, crowd) = crowded(&holder, &waiter).await;
        // The limit is reached, so this path cannot be watched either.
        let semaphore = |client| Semaphore::new(client, path(99), 1).expect("a path");
        let (first, second) = (semaphore(&holder), semaphore(&waiter));
        let permit = first.acquire().await.expect("the permit");
        let waiting = tokio::spawn(async move { second.acquire().await });
        while first.contenders().await.expect("an answer").len() < 3 {
            tokio::task::yield_now().await;
        }
        let began = Instant::now();
        permit.release().await.expect("the end of the hold");
        drop(waiting.await.expect("no panic").expect("the permit"));
        let took = began.elapsed();
        assert!(took < LATEST, "{took:?}");
        crowd.iter().for_each(JoinHandle::abort);
    });
}
