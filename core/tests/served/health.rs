//! Tests of the health report of a client.

use std::time::{Duration, Instant};

use zklock::{
    ClientState, LeaseState, LockMode, LockOptions, Mutex, Owner, ReadWriteLock, Semaphore, Timeout, dump,
};

use super::{brief_client, client, hold, mutex, options, run, server, until_contenders};

#[test]
fn unused_and_closed_clients_have_empty_reports() {
    run(async {
        let server = server().await;
        let idle = zklock::Client::new(options("127.0.0.1:1"));
        let health = idle.health();
        assert_eq!((health.state, health.session_id, health.server), (ClientState::Idle, 0, None));
        assert_eq!((health.last_proof, health.remaining, health.responsive), (None, Duration::ZERO, true));
        assert_eq!(health.session_timeout, Duration::from_secs(10));

        let client = client(&server.hosts()).await;
        let lease = hold(&client, "/closed").await;
        assert_eq!(client.health().holds.len(), 1);
        client.close().await.expect("a close");
        let health = client.health();
        assert_eq!((health.state, health.server), (ClientState::Closed, None));
        assert_eq!((health.last_proof, health.remaining), (None, Duration::ZERO));
        assert!(health.waits.is_empty() && health.holds.is_empty() && health.responsive);
        drop(lease);
    });
}

#[test]
fn health_reports_the_levels_age_and_term_of_a_hold() {
    run(async {
        let server = server().await;
        let client = client(&server.hosts()).await;
        let lock =
            Mutex::with_options(&client, "/held", LockOptions::default().label("nightly")).expect("a path");
        let owner = Owner::new();
        let lease = lock.acquire_as(&owner, Timeout::Forever).await.expect("the lock");
        let second = lock.acquire_as(&owner, Timeout::Forever).await.expect("re-entry");
        tokio::time::sleep(Duration::from_millis(5)).await;
        let health = client.health();
        assert_eq!((health.state, health.session_id), (ClientState::Connected, client.session_id()));
        assert_eq!(health.server, Some(server.hosts()));
        assert_eq!(health.session_timeout, client.session_timeout());
        assert!(health.last_proof.expect("a proof") < Duration::from_secs(5));
        assert!(health.remaining > Duration::ZERO && health.remaining <= Duration::from_secs(5));
        let [held] = health.holds.as_slice() else { panic!("{health:?}") };
        assert_eq!(
            (held.path.as_str(), held.mode, held.label.as_deref()),
            ("/held", LockMode::Mutex, Some("nightly"))
        );
        assert_eq!((held.node.clone(), held.fencing_token), (lease.node(), lease.fencing_token()));
        assert_eq!((held.levels, held.state), (2, LeaseState::Held));
        assert!(held.age >= Duration::from_millis(5) && held.remaining > Duration::ZERO, "{held:?}");
        second.release().await.expect("an inner release");
        assert_eq!(client.health().holds[0].levels, 1);
        lease.release().await.expect("a release");
        assert!(client.health().holds.is_empty());
    });
}

