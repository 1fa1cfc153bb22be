//! Tests of a directory whose sequence counter is at its end.

use zklock::ErrorKind;

use super::{behind_proxy, client, hold, mutex, run};

#[test]
fn an_exhausted_counter_refuses_contenders_and_leaves_no_node() {
    run(async {
        let (server, proxy) = behind_proxy().await;
        let (client, operator) = (client(&proxy.hosts).await, client(&server.hosts()).await);
        // Simulate a directory in which two billion nodes were created.
        proxy.rename("lock-0000000000", "lock-2147483647");
        let refused = mutex(&client, "/l").acquire().await.expect_err("a refusal");
        assert_eq!(refused.kind(), ErrorKind::SequenceExhausted, "{refused}");
        assert!(refused.to_string().contains("/l"), "{refused}");
        super::until_contenders(&mutex(&operator, "/l"), 0).await;
        // The acquire is also refused if another client's node has this sequence number.
        proxy.rename("lock-0000000001", "lock-2147483647");
        let theirs = hold(&operator, "/l").await;
        let refused = mutex(&client, "/l").acquire().await.expect_err("a refusal");
        assert_eq!(refused.kind(), ErrorKind::SequenceExhausted, "{refused}");
        super::until_contenders(&mutex(&operator, "/l"), 1).await;
        theirs.check().expect("it is left alone");
        // Another directory is not affected.
        drop(hold(&client, "/other/x").await);
    });
}
