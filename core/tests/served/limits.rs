//! A limit of the hold that runs out while nobody can be told.

use std::time::Duration;

use zklock::{LeaseState, LockOptions, LossReason, Mutex};

use super::{behind_proxy, client, hold, run};

#[test]
fn a_hold_that_lasts_too_long_while_the_client_is_disconnected_is_lost_then_and_free_afterwards() {
    run(async {
        let (server, proxy) = behind_proxy().await;
        let (holder, next) = (client(&proxy.hosts).await, client(&server.hosts()).await);
        let limited = LockOptions::default().max_hold(Duration::from_millis(300));
        let lock = Mutex::with_options(&holder, "/l", limited).expect("a limit");
        let lease = lock.acquire().await.expect("the lock");
        let session = lease.session_id();
        let waiting = tokio::spawn(async move { hold(&next, "/l").await });
        proxy.cut(false);
        assert_eq!(lease.lost().await, LossReason::HeldTooLong);
        assert_eq!(lease.state(), LeaseState::Lost(LossReason::HeldTooLong));
        assert!(!waiting.is_finished(), "its node is still there");
        proxy.come_back();
        // Its session has not ended.
        drop(waiting.await.expect("the lock"));
        assert_eq!(holder.session_id(), session);
    });
}
