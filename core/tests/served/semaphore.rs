//! Tests that a try for permits does not wait for permits.

use std::time::{Duration, Instant};

use tokio::time::timeout;
use zklock::{Client, ErrorKind, Lease, LockOptions, Permits, Semaphore, Timeout};

use super::proxy::{Request, RequestEffect, op};
use super::{behind_proxy, client, hold, mutex, options, run, server};

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
        // This acquire holds the semaphore's internal mutex, and waits until three permits are
        // free.
        let waiting = tokio::spawn(async move { greedy.acquire_many(3, Timeout::Forever).await });
        while modest.contenders().await.expect("an answer").is_empty() {
            tokio::task::yield_now().await;
        }
        let began = Instant::now();
        assert!(modest.try_acquire().await.expect("an answer").is_none());
        let took = began.elapsed();
        // Without the limit, the try would wait for the third permit.
        assert!(took < Duration::from_secs(10), "{took:?}");
        one.set_shared_count("/count", 3).await.expect("a number");
        assert_eq!(waiting.await.expect("no panic").expect("the permits").len(), 3);
    });
}

#[test]
fn a_try_for_permits_that_cannot_be_held_together_ends() {
    run(async {
        let server = server().await;
        let client = client(&server.hosts()).await;
        // Each hold ends before all permits can be held.
        let briefly = LockOptions::default().max_hold(Duration::from_micros(1));
        let semaphore = Semaphore::with_options(&client, "/s", 2, briefly).expect("a path");
        let tried = timeout(Duration::from_secs(20), semaphore.acquire_many(2, Timeout::Try)).await;
        let refused = tried.expect("an end").expect_err("no permits");
        assert_eq!(refused.kind(), ErrorKind::LockTimeout, "{refused}");
    });
}

#[test]
fn a_try_that_finds_its_permit_taken_meanwhile_ends_immediately() {
    run(async {
        let (server, proxy) = behind_proxy().await;
        let (slow, fast) = (client(&proxy.hosts).await, client(&server.hosts()).await);
        let (slow, fast) = (Semaphore::new(&slow, "/s", 1).unwrap(), Semaphore::new(&fast, "/s", 1).unwrap());
        // Release each permit, and wait for the reply. If a node were left, the try below would not
        // create one.
        for semaphore in [&fast, &slow] {
            semaphore.acquire().await.expect("the permit").release().await.expect("the end of the hold");
        }
        let known = proxy.requests().len();
        proxy.once(op::CREATE, RequestEffect::Wait);
        let trying = tokio::spawn(async move { slow.try_acquire().await });
        while !proxy.requests()[known..].iter().any(|request| request.op == op::CREATE) {
            tokio::task::yield_now().await;
        }
        let permit = fast.acquire().await.expect("the permit");
        proxy.open();
        assert!(trying.await.expect("no panic").expect("an answer").is_none());
        // An acquire that waits for a permit has a node in the permits' directory. A try that sees
        // no free permit creates no such node.
        let waits = |request: &Request| {
            request.op == op::CREATE && request.bytes.windows(10).any(|name| name == b"/s/leases/")
        };
        assert!(!proxy.requests()[known..].iter().any(waits), "it waits for a permit");
        permit.release().await.expect("the end of the hold");
    });
}

