//! Tests that the embedded server supports everything that the lock library needs.

mod common;

use std::time::Duration;

use common::{client, run, server};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use zklock::{ErrorKind, LeaseState, Mutex};

#[test]
fn a_lock_is_taken_queued_for_and_handed_over() {
    run(async {
        let server = server().await;
        let (a, b) = (client(&server).await, client(&server).await);
        let (first, second) = (Mutex::new(&a, "/locks/x").unwrap(), Mutex::new(&b, "/locks/x").unwrap());
        let held = first.acquire().await.unwrap();
        assert!(second.try_acquire().await.unwrap().is_none());
        let late = second.acquire_within(Duration::from_millis(50)).await.unwrap_err();
        assert_eq!(late.kind(), ErrorKind::LockTimeout);
        assert_eq!(second.contenders().await.unwrap().len(), 1);
        let waiter = tokio::spawn(async move { second.acquire().await });
        while first.contenders().await.unwrap().len() < 2 {
            tokio::task::yield_now().await;
        }
        assert!(!waiter.is_finished());
        held.release().await.unwrap();
        let next = waiter.await.unwrap().unwrap();
        assert!(next.fencing_token() > held.fencing_token());
        next.release().await.unwrap();
        assert!(first.contenders().await.unwrap().is_empty());
        a.close().await.unwrap();
        b.close().await.unwrap();
        server.stop().await;
    });
}

#[test]
fn an_expired_session_loses_its_lock_and_the_next_one_gets_it() {
    run(async {
        let server = server().await;
        let (a, b) = (client(&server).await, client(&server).await);
        let lost = Mutex::new(&a, "/locks/x").unwrap().acquire().await.unwrap();
        let other = Mutex::new(&b, "/locks/x").unwrap();
        let waiter = tokio::spawn(async move { other.acquire().await });
        assert!(server.expire(lost.session_id()).await);
        assert!(!server.expire(lost.session_id()).await);
        let next = waiter.await.unwrap().unwrap();
        lost.lost().await;
        assert!(matches!(lost.state(), LeaseState::Lost(_)));
        assert!(next.fencing_token() > lost.fencing_token());
        // The client continues in a new session.
        assert_ne!(
            Mutex::new(&a, "/locks/y").unwrap().acquire().await.unwrap().session_id(),
            lost.session_id()
        );
    });
}

#[test]
fn tokens_grow_over_a_restart() {
    run(async {
        let mut last = 0;
        for _ in 0..2 {
            let server = server().await;
            let client = client(&server).await;
            let lease = Mutex::new(&client, "/locks/x").unwrap().acquire().await.unwrap();
            assert!(lease.fencing_token() > last);
            last = lease.fencing_token();
            lease.release().await.unwrap();
            client.close().await.unwrap();
            server.stop().await;
        }
    });
}

#[test]
fn a_malformed_frame_ends_its_own_connection_only() {
    run(async {
        let server = server().await;
        let client = client(&server).await;
        let mut bad = TcpStream::connect(server.hosts()).await.unwrap();
        bad.write_all(&i32::MAX.to_be_bytes()).await.unwrap();
        assert_eq!(bad.read(&mut [0; 8]).await.unwrap_or(0), 0);
        Mutex::new(&client, "/locks/x").unwrap().acquire().await.unwrap().release().await.unwrap();
    });
}

#[test]
fn a_word_is_answered() {
    run(async {
        let server = server().await;
        let mut stream = TcpStream::connect(server.hosts()).await.unwrap();
        stream.write_all(b"ruok").await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert_eq!(answer, "imok");
    });
}

#[test]
fn a_stopped_server_is_unreachable_and_its_port_is_free() {
    run(async {
        let server = server().await;
        let hosts = server.hosts();
        let mut stream = TcpStream::connect(&hosts).await.unwrap();
        server.stop().await;
        assert_eq!(stream.read(&mut [0; 8]).await.unwrap_or(0), 0);
        assert!(TcpStream::connect(&hosts).await.is_err());
    });
}
