//! Below a chroot, every path that the client accepts or reports is relative to the chroot.

use std::time::Duration;

use tokio::time::timeout;
use zklock::{ErrorKind, LockOptions, LossReason, Permits, Semaphore, Timeout};

use super::{client, hold, mutex, run, server, until_contenders};

#[test]
fn operator_calls_below_a_chroot_affect_only_that_lock() {
    run(async {
        let server = server().await;
        let whole = client(&server.hosts()).await;
        let below = client(&format!("{}/apps/one", server.hosts())).await;
        let lease = hold(&below, "/l").await;
        assert!(lease.node().starts_with("/l/"), "{}", lease.node());
        // The same path outside the chroot is another lock.
        let outside = hold(&whole, "/l").await;
        let asked = lease.revoked();
        below.revoke(&lease.node()).await.expect("a node");
        timeout(Duration::from_secs(5), asked).await.expect("the request");
        below.break_lock(&lease.node()).await.expect("a node");
        assert_eq!(lease.lost().await, LossReason::NodeDeleted);
        let gone = below.break_lock(&lease.node()).await.expect_err("nothing is there");
        assert_eq!(gone.kind(), ErrorKind::NotHeld);
        assert!(gone.to_string().contains(&format!("{:?}", lease.node())), "{gone}");
        outside.check().expect("it was not touched");
        // From the root, the node has its full path.
        let lease = hold(&below, "/l").await;
        until_contenders(&mutex(&whole, "/apps/one/l"), 1).await;
        whole.break_lock(&format!("/apps/one{}", lease.node())).await.expect("a node");
        assert_eq!(lease.lost().await, LossReason::NodeDeleted);
    });
}

#[test]
fn a_shared_count_below_a_chroot_is_there_and_nowhere_else() {
    run(async {
        let server = server().await;
        let whole = client(&server.hosts()).await;
        let below = client(&format!("{}/apps/one", server.hosts())).await;
        below.set_shared_count("/counts/n", 1).await.expect("a number");
        assert_eq!(whole.get("/counts/n").await.expect("an answer"), None);
        let seen = whole.get("/apps/one/counts/n").await.expect("an answer").expect("a node");
        assert_eq!(below.get("/counts/n").await.expect("an answer").as_ref(), Some(&seen));
        assert_eq!((seen.data.as_slice(), seen.version), ([0, 0, 0, 1].as_slice(), 0));
        let permits = Permits::SharedCount("/counts/n".to_owned());
        let semaphore =
            Semaphore::with_options(&below, "/s", permits, LockOptions::default()).expect("a path");
        let first = semaphore.acquire().await.expect("the permit");
        let other = semaphore.clone();
        let waiting = tokio::spawn(async move { other.acquire_with(Timeout::Forever).await });
        while semaphore.contenders().await.expect("an answer").len() < 2 {
            tokio::task::yield_now().await;
        }
        below.set_shared_count("/counts/n", 2).await.expect("a number");
        let second = waiting.await.expect("no panic").expect("the other permit");
        assert!(second.node().starts_with("/s/leases/") && first.check().is_ok());
    });
}
