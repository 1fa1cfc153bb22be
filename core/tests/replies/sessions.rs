//! One session after another.

use std::time::Duration;

use zklock::{Client, ClientOptions, LossReason};

use super::server::{Answer, Op, Server};
use super::{DIRECTORY, TIMEOUT, block_on, client, hold};

#[test]
fn a_session_that_was_given_up_is_closed_before_anyone_queues_in_the_next() {
    let brief = Duration::from_millis(600);
    let server = Server::start(DIRECTORY, brief);
    block_on(async {
        let options = ClientOptions::new(Some(&server.hosts)).expect("hosts");
        let client = Client::new(options.session_timeout(brief).expect("a time-out"));
        let lease = hold(&client).await;
        server.go_away();
        assert_eq!(lease.lost().await, LossReason::TermEnded);
        // The client gives the session up after seven fifths of its time-out; the server would keep it for ever.
        tokio::time::sleep(brief * 7 / 5).await;
        server.come_back();
        let again = hold(&client).await;
        assert_ne!(again.session_id(), lease.session_id());
        let requests = server.requests();
        let old = |request: &super::server::Request| request.session == lease.session_id();
        let closed = requests.iter().position(|request| old(request) && request.op == Op::Close);
        let created = requests.iter().position(|request| !old(request) && request.op == Op::Create);
        assert!(closed.is_some() && closed < created, "{closed:?}, {created:?}");
    });
}

#[test]
fn a_session_that_a_server_replaced_in_silence_is_noticed_with_the_first_heartbeat() {
    let server = Server::start(DIRECTORY, TIMEOUT);
    block_on(async {
        let client = client(&server);
        let lease = hold(&client).await;
        // The nodes are still there, but belong to nobody who asks.
        server.answer(|_| Answer::Foreign);
        server.cut();
        let lost = tokio::time::timeout(TIMEOUT / 3, lease.lost()).await;
        assert_eq!(lost, Ok(LossReason::SessionExpired));
        server.answer_truthfully();
        assert_ne!(hold(&client).await.session_id(), lease.session_id());
    });
}