#[test]
fn a_semaphore_reports_the_number_of_free_permits() {
    run(async {
        let server = server().await;
        let client = client(&server.hosts()).await;
        let semaphore = Semaphore::new(&client, "/s", 3).expect("a path");
        let locked = || async { semaphore.locked().await.expect("an answer") };
        let two = semaphore.acquire_many(2, Timeout::Try).await.expect("two permits");
        assert_eq!((two.len(), locked().await), (2, false));
        let refused = semaphore.acquire_many(2, Timeout::Try).await.expect_err("only one is free");
        assert_eq!(refused.kind(), ErrorKind::LockTimeout);
        assert!(refused.to_string().contains("2 of 3 permits of \"/s\" are taken"), "{refused}");
        let third = semaphore.try_acquire().await.expect("an answer").expect("a permit");
        assert!(locked().await && semaphore.try_acquire().await.expect("an answer").is_none());
        let nodes: Vec<_> = semaphore.contenders().await.expect("an answer");
        let held = two.iter().chain([&third]).map(Lease::node);
        assert_eq!(
            nodes.into_iter().map(|contender| contender.node).collect::<Vec<_>>(),
            held.collect::<Vec<_>>()
        );
        two.release().await.expect("the end of two holds");
        assert!(!locked().await);
        let late = semaphore.acquire_many(3, Duration::from_millis(200)).await.expect_err("one is held");
        assert_eq!(late.kind(), ErrorKind::LockTimeout);
        assert_eq!(client.stats().timeouts, 1, "one attempt, however many nodes it had");
        third.release().await.expect("the end of the hold");
        assert_eq!(semaphore.acquire_many(3, Timeout::Try).await.expect("all permits").len(), 3);
    });
}

#[test]
fn a_try_for_as_many_permits_as_are_free_gets_them() {
    run(async {
        let server = server().await;
        let client = client(&server.hosts()).await;
        let semaphore = Semaphore::new(&client, "/s", 5).expect("a path");
        let three = semaphore.acquire_many(3, Timeout::Try).await.expect("three of five permits");
        assert_eq!(semaphore.acquire_many(2, Timeout::Try).await.expect("the other two").len(), 2);
        assert!(three.is_held());
    });
}

#[test]
fn a_try_that_finds_a_lock_taken_is_counted_once() {
    run(async {
        let server = server().await;
        let (holder, client) = (client(&server.hosts()).await, client(&server.hosts()).await);
        let lease = hold(&holder, "/m").await;
        let permits = Semaphore::new(&holder, "/s", 2).expect("a path");
        let permits = permits.acquire_many(2, Timeout::Try).await.expect("both permits");
        assert!(mutex(&client, "/m").try_acquire().await.expect("an answer").is_none());
        assert_eq!(client.stats().busy, 1);
        let semaphore = Semaphore::new(&client, "/s", 2).expect("a path");
        semaphore.acquire_many(2, Timeout::Try).await.expect_err("none is free");
        assert_eq!(client.stats().busy, 2, "one attempt, however many permits");
        drop((lease, permits));
    });
}

#[test]
fn a_try_for_more_permits_than_exist_is_refused() {
    run(async {
        let server = server().await;
        let client = client(&server.hosts()).await;
        client.set_shared_count("/count", 2).await.expect("a number");
        let permits = Permits::SharedCount("/count".to_owned());
        let semaphore =
            Semaphore::with_options(&client, "/s", permits, LockOptions::default()).expect("a path");
        let refused = semaphore.acquire_many(3, Timeout::Try).await.expect_err("there are two");
        assert_eq!(refused.kind(), ErrorKind::LockTimeout);
        assert!(refused.to_string().contains("there are only 2"), "{refused}");
        assert_eq!(semaphore.acquire_many(2, Timeout::Try).await.expect("both").len(), 2);
    });
}

#[test]
fn a_contender_with_a_different_number_of_permits_is_refused() {
    run(async {
        let server = server().await;
        let (one, other) = (client(&server.hosts()).await, client(&server.hosts()).await);
        let three = Semaphore::new(&one, "/s", 3).expect("a path");
        let permit = three.acquire().await.expect("a permit");
        let four = Semaphore::new(&other, "/s", 4).expect("a path");
        let refused = four.acquire().await.expect_err("another number");
        assert_eq!(refused.kind(), ErrorKind::PermitsMismatch);
        assert!(refused.to_string().contains("\"/s\" has 3 permits for process"), "{refused}");
        let same = Semaphore::new(&other, "/s", 3).expect("a path");
        drop(same.acquire().await.expect("a permit"));
        permit.release().await.expect("the end of the hold");
    });
}