#[test]
fn a_wait_is_reported_with_its_position_and_the_node_ahead() {
    run(async {
        let server = server().await;
        let (client, other) = (client(&server.hosts()).await, client(&server.hosts()).await);
        let first = hold(&other, "/queue").await;
        let lock = mutex(&client, "/queue");
        let waits: Vec<_> = (0..2)
            .map(|_| {
                let lock = lock.clone();
                tokio::spawn(async move { lock.acquire().await })
            })
            .collect();
        until_contenders(&lock, 3).await;
        let queue = lock.contenders().await.expect("an answer");
        let waits_now = loop {
            let waits = client.health().waits;
            if waits.iter().all(|wait| wait.behind.is_some()) {
                break waits;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        };
        assert_eq!(waits_now.len(), 2);
        for (at, wait) in waits_now.iter().enumerate() {
            assert_eq!(
                (wait.path.as_str(), wait.mode, wait.position),
                ("/queue", LockMode::Mutex, Some(at + 1))
            );
            assert_eq!(wait.node.as_ref(), Some(&queue[at + 1].node));
            assert_eq!(wait.behind.as_ref(), Some(&queue[at].node));
        }
        assert_eq!(waits_now[0].behind.as_ref(), Some(&first.node()));
        let text = dump();
        for part in
            ["waits for /queue (mutex) for ", ", 1 ahead, as ", "holds /queue (mutex) for ", &first.node()]
        {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!waits_in(&text, "/queue").any(|line| line.contains("which this client holds")), "{text}");
        first.release().await.expect("a release");
        for wait in waits {
            drop(wait.await.expect("no panic").expect("the lock"));
        }
    });
}

/// Returns the lines of a dump about waits for a lock.
fn waits_in<'a>(text: &'a str, path: &str) -> impl Iterator<Item = &'a str> {
    let begin = format!("  waits for {path} ");
    text.lines().filter(move |line| line.starts_with(&begin))
}

