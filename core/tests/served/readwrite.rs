//! Tests of readers and writers.

use std::time::Duration;

use tokio::time::timeout;
use zklock::{Client, ErrorKind, Lease, Owner, ReadWriteLock, Timeout};
use zklock_embedded::Server;

use super::proxy::{Proxy, RequestEffect, op};
use super::{behind_proxy, client, options, run, server, until_contenders};

#[test]
fn a_writer_waits_for_readers_and_a_later_reader_waits_for_the_writer() {
    run(async {
        let server = server().await;
        let (one, other) = (client(&server.hosts()).await, client(&server.hosts()).await);
        let (one, other) =
            (ReadWriteLock::new(&one, "/l").unwrap(), ReadWriteLock::new(&other, "/l").unwrap());
        let first = one.read_lock.acquire().await.expect("the lock");
        let second = other.read_lock.acquire_within(Duration::from_secs(5)).await.expect("the lock");
        let (writer, reader) = (other.write_lock.clone(), one.read_lock.clone());
        let writing = tokio::spawn(async move { writer.acquire().await });
        until_contenders(&one.read_lock, 3).await;
        let mut reading = Box::pin(reader.acquire());
        assert!(
            timeout(Duration::from_millis(50), reading.as_mut()).await.is_err(),
            "it overtook the writer"
        );
        first.release().await.expect("the end of the hold");
        assert!(!writing.is_finished(), "there is another reader");
        second.release().await.expect("the end of the hold");
        let alone = writing.await.expect("no panic").expect("the lock");
        assert!(
            timeout(Duration::from_millis(50), reading.as_mut()).await.is_err(),
            "it reads at the same time as the writer"
        );
        alone.release().await.expect("the end of the hold");
        drop(timeout(Duration::from_secs(5), reading).await.expect("its turn").expect("the lock"));
    });
}

#[test]
fn an_owner_that_asks_for_both_halves_at_once_waits_for_neither() {
    run(async {
        let server = server().await;
        let (one, other) = (client(&server.hosts()).await, client(&server.hosts()).await);
        let blocker = ReadWriteLock::new(&other, "/rw").expect("a path").write_lock;
        let blocker = blocker.acquire().await.expect("the lock");
        let (lock, owner) = (ReadWriteLock::new(&one, "/rw").expect("a path"), Owner::new());
        let both = async {
            tokio::join!(
                lock.write_lock.acquire_as(&owner, Timeout::Forever),
                lock.read_lock.acquire_as(&owner, Timeout::Forever)
            )
        };
        let mut both = std::pin::pin!(both);
        while lock.write_lock.contenders().await.expect("an answer").len() < 3 {
            assert!(timeout(Duration::from_millis(10), both.as_mut()).await.is_err());
        }
        blocker.release().await.expect("the end of the hold");
        let granted =
            timeout(Duration::from_secs(30), both).await.expect("the reader waits for its own writer");
        let (writer, reader) = (granted.0.expect("the write lock"), granted.1.expect("the read lock"));
        assert_eq!(reader.fencing_token(), writer.fencing_token());
        writer.release().await.expect("the end of writing");
        reader.check().expect("it reads on");
    });
}

#[test]
fn a_downgrade_keeps_the_token_and_admits_no_writer_in_between() {
    run(async {
        let server = server().await;
        let (one, other) = (client(&server.hosts()).await, client(&server.hosts()).await);
        let (one, other) =
            (ReadWriteLock::new(&one, "/l").unwrap(), ReadWriteLock::new(&other, "/l").unwrap());
        let owner = Owner::new();
        let writing = one.write_lock.acquire_as(&owner, Timeout::Forever).await.expect("the lock");
        let writer = other.write_lock.clone();
        let next_in_line = tokio::spawn(async move { writer.acquire().await });
        until_contenders(&one.read_lock, 2).await;
        let reading = one.read_lock.acquire_as(&owner, Timeout::Forever).await.expect("the lock");
        assert_eq!(reading.fencing_token(), writing.fencing_token());
        writing.release().await.expect("the end of the hold");
        let refused = one.write_lock.acquire_as(&owner, Timeout::Forever).await.expect_err("an upgrade");
        assert_eq!(refused.kind(), ErrorKind::UpgradeRefused);
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(!next_in_line.is_finished(), "a writer got in");
        reading.release().await.expect("the end of the hold");
        let next = next_in_line.await.expect("no panic").expect("the lock");
        assert!(next.fencing_token() > reading.fencing_token());
    });
}

