//! Tests of the parent directories of a lock, on a server that does not support containers.

use std::time::Duration;

use super::proxy::{RequestEffect, code, op};
use super::{behind_proxy, brief_client, client, hold, run};

#[test]
fn directories_are_persistent_without_containers() {
    run(async {
        let (server, proxy) = behind_proxy().await;
        let client = client(&proxy.hosts).await;
        // Such a server refuses the whole transaction if the transaction creates a container.
        proxy.rule(|request| match request.op {
            op::CREATE_CONTAINER => RequestEffect::Refuse(code::UNIMPLEMENTED),
            op::MULTI if request.bytes[8..12] == op::CREATE_CONTAINER.to_be_bytes() => {
                RequestEffect::Refuse(code::UNIMPLEMENTED)
            }
            _ => RequestEffect::Pass,
        });
        let lease = hold(&client, "/a/b/c").await;
        let asked = |wanted: i32| proxy.requests().iter().filter(|request| request.op == wanted).count();
        assert_eq!(asked(op::CREATE_CONTAINER), 3, "each level was tried as a container");
        lease.release().await.expect("the end of the hold");
        // Existing directories cause no error either.
        hold(&client, "/a/b/d").await.release().await.expect("the end of the hold");
        drop(server);
    });
}

/// A stuck server replies only to pings. A contender that waits for its parent directories has no
/// node yet, so the client sends no other request.
#[test]
fn a_session_that_makes_no_directories_is_given_up() {
    run(async {
        let (server, proxy) = behind_proxy().await;
        let client = brief_client(&proxy.hosts, Duration::from_secs(2)).await;
        let first = client.session_id();
        proxy.once(op::MULTI, RequestEffect::Vanish);
        let lease = hold(&client, "/a/b").await;
        assert_ne!(lease.session_id(), first);
        drop(server);
    });
}
