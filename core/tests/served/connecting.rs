//! Tests of a client before it has a session.

use std::time::{Duration, Instant};

use zklock::{Client, ClientState, ErrorKind};

use super::{behind_proxy, client, hold, mutex, options, run, server, until_contenders};

#[test]
fn an_unreachable_server_is_reported_in_time_and_a_later_call_connects() {
    run(async {
        let (_server, proxy) = behind_proxy().await;
        proxy.cut(false);
        let limit = Duration::from_millis(300);
        let client = Client::new(options(&proxy.hosts).connect_timeout(limit).expect("a time-out"));
        let mut states = client.states();
        assert_eq!(client.state(), ClientState::Idle);
        let began = Instant::now();
        let refused = client.ready().await.expect_err("nobody answers");
        assert_eq!(refused.kind(), ErrorKind::ConnectionFailed, "{refused}");
        assert!(
            began.elapsed() >= limit && began.elapsed() < Duration::from_secs(5),
            "{:?}",
            began.elapsed()
        );
        // No call waits for a session any more, so the client stops looking for one.
        assert_eq!(states.next().await, Some(ClientState::Connecting));
        assert_eq!(states.next().await, Some(ClientState::Idle));
        proxy.come_back();
        client.ready().await.expect("a session");
        assert_eq!(states.next().await, Some(ClientState::Connecting));
        assert_eq!(states.next().await, Some(ClientState::Connected));
        assert_eq!(client.state(), ClientState::Connected);
        drop(hold(&client, "/l").await);
    });
}

#[test]
fn the_connect_timeout_does_not_limit_a_connected_waiter() {
    run(async {
        let server = server().await;
        let holder = client(&server.hosts()).await;
        let lease = hold(&holder, "/l").await;
        let limit = Duration::from_millis(300);
        let waiter = Client::new(options(&server.hosts()).connect_timeout(limit).expect("a time-out"));
        // The acquire begins without a session, so the connect timeout applies until the client is
        // connected.
        let lock = mutex(&waiter, "/l");
        let waiting = tokio::spawn(async move { lock.acquire().await });
        until_contenders(&mutex(&holder, "/l"), 2).await;
        tokio::time::sleep(limit * 2).await;
        assert!(!waiting.is_finished(), "it failed although a server replies");
        lease.release().await.expect("the end of the hold");
        drop(waiting.await.expect("no panic").expect("the lock"));
    });
}

#[test]
fn an_unreachable_server_is_not_a_lock_timeout() {
    run(async {
        let (_server, proxy) = behind_proxy().await;
        proxy.cut(false);
        let limit = Duration::from_millis(300);
        let client = Client::new(options(&proxy.hosts).connect_timeout(limit).expect("a time-out"));
        let refused = mutex(&client, "/l").acquire().await.expect_err("nobody answers");
        assert_eq!((refused.kind(), client.stats().timeouts), (ErrorKind::ConnectionFailed, 0), "{refused}");
        let late = mutex(&client, "/l").acquire_within(limit / 3).await.expect_err("nobody answers");
        assert_eq!((late.kind(), client.stats().timeouts), (ErrorKind::LockTimeout, 1), "{late}");
    });
}