/// A client behind a proxy. Its write lock was broken, but the client does not know that yet.
struct Broken {
    _server: Server,
    proxy: Proxy,
    lock: ReadWriteLock,
    owner: Owner,
    _writing: Lease,
    _other: Option<Lease>,
}

impl Broken {
    /// Tries to acquire the read lock for the owner of the broken write lock. Returns the result,
    /// and `true` if the client requested a downgrade. On a busy machine, the client might notice
    /// the broken lock before that.
    async fn try_to_read(&self) -> (Result<Lease, zklock::Error>, bool) {
        let tried = self.lock.read_lock.acquire_as(&self.owner, Timeout::Try).await;
        let in_place = |request: &super::proxy::Request| request.op == op::MULTI && request.names("__READ__");
        (tried, self.proxy.requests().iter().any(in_place))
    }

    /// Creates a writer whose lock was broken. If `taken` is `true`, another client has acquired
    /// the lock.
    async fn new(taken: bool) -> Self {
        let (server, proxy) = behind_proxy().await;
        let others = client(&server.hosts()).await;
        let options = options(&proxy.hosts).session_timeout(Duration::from_secs(60)).expect("a time-out");
        let lock = ReadWriteLock::new(Client::new(options), "/l").expect("a path");
        let (owner, other) = (Owner::new(), ReadWriteLock::new(&others, "/l").expect("a path"));
        let writing = lock.write_lock.acquire_as(&owner, Timeout::Forever).await.expect("the lock");
        others.break_lock(&writing.node()).await.expect("the node");
        let other = if taken { Some(other.write_lock.acquire().await.expect("the lock")) } else { None };
        Self { _server: server, proxy, lock, owner, _writing: writing, _other: other }
    }
}

#[test]
fn a_try_to_downgrade_a_broken_lock_is_refused_if_another_client_holds_it() {
    run(async {
        loop {
            let broken = Broken::new(true).await;
            let (tried, in_place) = broken.try_to_read().await;
            let refused = tried.expect_err("another one writes");
            assert_eq!(refused.kind(), ErrorKind::LockTimeout, "{refused}");
            if in_place {
                return;
            }
        }
    });
}

#[test]
fn a_try_to_downgrade_a_broken_lock_that_is_free_gets_the_read_lock() {
    run(async {
        loop {
            let broken = Broken::new(false).await;
            let (tried, in_place) = broken.try_to_read().await;
            drop(tried.expect("the lock is free"));
            if in_place {
                return;
            }
        }
    });
}

#[test]
fn a_try_to_downgrade_without_a_reply_fails_within_the_connect_timeout() {
    run(async {
        let (_server, proxy) = behind_proxy().await;
        let limit = Duration::from_millis(300);
        let options = options(&proxy.hosts).connect_timeout(limit).expect("a time-out");
        let lock = ReadWriteLock::new(Client::new(options), "/l").expect("a path");
        let owner = Owner::new();
        let writing = lock.write_lock.acquire_as(&owner, Timeout::Forever).await.expect("the lock");
        proxy.once(op::MULTI, RequestEffect::Wait);
        let tried = lock.read_lock.acquire_as(&owner, Timeout::Try).await;
        let refused = tried.expect_err("nobody answers");
        assert_eq!(refused.kind(), ErrorKind::ConnectionFailed, "{refused}");
        // The same for an acquire with its own deadline.
        let limited = lock.read_lock.acquire_as(&owner, limit).await.expect_err("nobody answers");
        assert_eq!(limited.kind(), ErrorKind::LockTimeout, "{limited}");
        proxy.open();
        drop(writing);
    });
}
