//! Who is asked to give up a lock, and who is not.

use std::pin::pin;
use std::time::Duration;

use tokio::time::timeout;
use zklock::{ErrorKind, LeaseState, LossReason, ReadWriteLock, Semaphore};

use super::{client, run, server};

#[test]
fn of_several_holders_of_one_client_only_the_one_that_is_meant_is_asked() {
    run(async {
        let server = server().await;
        let client = client(&server.hosts()).await;
        let lock = ReadWriteLock::new(&client, "/l").expect("a path").read_lock;
        let mut readers = Vec::new();
        for _ in 0..3 {
            readers.push(lock.acquire().await.expect("the lock"));
        }
        let mut asked: Vec<_> = readers.iter().map(|reader| Box::pin(reader.revoked())).collect();
        client.revoke(&readers[1].node()).await.expect("a node");
        timeout(Duration::from_secs(5), asked[1].as_mut()).await.expect("the one that is meant");
        for (index, asked) in asked.iter_mut().enumerate().filter(|(index, _)| *index != 1) {
            assert!(timeout(Duration::from_millis(50), asked).await.is_err(), "reader {index} was asked");
        }
        assert!(readers.iter().all(|reader| reader.state() == LeaseState::Held));
    });
}

#[test]
fn of_several_permits_only_the_one_that_is_meant_is_asked_or_broken() {
    run(async {
        let server = server().await;
        let client = client(&server.hosts()).await;
        let semaphore = Semaphore::new(&client, "/s", 3).expect("a path");
        let permits = semaphore.acquire_many(3, Duration::from_secs(5)).await.expect("the permits");
        let mut others = [Box::pin(permits[0].revoked()), Box::pin(permits[1].revoked())];
        let mut meant = pin!(permits[2].revoked());
        client.revoke(&permits[2].node()).await.expect("a node");
        timeout(Duration::from_secs(5), meant.as_mut()).await.expect("the one that is meant");
        for other in &mut others {
            assert!(timeout(Duration::from_millis(50), other).await.is_err());
        }
        client.break_lock(&permits[1].node()).await.expect("a node");
        assert_eq!(permits.lost().await, (1, LossReason::NodeDeleted));
        assert_eq!(permits[0].state(), LeaseState::Held);
        let gone = client.break_lock(&permits[1].node()).await.expect_err("nothing is there");
        assert_eq!(gone.kind(), ErrorKind::NotHeld);
    });
}
