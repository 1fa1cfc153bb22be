//! Tests of a scope that loses its lock just before it ends.

use std::time::Duration;

use zklock::{ErrorKind, LossReason};

use super::{client, hold, mutex, run, server};

/// The server ended the session while the lock was held. The client can learn this while the body
/// runs, or only from the reply to its delete. The scope must fail with the same error in both
/// cases.
#[test]
fn a_scope_reports_an_ended_session_however_early_its_body_ends() {
    run(async {
        let server = server().await;
        for turn in 0..20 {
            // Use a new client for each iteration, because a client pauses between consecutive
            // sessions that end early.
            let (server, client) = (&server, client(&server.hosts()).await);
            let lock = mutex(&client, "/l");
            let outcome = lock.hold(|lease| async move {
                assert!(server.expire(lease.session_id()).await);
                for _ in 0..turn {
                    tokio::task::yield_now().await;
                }
            });
            let loss = outcome.await.expect_err("it was lost");
            assert_eq!(loss.kind(), ErrorKind::LockLost, "{loss}");
            assert_eq!(loss.loss_reason(), Some(LossReason::SessionExpired));
            assert_eq!(client.stats().losses, 1);
        }
    });
}

#[test]
fn a_scope_reports_a_deleted_node_however_early_its_body_ends() {
    run(async {
        let server = server().await;
        let (client, operator) = (client(&server.hosts()).await, client(&server.hosts()).await);
        for held in [0, 0, 0, 0, 0, 300] {
            let operator = &operator;
            let lock = mutex(&client, "/l");
            let outcome = lock.hold(|lease| async move {
                // During a long hold, the client watches the node and notices the deletion before
                // the release.
                tokio::time::sleep(Duration::from_millis(held)).await;
                operator.break_lock(&lease.node()).await.expect("an answer");
            });
            let loss = outcome.await.expect_err("it was lost");
            assert_eq!(
                (loss.kind(), loss.loss_reason()),
                (ErrorKind::LockLost, Some(LossReason::NodeDeleted))
            );
        }
    });
}

#[test]
fn a_lease_whose_session_was_ended_is_lost_after_its_release() {
    run(async {
        let server = server().await;
        let client = client(&server.hosts()).await;
        let lease = hold(&client, "/l").await;
        assert!(server.expire(lease.session_id()).await);
        lease.release().await.expect("a release does not fail");
        assert_eq!(lease.loss_reason(), Some(LossReason::SessionExpired));
        // Closing the client does not count as a loss of leases that were released earlier.
        let lease = hold(&client, "/l").await;
        lease.release_in_background().expect("the first release");
        client.close().await.expect("an end");
        assert_eq!(lease.loss_reason(), None);
    });
}
