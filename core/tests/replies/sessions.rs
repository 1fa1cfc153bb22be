//! Tests of the change from one session of a client to its next session.

use std::pin::pin;
use std::time::Duration;

use zklock::{Client, ClientOptions, Election, ErrorKind, LossReason};

use super::server::{Answer, Op, Server};
use super::{DIRECTORY, TIMEOUT, block_on, client, hold, waits};

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
        // Wait until the client has given the session up. The test server keeps the session.
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

/// The server replies only to pings on the old connection, even after the session has ended
/// elsewhere.
#[test]
fn the_connection_of_a_session_that_was_given_up_is_closed() {
    let brief = Duration::from_millis(600);
    let server = Server::start(DIRECTORY, brief);
    block_on(async {
        let options = ClientOptions::new(Some(&server.hosts)).expect("hosts");
        let client = Client::new(options.session_timeout(brief).expect("a time-out"));
        client.ready().await.expect("a connection");
        let before = client.session_id();
        server.answer(move |request| match request.op {
            Op::Ping | Op::Close => Answer::Truth,
            _ if request.session == before => Answer::Silence,
            _ => Answer::Truth,
        });
        assert_ne!(hold(&client).await.session_id(), before);
        // Two connections must end: the connection of the session, which got no replies, and the
        // connection on which the client closed the session.
        server.await_ends(before, 2);
    });
}

/// The server replies only to pings, even on the connection on which the client closes the session
/// after giving it up.
#[test]
fn the_connection_on_which_a_session_was_being_closed_is_closed() {
    let brief = Duration::from_millis(600);
    let server = Server::start(DIRECTORY, brief);
    block_on(async {
        let options = ClientOptions::new(Some(&server.hosts)).expect("hosts");
        let client = Client::new(options.session_timeout(brief).expect("a time-out"));
        client.ready().await.expect("a connection");
        let before = client.session_id();
        server.answer(|request| if request.op == Op::Ping { Answer::Truth } else { Answer::Silence });
        let mut waiting = pin!(hold(&client));
        while !server.requests().iter().any(|request| request.op == Op::Close) {
            assert!(waits(waiting.as_mut(), Duration::from_millis(20)).await);
        }
        client.close().await.expect("closing never fails");
        // Two connections must end: the connection of the session that was given up, and the
        // connection on which the client was closing that session.
        server.await_ends(before, 2);
    });
}

/// When a session is given up, the client crate ends the task that owns its watches. Every task
/// that waits for a watch then panics.
#[test]
fn an_observer_of_an_election_continues_when_its_session_is_given_up() {
    let brief = Duration::from_millis(600);
    let server = Server::start(DIRECTORY, brief);
    block_on(async {
        let options = ClientOptions::new(Some(&server.hosts)).expect("hosts");
        let client = Client::new(options.session_timeout(brief).expect("a time-out"));
        let mut leaders = Election::new(&client, DIRECTORY).expect("a path").observe();
        assert_eq!(leaders.next().await.expect("an answer"), None);
        let watching = tokio::spawn(async move { leaders.next().await });
        let before = client.session_id();
        server.answer(move |request| match request.op {
            Op::Ping | Op::Close => Answer::Truth,
            _ if request.session == before => Answer::Silence,
            _ => Answer::Truth,
        });
        let lease = hold(&client).await;
        assert_ne!(lease.session_id(), before);
        let leader = watching.await.expect("no panic").expect("an answer");
        assert_eq!(leader.map(|leader| leader.node), Some(lease.node().clone()));
    });
}

/// The server replies only to pings. Because of these pings, the server would keep the session and
/// its nodes forever.
#[test]
fn the_connection_of_a_closed_client_is_closed() {
    let server = Server::start(DIRECTORY, TIMEOUT);
    block_on(async {
        let client = client(&server);
        client.ready().await.expect("a connection");
        let session = client.session_id();
        server.answer(|request| if request.op == Op::Ping { Answer::Truth } else { Answer::Silence });
        client.close().await.expect("closing never fails");
        server.await_ends(session, 1);
    });
}

/// The observer waits for a watch of the client crate. After the close, this watch gets no event.
#[test]
fn an_observer_gets_an_error_when_its_client_closes_without_a_reply() {
    let server = Server::start(DIRECTORY, TIMEOUT);
    block_on(async {
        let client = client(&server);
        let mut leaders = Election::new(&client, DIRECTORY).expect("a path").observe();
        assert_eq!(leaders.next().await.expect("an answer"), None);
        server.answer(|request| if request.op == Op::Ping { Answer::Truth } else { Answer::Silence });
        let (told, closed) = tokio::join!(leaders.next(), client.close());
        closed.expect("closing never fails");
        assert_eq!(told.expect_err("the client is closed").kind(), ErrorKind::ClientClosed);
    });
}

#[test]
fn a_session_that_a_server_replaced_in_silence_is_noticed_with_the_first_heartbeat() {
    let server = Server::start(DIRECTORY, TIMEOUT);
    block_on(async {
        let client = client(&server);
        let lease = hold(&client).await;
        // The nodes still exist, but belong to a session other than the client's.
        server.answer(|_| Answer::Foreign);
        let known = server.requests().len();
        server.cut();
        let lost = tokio::time::timeout(TIMEOUT / 3, lease.lost()).await;
        assert_eq!(lost, Ok(LossReason::SessionExpired));
        let beats = server.requests()[known..].iter().filter(|request| request.op == Op::Multi).count();
        assert_eq!(beats, 1);
        server.answer_truthfully();
        assert_ne!(hold(&client).await.session_id(), lease.session_id());
    });
}

#[test]
fn a_node_that_belongs_to_another_session_ends_this_session_immediately() {
    let server = Server::start(DIRECTORY, TIMEOUT);
    block_on(async {
        let client = client(&server);
        client.ready().await.expect("a connection");
        let before = client.session_id();
        server.answer(move |request| match request.op {
            Op::Create if request.session == before => Answer::Foreign,
            _ => Answer::Truth,
        });
        // The reply to the create has shown that the client has another session now, so the client
        // sends no more requests in the old session.
        let mut waiting = pin!(hold(&client));
        while client.session_id() == before {
            assert!(waits(waiting.as_mut(), Duration::from_millis(10)).await);
        }
        let asked = server.requests();
        let looked = |request: &&super::server::Request| {
            request.session == before && matches!(request.op, Op::Sync | Op::Exists)
        };
        assert_eq!(asked.iter().filter(looked).count(), 0);
        assert_eq!(
            asked.iter().filter(|request| request.op == Op::Create && request.session == before).count(),
            1
        );
        // The other session's node blocks until it is deleted.
        server.clear();
    });
}