#[test]
fn a_wait_for_a_lock_of_the_same_client_is_reported() {
    run(async {
        let server = server().await;
        let client = client(&server.hosts()).await;
        let lease = hold(&client, "/ours").await;
        let lock = mutex(&client, "/ours");
        let wait = tokio::spawn(async move { lock.acquire().await });
        let end = format!(", behind {}, which this client holds, by owner ", lease.node());
        loop {
            let text = dump();
            if waits_in(&text, "/ours").any(|line| line.contains(&end)) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        lease.release().await.expect("a release");
        drop(wait.await.expect("no panic").expect("the lock"));
    });
}

#[test]
fn health_names_the_conflicting_node_that_each_kind_waits_behind() {
    run(async {
        let server = server().await;
        let (client, other) = (client(&server.hosts()).await, client(&server.hosts()).await);
        let pair = ReadWriteLock::new(&other, "/pair").expect("a path");
        let (reading, reads) = (pair.read_lock.acquire().await.expect("the lock"), pair.read_lock.clone());
        let more = reads.acquire().await.expect("another reader");
        let ours = ReadWriteLock::new(&client, "/pair").expect("a path");
        let (writer, reader) = (ours.write_lock.clone(), ours.read_lock.clone());
        let write = tokio::spawn(async move { writer.acquire().await });
        until_contenders(&ours.read_lock, 3).await;
        let read = tokio::spawn(async move { reader.acquire().await });
        until_contenders(&ours.read_lock, 4).await;
        let waits = loop {
            let waits = client.health().waits;
            if waits.len() == 2 && waits.iter().all(|wait| wait.behind.is_some()) {
                break waits;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        };
        assert_eq!((waits[0].mode, waits[0].behind.clone()), (LockMode::Write, Some(more.node())));
        assert_eq!(
            (waits[1].mode, &waits[1].behind),
            (LockMode::Read, &waits[0].node),
            "not for other readers"
        );
        drop((reading, more));
        drop(write.await.expect("no panic").expect("the write lock"));
        drop(read.await.expect("no panic").expect("the read lock"));

        let one = Semaphore::new(&other, "/permits", 1).expect("a path").acquire().await.expect("a permit");
        let permits = Semaphore::new(&client, "/permits", 1).expect("a path");
        let permit = tokio::spawn(async move { permits.acquire().await });
        let wait = loop {
            let waits = client.health().waits;
            if let [wait] = waits.as_slice()
                && wait.node.as_ref().is_some_and(|node| node.starts_with("/permits/leases/"))
            {
                break wait.clone();
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        };
        assert_eq!((wait.path.as_str(), wait.mode, wait.behind), ("/permits", LockMode::Permit, None));
        assert!(client.health().holds.is_empty(), "its turn is no hold");
        drop(one);
        drop(permit.await.expect("no panic").expect("a permit"));
    });
}

#[test]
fn a_silent_server_delays_no_health_report_and_the_remaining_term_shrinks() {
    run(async {
        let server = server().await;
        let client = brief_client(&server.hosts(), Duration::from_secs(4)).await;
        let lease = hold(&client, "/silent").await;
        server.pause().await;
        let began = Instant::now();
        loop {
            let asked = Instant::now();
            let health = client.health();
            assert!(asked.elapsed() < Duration::from_secs(1), "it waits for the server");
            if health.holds.is_empty() {
                assert!(health.remaining.is_zero());
                break;
            }
            assert!(began.elapsed() < Duration::from_secs(60));
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert!(lease.check().is_err());
        server.resume().await;
    });
}

/// A waker or a log subscriber of the program can request the health on the library's own thread,
/// in the middle of the driver's work.
#[test]
fn health_on_the_librarys_busy_thread_is_not_responsive() {
    struct Asking(zklock::Client, std::sync::mpsc::Sender<bool>);
    impl std::task::Wake for Asking {
        fn wake(self: std::sync::Arc<Self>) {
            self.1.send(self.0.health().responsive).ok();
        }
    }
    run(async {
        let server = server().await;
        let client = client(&server.hosts()).await;
        let (told, answers) = std::sync::mpsc::channel();
        let waker = std::sync::Arc::new(Asking(client.clone(), told)).into();
        let lock = mutex(&client, "/asked");
        let mut acquire = std::pin::pin!(lock.acquire());
        assert!(acquire.as_mut().poll(&mut std::task::Context::from_waker(&waker)).is_pending());
        let answer = tokio::task::spawn_blocking(move || answers.recv_timeout(Duration::from_secs(60)));
        assert_eq!(
            answer.await.expect("no panic"),
            Ok(false),
            "it is woken in the middle of the driver's work"
        );
        assert!(client.health().responsive);
        drop(acquire.await.expect("the lock"));
    });
}

#[test]
fn health_lists_holds_and_waits_in_path_order() {
    run(async {
        let server = server().await;
        let (client, other) = (client(&server.hosts()).await, client(&server.hosts()).await);
        let paths = ["/c", "/a", "/b"];
        let mut held = Vec::new();
        for path in paths {
            held.push(hold(&client, path).await);
            let lock = mutex(&other, path);
            tokio::spawn(async move { lock.acquire().await });
            until_contenders(&mutex(&client, path), 2).await;
        }
        let holds: Vec<_> = client.health().holds.into_iter().map(|hold| hold.path).collect();
        let waits: Vec<_> = other.health().waits.into_iter().map(|wait| wait.path).collect();
        assert_eq!(
            (holds, waits),
            (["/a", "/b", "/c"].map(String::from).into(), ["/a", "/b", "/c"].map(String::from).into())
        );
        drop(held);
    });
}

#[test]
fn a_hold_after_a_hand_off_is_reported_with_its_own_label() {
    run(async {
        let server = server().await;
        let client = client(&server.hosts()).await;
        let options = LockOptions::default().linger(Duration::from_secs(600)).cohort(2);
        let [first, second] = ["first", "second"]
            .map(|label| Mutex::with_options(&client, "/l", options.clone().label(label)).expect("a path"));
        let label = || client.health().holds.pop().and_then(|hold| hold.label);
        let lease = first.acquire().await.expect("the lock");
        assert_eq!(label().as_deref(), Some("first"));
        lease.release().await.expect("held");
        let again = second.acquire().await.expect("the lock");
        assert_eq!((again.handoffs(), label().as_deref()), (1, Some("second")));
        let waiting = tokio::spawn(async move { first.acquire().await });
        while client.health().waits.is_empty() {
            tokio::task::yield_now().await;
        }
        again.release().await.expect("held");
        let handed = waiting.await.expect("no panic").expect("the lock");
        assert_eq!((handed.handoffs(), label().as_deref()), (2, Some("first")));
        // Other clients see the label of the lock object for which the node was created.
        let contender = second.contenders().await.expect("a list").remove(0);
        assert_eq!(contender.about.and_then(|about| about.label).as_deref(), Some("first"));
    });
}
