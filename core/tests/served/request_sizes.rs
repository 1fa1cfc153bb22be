//! Tests of requests with exactly the maximum size, and of larger ones.

use std::time::Duration;

use zklock::{Acl, Client, ErrorKind};

use super::proxy::{Request, op};
use super::{behind_proxy, client, hold, mutex, options, run};

/// Size of the largest request in bytes that a server accepts by default.
const LARGEST: usize = 0xf_ffff;

/// Returns rules that take 52,299 bytes in a request.
fn rules() -> Acl {
    let hashes = ["u", "v"].map(|user| format!("digest:{user}:{}:cdrwa", "h".repeat(26_118)));
    Acl::parse(&format!("world:anyone:cdrwa,{}", hashes.join(","))).expect("rules")
}

fn sizes(requests: &[Request], wanted: i32) -> Vec<usize> {
    requests.iter().filter(|request| request.op == wanted).map(|request| request.bytes.len()).collect()
}

#[test]
fn a_transaction_can_have_exactly_the_maximum_size() {
    run(async {
        let (_server, proxy) = behind_proxy().await;
        let client = client(&format!("{}/root", proxy.hosts)).await;
        let lease = hold(&client, "/l").await;
        lease.transaction().create("/v", b"").commit().await.expect("a node");
        let attempt = |filler: usize| {
            let made = lease.transaction().create("/long/path", &vec![b'x'; filler]);
            made.set_data("/v", b"some", None).check("/v", 1).delete("/v", None).commit()
        };
        let refused = attempt(LARGEST).await.expect_err("too large");
        assert_eq!(refused.kind(), ErrorKind::BadArgument, "{refused}");
        let said = refused.to_string();
        let size: usize = said.split(' ').find_map(|word| word.parse().ok()).expect("its size");
        let most = LARGEST - (size - LARGEST);
        assert_eq!(attempt(most + 1).await.expect_err("too large").kind(), ErrorKind::BadArgument);
        // The request is sent and the server reads it. It fails because the node's directory does
        // not exist.
        let failed = attempt(most).await.expect_err("no directory");
        assert_eq!(failed.kind(), ErrorKind::TransactionFailed, "{failed}");
        assert_eq!(sizes(&proxy.requests(), op::MULTI).last(), Some(&LARGEST));
    });
}

#[test]
fn contenders_are_read_in_as_few_requests_as_possible() {
    run(async {
        let (server, proxy) = behind_proxy().await;
        let (reader, operator) = (client(&proxy.hosts).await, client(&server.hosts()).await);
        let lock = format!("/{}", "d".repeat(800));
        drop(hold(&operator, &lock).await);
        // A request has 17 bytes, plus 14 bytes and the path for each node. The lengths of the
        // names are chosen so that 990 nodes fill a request exactly.
        let rest = LARGEST - 17 - 990 * (14 + lock.len() + 1);
        let name = |number: usize| {
            let long = rest / 990 + usize::from(number < rest % 990);
            let length = if number < 990 { long } else { 20 };
            format!("{lock}/_c_{}-lock-{number:010}", "x".repeat(length - 19))
        };
        let gate = hold(&operator, "/gate").await;
        for numbers in [0..500, 500..1000] {
            let all = numbers.fold(gate.transaction(), |all, number| all.create(&name(number), b"{}"));
            all.commit().await.expect("contenders");
        }
        let contenders = mutex(&reader, &lock).contenders().await.expect("an answer");
        let nodes: Vec<_> = contenders.into_iter().map(|contender| contender.node).collect();
        assert_eq!(nodes, (0..1000).map(name).collect::<Vec<_>>());
        let reads = sizes(&proxy.requests(), op::MULTI_READ);
        assert_eq!((reads.len(), reads[0]), (2, LARGEST));
    });
}

#[test]
fn directories_are_created_together_if_they_fit_into_a_request_and_else_one_by_one() {
    run(async {
        // The request creates 20 directories. It has 17 bytes, plus 25 bytes, the ACL (52,299
        // bytes) and the path for each directory. The first 19 paths have 380 bytes together.
        let last = LARGEST - 17 - 20 * (25 + 52_299) - 380;
        for (larger, together) in [(0, true), (1, false)] {
            let (_server, proxy) = behind_proxy().await;
            let options = options(&proxy.hosts).acl(rules()).parent_acl(rules());
            let client = Client::connect_with(options).await.expect("a server that answers");
            let path = format!("{}/{}", "/a".repeat(19), "x".repeat(last + larger - 39));
            let lease = mutex(&client, &path).acquire_within(Duration::from_secs(10)).await;
            drop(lease.expect("the lock"));
            let requests = proxy.requests();
            let multis = sizes(&requests, op::MULTI);
            assert_eq!(multis.contains(&LARGEST), together, "{multis:?}");
            let single = sizes(&requests, op::CREATE_CONTAINER).len();
            assert_eq!(single, if together { 0 } else { 20 });
        }
    });
}
