//! A try for permits does not wait for them, whatever happens meanwhile.

use std::time::{Duration, Instant};

use zklock::{LockOptions, Patience, Permits, Semaphore};

use super::proxy::{Fate, op};
use super::{behind_proxy, client, run, server};

#[test]
fn a_try_behind_a_contender_that_keeps_its_turn_ends_after_two_seconds() {
    run(async {
        let server = server().await;
        let (one, other) = (client(&server.hosts()).await, client(&server.hosts()).await);
        one.set_shared_count("/count", 2).await.expect("a number");
        let permits = || Permits::SharedCount("/count".to_owned());
        let semaphore = |client| {
            Semaphore::with_options(client, "/s", permits(), LockOptions::default()).expect("a path")
        };
        let (greedy, modest) = (semaphore(&one), semaphore(&other));
        // It waits in its turn until there are three.
        let waiting = tokio::spawn(async move { greedy.acquire_many(3, Patience::Forever).await });
        while modest.contenders().await.expect("an answer").is_empty() {
            tokio::task::yield_now().await;
        }
        let began = Instant::now();
        assert!(modest.try_acquire().await.expect("an answer").is_none());
        let took = began.elapsed();
        assert!(took < Duration::from_secs(4), "{took:?}");
        one.set_shared_count("/count", 3).await.expect("a number");
        assert_eq!(waiting.await.expect("no panic").expect("the permits").len(), 3);
    });
}

#[test]
fn a_try_that_finds_its_permit_taken_meanwhile_ends_at_once() {
    run(async {
        let (server, proxy) = behind_proxy().await;
        let (slow, fast) = (client(&proxy.hosts).await, client(&server.hosts()).await);
        let (slow, fast) = (Semaphore::new(&slow, "/s", 1).unwrap(), Semaphore::new(&fast, "/s", 1).unwrap());
        drop(fast.acquire().await.expect("the permit"));
        drop(slow.acquire().await.expect("the permit"));
        let known = proxy.requests().len();
        proxy.once(op::CREATE, Fate::Wait);
        let trying = tokio::spawn(async move { slow.try_acquire().await });
        while !proxy.requests()[known..].iter().any(|request| request.op == op::CREATE) {
            tokio::task::yield_now().await;
        }
        let permit = fast.acquire().await.expect("the permit");
        let began = Instant::now();
        proxy.open();
        assert!(trying.await.expect("no panic").expect("an answer").is_none());
        let took = began.elapsed();
        assert!(took < Duration::from_secs(1), "{took:?}");
        permit.release().await.expect("the end of the hold");
    });
}
