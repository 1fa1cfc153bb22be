//! Readers and writers.

use std::time::Duration;

use tokio::time::timeout;
use zklock::{ErrorKind, Owner, Patience, ReadWriteLock};

use super::{client, run, server, until_contenders};

#[test]
fn readers_hold_together_a_writer_waits_for_them_and_a_later_reader_for_it() {
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
            "it reads beside the writer"
        );
        alone.release().await.expect("the end of the hold");
        drop(timeout(Duration::from_secs(5), reading).await.expect("its turn").expect("the lock"));
    });
}

#[test]
fn a_writer_that_goes_down_to_reading_keeps_its_token_and_lets_no_writer_in_between() {
    run(async {
        let server = server().await;
        let (one, other) = (client(&server.hosts()).await, client(&server.hosts()).await);
        let (one, other) =
            (ReadWriteLock::new(&one, "/l").unwrap(), ReadWriteLock::new(&other, "/l").unwrap());
        let owner = Owner::new();
        let writing = one.write_lock.acquire_as(owner, Patience::Forever).await.expect("the lock");
        let writer = other.write_lock.clone();
        let next_in_line = tokio::spawn(async move { writer.acquire().await });
        until_contenders(&one.read_lock, 2).await;
        let reading = one.read_lock.acquire_as(owner, Patience::Forever).await.expect("the lock");
        assert_eq!(reading.fencing_token(), writing.fencing_token());
        writing.release().await.expect("the end of the hold");
        let refused = one.write_lock.acquire_as(owner, Patience::Forever).await.expect_err("an upgrade");
        assert_eq!(refused.kind(), ErrorKind::UpgradeRefused);
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(!next_in_line.is_finished(), "a writer got in");
        reading.release().await.expect("the end of the hold");
        let next = next_in_line.await.expect("no panic").expect("the lock");
        assert!(next.fencing_token() > reading.fencing_token());
    });
}
