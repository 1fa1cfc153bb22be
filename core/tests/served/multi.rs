//! Several locks as one.

use std::pin::pin;
use std::time::Duration;

use tokio::time::timeout;
use zklock::{AnyLock, LeaseState, LockOptions, LossReason, MultiLock, Mutex};

use super::{client, hold, mutex, run, server};

#[test]
fn a_member_that_is_lost_at_the_moment_of_the_last_grant_is_not_returned() {
    run(async {
        let server = server().await;
        let (one, other) = (client(&server.hosts()).await, client(&server.hosts()).await);
        let (gate, blocker) = (hold(&other, "/gate").await, hold(&other, "/b").await);
        let (first, second) = (mutex(&one, "/a"), mutex(&one, "/b"));
        let members: [AnyLock; 2] = [(&first).into(), (&second).into()];
        let both = MultiLock::new(members).expect("two locks");
        let mut taking = pin!(both.acquire());
        while second.contenders().await.expect("an answer").len() < 2 {
            assert!(timeout(Duration::from_millis(10), taking.as_mut()).await.is_err());
        }
        // A node that is held for long is watched.
        assert!(timeout(Duration::from_millis(300), taking.as_mut()).await.is_err());
        let member = first.contenders().await.expect("an answer").remove(0).node;
        // Loss and grant are there when it looks.
        let broken = gate.transaction().delete(&member, None).delete(&blocker.node(), None).commit().await;
        broken.expect("both are gone");
        tokio::time::sleep(Duration::from_millis(100)).await;
        let leases = taking.await.expect("the locks");
        let states: Vec<_> = leases.iter().map(|lease| (lease.node(), lease.state())).collect();
        assert!(
            states.iter().all(|(node, state)| *state == LeaseState::Held && *node != member),
            "{states:?}"
        );
        assert_eq!(blocker.lost().await, LossReason::NodeDeleted);
    });
}

#[test]
fn a_try_of_locks_that_cannot_be_held_together_ends() {
    run(async {
        let server = server().await;
        let client = client(&server.hosts()).await;
        let briefly = LockOptions::default().max_hold(Duration::from_millis(20));
        let first = Mutex::with_options(&client, "/a", briefly).expect("a lock");
        let second = mutex(&client, "/b");
        let both = MultiLock::new([(&first).into(), (&second).into()]).expect("two locks");
        // The first is over before the second can be there.
        server.latency(Duration::from_millis(50)).await;
        let tried = timeout(Duration::from_secs(20), both.try_acquire()).await.expect("an end");
        assert!(tried.expect("an answer").is_none());
    });
}
