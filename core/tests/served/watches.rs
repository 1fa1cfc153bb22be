//! What waits although there is no room for its watches.

use std::time::{Duration, Instant};

use super::{client, hold, mutex, run, server, until_contenders};

/// So long that the watches of a few waiters fill a session's room.
fn path(number: usize) -> String {
    format!("/{number}{}", "x".repeat(4_000))
}

#[test]
fn who_waits_without_a_watch_is_granted_the_lock_nevertheless() {
    run(async {
        let server = server().await;
        let (holder, waiter) = (client(&server.hosts()).await, client(&server.hosts()).await);
        let (mut leases, mut waiting) = (Vec::new(), Vec::new());
        for number in 0..24 {
            leases.push(hold(&holder, &path(number)).await);
            let lock = mutex(&waiter, &path(number));
            waiting.push(tokio::spawn(async move { lock.acquire().await }));
            until_contenders(&mutex(&holder, &path(number)), 2).await;
        }
        let began = Instant::now();
        for lease in leases {
            lease.release().await.expect("the end of the hold");
        }
        for waiting in waiting {
            drop(waiting.await.expect("no panic").expect("the lock"));
        }
        // A queue without watches polls every two seconds; the net under all watches is cast after twenty.
        let took = began.elapsed();
        assert!(took < Duration::from_secs(10), "{took:?}");
        assert!(took > Duration::from_millis(50), "there was room for all watches: {took:?}");
    });
}
