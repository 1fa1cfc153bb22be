//! Tests of replies that no correct server sends. Such a reply costs a connection or a request, but
//! does not crash the process.

use super::server::{Answer, Op, Server};
use super::{DIRECTORY, TIMEOUT, block_on, client, hold, mutex};
use std::pin::pin;
use std::time::Duration;
use zklock::{Client, ClientOptions, ErrorKind, Mutex};

/// Without a check, the client crate would reserve memory for as many names as the list announces:
/// 51 GB for this reply of 24 bytes.
#[test]
fn a_list_that_announces_more_than_it_has_ends_the_connection() {
    let server = Server::start(DIRECTORY, TIMEOUT);
    block_on(async {
        let client = client(&server);
        client.ready().await.expect("a connection");
        server.answer(|request| match request.op {
            Op::GetChildren => Answer::Number(i32::MAX),
            _ => Answer::Truth,
        });
        let mut waiting = pin!(hold(&client));
        assert!(super::waits(waiting.as_mut(), Duration::from_millis(500)).await);
        server.answer_truthfully();
        drop(waiting.await);
    });
}

/// Makes the server send this reply to each listing, and returns the error of an acquire. Then
/// checks that the client can acquire another lock.
fn listed(answer: Answer, max_frame: u32) -> String {
    let server = Server::start(DIRECTORY, TIMEOUT);
    block_on(async {
        let options = ClientOptions::new(Some(&server.hosts)).expect("hosts");
        let options = options.session_timeout(TIMEOUT).expect("a time-out");
        let client = Client::new(options.max_frame(max_frame).expect("a limit"));
        client.ready().await.expect("a connection");
        let session = client.session_id();
        server.answer(move |request| if request.op == Op::GetChildren { answer } else { Answer::Truth });
        let lock = Mutex::new(&client, DIRECTORY).expect("a path");
        let refused = lock.acquire().await.expect_err("a refusal");
        assert_eq!(refused.kind(), ErrorKind::BadArgument);
        assert_eq!(lock.locked().await.expect_err("a refusal").to_string(), refused.to_string());
        server.answer_truthfully();
        // The connection was kept: the client sent no request twice.
        let listings = server.requests().iter().filter(|request| request.op == Op::GetChildren).count();
        assert_eq!(listings, 2);
        let lease = hold(&client).await;
        assert_eq!(lease.session_id(), session);
        refused.to_string()
    })
}

#[test]
fn a_directory_that_is_too_large_to_list_cannot_be_locked_and_the_error_says_so() {
    let why = listed(Answer::Zeros(1 << 20), 64 << 10);
    assert!(why.contains(DIRECTORY) && why.contains("1025 KiB") && why.contains("64 KiB"), "{why}");
    let why = listed(Answer::Names(300_000), 16 << 20);
    assert!(why.contains(DIRECTORY) && why.contains("300000 names") && why.contains("65536 names"), "{why}");
}

#[test]
fn a_frame_above_the_default_limit_is_not_kept() {
    let why = listed(Answer::Zeros(20 << 20), 16 << 20);
    assert!(why.contains("20481 KiB") && why.contains("16384 KiB"), "{why}");
}

#[test]
fn the_result_of_a_write_with_an_oversized_reply_is_unknown() {
    let server = Server::start(DIRECTORY, TIMEOUT);
    block_on(async {
        let client = client(&server);
        client.ready().await.expect("a connection");
        let mut lies = 1;
        server.answer(move |request| match request.op {
            Op::Create if lies > 0 => {
                lies -= 1;
                Answer::Zeros(1 << 20)
            }
            _ => Answer::Truth,
        });
        // The client looks for its node and creates another one.
        drop(hold(&client).await);
        assert!(server.requests().iter().any(|request| request.op == Op::Sync));
    });
}

/// Returns the error of a login if the server replies with this token.
fn challenged(token: Option<&'static str>) -> (ErrorKind, String) {
    refused(Answer::Token(token))
}

/// Returns the error of a login with this reply.
fn refused(answer: Answer) -> (ErrorKind, String) {
    let server = Server::start(DIRECTORY, TIMEOUT);
    server.answer(move |request| if request.op == Op::Sasl { answer } else { Answer::Truth });
    block_on(async {
        let options = ClientOptions::new(Some(&server.hosts)).expect("hosts");
        let options = options.connect_timeout(Duration::from_secs(1)).expect("a time-out");
        let client = Client::new(options.sasl("user", "password").expect("a login"));
        let refused = client.ready().await.expect_err("a refusal");
        // The thread that all clients share still works.
        server.answer_truthfully();
        let other = ClientOptions::new(Some(&server.hosts)).expect("hosts");
        drop(mutex(&Client::new(other)).acquire().await.expect("the lock"));
        (refused.kind(), refused.to_string())
    })
}

/// The parser in `zookeeper-client` would loop forever on the first challenge and panic on the
/// second, so the transport refuses both.
#[test]
fn a_challenge_that_no_server_sends_is_refused() {
    for lie in [r#"realm="\x\y",nonce="n",charset=utf-8,algorithm=md5-sess"#, r#"realm="\é""#] {
        // If the connect timeout ends while the client is still connecting, the error has no reason
        // yet. So try several times.
        let all: Vec<_> = (0..3).map(|_| challenged(Some(lie))).collect();
        assert!(all.iter().all(|(kind, _)| *kind == ErrorKind::ConnectionFailed), "{all:?}");
        assert!(all.iter().any(|(_, why)| why.contains("SASL")), "{all:?}");
    }
}

#[test]
fn a_server_that_skips_a_login_is_not_used() {
    let (kind, _) = challenged(None);
    assert_eq!(kind, ErrorKind::AuthFailed);
}

/// ZooKeeper 3.9.6 refuses an unknown mechanism with AUTHFAILED, or with -124 if it requires a
/// login from every client. Older servers, and servers with `allowSaslFailedClients`, reply without
/// a token.
#[test]
fn a_server_that_refuses_the_mechanism_is_named_with_the_way_out() {
    for answer in [Answer::Error(-115), Answer::Error(-124), Answer::Token(None)] {
        let (kind, why) = refused(answer);
        assert_eq!(kind, ErrorKind::AuthFailed, "{answer:?}: {why}");
        for words in ["FIPS mode", "`digest`", "certificate"] {
            assert!(why.contains(words), "{answer:?}: {why}");
        }
    }
}