#[test]
fn an_attempt_that_waited_only_for_its_turn_counts_as_contended() {
    run(async {
        let server = server().await;
        let hosts = server.hosts();
        let (one, two, three) = (client(&hosts).await, client(&hosts).await, client(&hosts).await);
        let semaphore = |client| Semaphore::new(client, "/s", 2).expect("a path");
        let (first, second, third) = (semaphore(&one), semaphore(&two), semaphore(&three));
        let until = async |count| {
            while first.contenders().await.expect("an answer").len() != count {
                tokio::task::yield_now().await;
            }
        };
        let permits = first.acquire_many(2, Timeout::Forever).await.expect("both permits");
        // The acquire of `greedy` holds the semaphore's internal lock (the turn), and waits with
        // one node for each permit. The acquire of `modest` waits for the turn.
        let greedy = tokio::spawn(async move { second.acquire_many(2, Timeout::Forever).await });
        until(5).await;
        let modest = tokio::spawn(async move { third.acquire().await });
        until(6).await;
        permits.iter().next().expect("one of two").release().await.expect("the end of a hold");
        greedy.abort();
        drop(modest.await.expect("no panic").expect("a permit"));
        assert_eq!((one.stats().contended, three.stats().contended), (0, 1));
    });
}

#[test]
fn other_contenders_numbers_of_permits_are_read_once() {
    run(async {
        let (server, proxy) = behind_proxy().await;
        let (one, other) = (client(&server.hosts()).await, client(&proxy.hosts).await);
        let _permit = Semaphore::new(&one, "/s", 2).expect("a path").acquire().await.expect("a permit");
        let semaphore = Semaphore::new(&other, "/s", 2).expect("a path");
        let looks = || proxy.requests().iter().filter(|request| request.op == op::EXISTS).count();
        let permit = semaphore.acquire().await.expect("a permit");
        permit.release().await.expect("the end of the hold");
        assert_eq!(looks(), 1);
        drop(semaphore.acquire().await.expect("a permit"));
        assert_eq!(looks(), 1);
    });
}

/// Creates a semaphore whose number of permits is stored in a node.
fn counted(client: &Client) -> Semaphore {
    let permits = Permits::SharedCount("/count".to_owned());
    Semaphore::with_options(client, "/s", permits, LockOptions::default()).expect("a path")
}

#[test]
fn a_semaphore_with_a_shared_count_that_never_reached_a_server_says_so() {
    run(async {
        let (_server, proxy) = behind_proxy().await;
        proxy.cut(false);
        let limit = Duration::from_millis(300);
        let client = Client::new(options(&proxy.hosts).connect_timeout(limit).expect("a time-out"));
        for timeout in [Timeout::Forever, Timeout::For(Duration::from_secs(100)), Timeout::Try] {
            let refused = counted(&client).acquire_with(timeout).await.expect_err("nobody answers");
            assert_eq!(refused.kind(), ErrorKind::ConnectionFailed, "{timeout:?}: {refused}");
            assert!(!refused.servers().is_empty(), "{refused}");
        }
        // If the timeout of an acquire is shorter than the connect timeout, the acquire fails with
        // `LockTimeout`.
        let late = counted(&client).acquire_within(limit / 3).await.expect_err("nobody answers");
        assert_eq!(late.kind(), ErrorKind::LockTimeout, "{late}");
    });
}

#[test]
fn a_semaphore_with_a_shared_count_that_reached_a_server_waits_out_an_outage() {
    run(async {
        let (server, proxy) = behind_proxy().await;
        let writer = super::client(&server.hosts()).await;
        writer.set_shared_count("/count", 1).await.expect("a number");
        let limit = Duration::from_millis(300);
        let options = options(&proxy.hosts).connect_timeout(limit).expect("a time-out");
        let client = Client::connect_with(options).await.expect("a session");
        proxy.cut(false);
        let semaphore = counted(&client);
        let waiting = tokio::spawn(async move { semaphore.acquire().await });
        tokio::time::sleep(limit * 3).await;
        assert!(!waiting.is_finished(), "it failed during the outage");
        proxy.come_back();
        drop(waiting.await.expect("no panic").expect("a permit"));
    });
}
