//! Tests of holders that are asked to give up a lock.

use std::pin::pin;
use std::time::Duration;

use tokio::time::timeout;
use zklock::{ErrorKind, LeaseState, LockOptions, LossReason, Mutex, ReadWriteLock, Semaphore};

use super::proxy::{RequestEffect, op};
use super::{behind_proxy, client, hold, mutex, run, server, until_contenders};

#[test]
fn a_revocation_reaches_only_the_owner_of_the_node() {
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
fn a_permit_can_be_revoked_or_broken_without_affecting_others() {
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

/// Waits until the node of a lock's first contender shows that an operator has asked for the lock.
/// Returns the contender's description.
async fn asked(lock: &Mutex) -> zklock::ContenderInfo {
    loop {
        let first = lock.contenders().await.expect("an answer").remove(0);
        if let Some(about) = first.about.filter(|about| about.revoked) {
            return about;
        }
        tokio::task::yield_now().await;
    }
}

#[test]
fn a_holder_that_is_asked_to_give_up_keeps_its_identity_in_its_node() {
    run(async {
        let server = server().await;
        let (client, operator) = (client(&server.hosts()).await, client(&server.hosts()).await);
        let labelled = |label| Mutex::with_options(&client, "/l", LockOptions::default().label(label));
        let first = labelled("first").expect("a label").acquire().await.expect("the lock");
        let second = labelled("second").expect("a label");
        let waiting = tokio::spawn(async move { second.acquire().await });
        let watched = mutex(&operator, "/l");
        until_contenders(&watched, 2).await;
        let nodes: Vec<_> = watched.contenders().await.expect("an answer");
        // Ask twice: the second request must also arrive, although the holder has restored its
        // node's data in the meantime.
        for _ in 0..2 {
            operator.revoke(&first.node()).await.expect("a node");
            timeout(Duration::from_secs(5), first.revoked()).await.expect("it is asked");
            let about = asked(&watched).await;
            assert_eq!((about.label.as_deref(), about.pid), (Some("first"), std::process::id()));
        }
        // A waiter that is asked for the lock receives the request when it is granted the lock.
        operator.revoke(&nodes[1].node).await.expect("a node");
        first.release().await.expect("the end of the hold");
        let second = waiting.await.expect("no panic").expect("the lock");
        timeout(Duration::from_secs(5), second.revoked()).await.expect("it is asked");
        assert_eq!(asked(&watched).await.label.as_deref(), Some("second"));
    });
}

#[test]
fn a_node_that_another_client_writes_meanwhile_keeps_that_data() {
    run(async {
        let (server, proxy) = behind_proxy().await;
        let (holder, operator) = (client(&proxy.hosts).await, client(&server.hosts()).await);
        let (lease, gate) = (hold(&holder, "/l").await, hold(&operator, "/gate").await);
        proxy.once(op::SET_DATA, RequestEffect::Wait);
        operator.revoke(&lease.node()).await.expect("a node");
        timeout(Duration::from_secs(5), lease.revoked()).await.expect("it is asked");
        proxy.saw(|request| request.op == op::SET_DATA).await;
        gate.transaction().set_data(&lease.node(), b"theirs", None).commit().await.expect("an answer");
        proxy.open();
        // The server executes the holder's requests in order.
        drop(hold(&holder, "/m").await);
        let first = mutex(&operator, "/l").contenders().await.expect("an answer").remove(0);
        assert_eq!(first.data, b"theirs");
    });
}
