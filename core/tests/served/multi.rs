//! Several locks as one.

use zklock::{AnyLock, LeaseState, LossReason, MultiLock};

use super::{client, hold, mutex, run, server, until_contenders};

#[test]
fn a_member_that_is_lost_at_the_moment_of_the_last_grant_is_not_returned() {
    run(async {
        let server = server().await;
        let (one, other) = (client(&server.hosts()).await, client(&server.hosts()).await);
        let (gate, blocker) = (hold(&other, "/gate").await, hold(&other, "/b").await);
        let (first, second) = (mutex(&one, "/a"), mutex(&one, "/b"));
        let members: [AnyLock; 2] = [(&first).into(), (&second).into()];
        let both = MultiLock::new(members).expect("two locks");
        let taking = tokio::spawn(async move { both.acquire().await });
        until_contenders(&second, 2).await;
        // A node that is held for long is watched.
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        let member = first.contenders().await.expect("an answer").remove(0).node;
        // Both go in one transaction: the events come together.
        let broken = gate.transaction().delete(&member, None).delete(&blocker.node(), None).commit().await;
        broken.expect("both are gone");
        let leases = taking.await.expect("no panic").expect("the locks");
        let states: Vec<_> = leases.iter().map(|lease| (lease.node(), lease.state())).collect();
        assert!(
            states.iter().all(|(node, state)| *state == LeaseState::Held && *node != member),
            "{states:?}"
        );
        assert_eq!(blocker.lost().await, LossReason::NodeDeleted);
    });
}
