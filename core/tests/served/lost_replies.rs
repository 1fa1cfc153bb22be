//! Tests of a create that was executed, but whose reply was lost.

use super::proxy::{RequestEffect, op};
use super::{behind_proxy, client, hold, mutex, run};

#[test]
fn after_a_lost_reply_only_a_listing_behind_a_sync_decides() {
    run(async {
        let (_server, proxy) = behind_proxy().await;
        let client = client(&proxy.hosts).await;
        hold(&client, "/l").await.release().await.expect("the end of the hold");
        let known = proxy.requests().len();
        proxy.once(op::CREATE, RequestEffect::LoseReply);
        let lease = hold(&client, "/l").await;
        let asked: Vec<_> = proxy.requests()[known..].iter().map(|request| request.op).collect();
        let synced = asked.iter().position(|op| *op == op::SYNC).expect("a sync");
        assert!(asked[synced..].contains(&op::LIST), "{asked:?}");
        assert_eq!(asked.iter().filter(|op| **op == op::CREATE).count(), 1, "{asked:?}");
        let contenders = mutex(&client, "/l").contenders().await.expect("an answer");
        assert_eq!(contenders.len(), 1);
        assert_eq!(contenders[0].node, lease.node());
    });
}
