//! Tests of the client's reads and writes of nodes that are not locks, with lost replies and
//! concurrent changes.

use std::pin::pin;
use std::time::Duration;

use tokio::time::timeout;
use zklock::internal::{list, look};
use zklock::{Client, ErrorKind};

use super::proxy::{RequestEffect, code, op};
use super::{behind_proxy, client, hold, run, server};

async fn number(client: &Client) -> Option<Vec<u8>> {
    client.get("/n").await.expect("an answer").map(|node| node.data)
}

#[test]
fn a_question_whose_answer_is_lost_is_asked_again() {
    run(async {
        let (_server, proxy) = behind_proxy().await;
        let client = client(&proxy.hosts).await;
        client.set_shared_count("/n", 7).await.expect("a number");
        proxy.once(op::GET_DATA, RequestEffect::LoseReply);
        assert_eq!(number(&client).await, Some(vec![0, 0, 0, 7]));
        let asked = proxy.requests().iter().filter(|request| request.op == op::GET_DATA).count();
        assert_eq!(asked, 2);
    });
}

#[test]
fn setting_a_number_without_an_acknowledgement_is_an_error() {
    run(async {
        let (server, proxy) = behind_proxy().await;
        let (client, operator) = (client(&proxy.hosts).await, client(&server.hosts()).await);
        client.set_shared_count("/n", 7).await.expect("a number");
        proxy.once(op::SET_DATA, RequestEffect::LoseReply);
        let unknown = client.set_shared_count("/n", 8).await.expect_err("no answer came");
        assert_eq!(unknown.kind(), ErrorKind::ConnectionFailed, "{unknown}");
        assert_eq!(number(&operator).await, Some(vec![0, 0, 0, 8]));
        // The client did not repeat the write, because another client could have set the number
        // since then.
        let writes = proxy.requests().iter().filter(|request| request.op == op::SET_DATA).count();
        assert_eq!(writes, 2, "one to find that there is no node, and one that was lost");
        client.set_shared_count("/n", 9).await.expect("a number");
        assert_eq!(number(&operator).await, Some(vec![0, 0, 0, 9]));
    });
}

#[test]
fn a_canceled_call_does_not_change_the_client() {
    run(async {
        let (_server, proxy) = behind_proxy().await;
        let client = client(&proxy.hosts).await;
        client.set_shared_count("/n", 7).await.expect("a number");
        let lease = hold(&client, "/l").await;
        let mut waits = 0;
        proxy.rule(move |request| {
            let waits_here = matches!(request.op, op::GET_DATA | op::SET_DATA) && request.names("/n");
            waits += i32::from(waits_here);
            if waits_here && waits <= 1 { RequestEffect::Wait } else { RequestEffect::Pass }
        });
        {
            let mut reading = pin!(client.get("/n"));
            let mut writing = pin!(client.set_shared_count("/n", 8));
            let soon = Duration::from_millis(50);
            assert!(timeout(soon, reading.as_mut()).await.is_err());
            assert!(timeout(soon, writing.as_mut()).await.is_err());
        }
        proxy.open();
        // The server executes the cancelled write first.
        client.set_shared_count("/n", 9).await.expect("a number");
        assert_eq!(number(&client).await, Some(vec![0, 0, 0, 9]));
        lease.check().expect("it is held");
        lease.release().await.expect("the end of the hold");
    });
}

#[test]
fn a_number_is_set_although_its_node_is_deleted_and_recreated_meanwhile() {
    run(async {
        let (server, proxy) = behind_proxy().await;
        let (client, operator) = (client(&proxy.hosts).await, client(&server.hosts()).await);
        operator.set_shared_count("/n", 7).await.expect("a number");
        // The write finds no node, but the create that follows finds that the node exists.
        proxy.once(op::SET_DATA, RequestEffect::Refuse(code::NO_NODE));
        client.set_shared_count("/n", 8).await.expect("a number");
        assert_eq!(number(&operator).await, Some(vec![0, 0, 0, 8]));
        // Now the opposite case: the node exists at first, but an operator deletes it before the
        // write reaches the server.
        let known = proxy.requests().len();
        proxy.once(op::SET_DATA, RequestEffect::Wait);
        let setting = {
            let client = client.clone();
            tokio::spawn(async move { client.set_shared_count("/n", 9).await })
        };
        while proxy.requests().len() == known {
            tokio::task::yield_now().await;
        }
        let gate = hold(&operator, "/gate").await;
        gate.transaction().delete("/n", None).commit().await.expect("it is gone");
        proxy.open();
        setting.await.expect("no panic").expect("a number");
        assert_eq!(number(&operator).await, Some(vec![0, 0, 0, 9]));
    });
}

#[test]
fn a_node_is_read_with_the_session_that_it_ends_with() {
    run(async {
        let server = server().await;
        let client = client(&server.hosts()).await;
        assert!(look(&client, "/l").await.expect("an answer").is_none(), "there is no node yet");
        let lease = hold(&client, "/l").await;
        let directory = look(&client, "/l").await.expect("an answer").expect("the directory");
        assert_eq!(directory.session_id, 0);
        let node = look(&client, &lease.node()).await.expect("an answer").expect("the node");
        assert_eq!((node.session_id, node.czxid), (lease.session_id(), lease.fencing_token()));
        assert!(node.created > 0 && !node.data.is_empty());
        let listing = list(&client, "/l").await.expect("an answer").expect("the directory");
        assert_eq!((listing.names.len(), listing.czxid), (1, directory.czxid));
        assert!(list(&client, "/none").await.expect("an answer").is_none());
    });
}
