//! Tests with nodes of other clients that may be listed, but not read.

use std::time::Duration;

use tokio::time::timeout;
use zklock::{Acl, Client, ErrorKind, LeaseState, LossReason, RequestKind};

use super::proxy::{RequestEffect, code, op};
use super::{behind_proxy, client, hold, mutex, options, run, server, until_contenders};

#[test]
fn a_node_that_may_not_be_read_is_watched_where_the_server_permits_that() {
    run(async {
        let (server, proxy) = behind_proxy().await;
        let (holder, waiter) = (client(&server.hosts()).await, client(&proxy.hosts).await);
        let lease = hold(&holder, "/l").await;
        // Older servers allow every client to request the Stat of a node and to watch its deletion.
        proxy.rule(|request| match request.op {
            op::GET_DATA if request.names("/l/") => RequestEffect::Refuse(code::NO_AUTH),
            _ => RequestEffect::Pass,
        });
        let lock = mutex(&waiter, "/l");
        let waiting = tokio::spawn(async move { lock.acquire().await });
        proxy.saw(|request| request.op == op::EXISTS && request.names(&lease.node())).await;
        lease.release().await.expect("the end of the hold");
        let granted = timeout(Duration::from_secs(5), waiting).await.expect("the event");
        drop(granted.expect("no panic").expect("the lock"));
    });
}

#[test]
fn a_waiter_that_cannot_stat_its_predecessor_gets_an_error_and_leaves_no_node() {
    run(async {
        let server = server().await;
        let waiter = client(&server.hosts()).await;
        // Every client may use the directory.
        drop(hold(&waiter, "/l").await);
        let secretive =
            options(&server.hosts()).auth("digest", "a:a").expect("credentials").acl(Acl::Creator);
        let holder = Client::connect_with(secretive).await.expect("a server that answers");
        let lease = hold(&holder, "/l").await;
        let refused = mutex(&waiter, "/l").acquire().await.expect_err("a refusal");
        assert_eq!(refused.kind(), ErrorKind::AuthFailed, "{refused}");
        assert_eq!(waiter.stats().busy, 0, "it is not refused because the lock is taken");
        assert!(refused.to_string().contains("\"/l\""), "{refused}");
        until_contenders(&mutex(&holder, "/l"), 1).await;
        lease.check().expect("it is held");
    });
}

#[test]
fn a_private_lock_leaves_its_directory_usable_for_other_clients() {
    run(async {
        let server = server().await;
        let other = client(&server.hosts()).await;
        let ours = options(&server.hosts()).auth("digest", "a:a").expect("credentials").acl(Acl::Creator);
        let ours = Client::connect_with(ours).await.expect("a server that answers");
        let lease = hold(&ours, "/a/b").await;
        drop(hold(&other, "/a/c").await);
        let refused = mutex(&other, "/a/b").acquire().await.expect_err("a refusal");
        assert_eq!(refused.kind(), ErrorKind::AuthFailed, "{refused}");
        lease.check().expect("it is held");
    });
}

#[test]
fn a_holder_without_read_permission_keeps_its_locks_and_learns_of_broken_ones() {
    run(async {
        let (server, proxy) = behind_proxy().await;
        let operator = client(&server.hosts()).await;
        // Newer servers refuse a watch too, so only the heartbeat can find a broken lock.
        proxy.rule(|request| match request.op {
            op::EXISTS => RequestEffect::Refuse(code::NO_AUTH),
            _ => RequestEffect::Pass,
        });
        // Every client may use and list the directories.
        let paths = ["/a", "/b", "/c"];
        for path in paths {
            drop(hold(&operator, path).await);
        }
        let options = options(&proxy.hosts).session_timeout(Duration::from_secs(4)).expect("a time-out");
        let blindfolded = options.acl(Acl::parse("world:anyone:cdwa").expect("rules"));
        let holder = Client::connect_with(blindfolded).await.expect("a server that answers");
        let mut leases = Vec::new();
        for path in paths {
            leases.push(hold(&holder, path).await);
        }
        let beats = || holder.stats().requests.get(&RequestKind::Heartbeat).copied().unwrap_or_default();
        // After each heartbeat, the client reads the nodes that the heartbeat did not check. If
        // these replies did not extend the leases, the leases would be lost within nine heartbeats.
        while beats() < 18 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(leases.iter().map(zklock::Lease::state).collect::<Vec<_>>(), [LeaseState::Held; 3]);
        for lease in leases.iter().rev() {
            operator.break_lock(&lease.node()).await.expect("the node is deleted");
            let lost = timeout(Duration::from_secs(20), lease.lost()).await;
            assert_eq!(lost, Ok(LossReason::NodeDeleted));
        }
        // The client requested the data and the Stat of each lease's node once.
        assert!(holder.stats().requests[&RequestKind::Watch] <= 6);
    });
}
