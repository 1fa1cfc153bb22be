//! Tests of backoff: if connections, sessions or requests keep failing early, the client retries
//! less and less often. Even so, calls complete within their timeouts.

use std::pin::pin;
use std::time::{Duration, Instant};

use zklock::{ClientOptions, ErrorKind, LeaseState, LockOptions, Mutex, Owner, Timeout};

use crate::server::{Answer, Op, Server, code};
use crate::{DIRECTORY, TIMEOUT, block_on, client, hold, mutex, waits};

/// Maximum number of connects per second, from the second second on.
const OFTEN: usize = 5;

/// Tries to acquire a lock while the server gives this reply to every request of this type. Returns
/// the times of the client's connects, and its number of creates.
fn besieged(op: Op, answer: Answer) -> (Vec<Duration>, usize) {
    let time = Duration::from_secs(4);
    let server = Server::start(DIRECTORY, TIMEOUT);
    server.answer(move |request| if request.op == op { answer } else { Answer::Truth });
    block_on(async {
        let client = client(&server);
        let began = Instant::now();
        let refused =
            mutex(&client).acquire_as(&Owner::new(), Timeout::For(time)).await.expect_err("no lock");
        let took = began.elapsed();
        assert_eq!(refused.kind(), ErrorKind::LockTimeout, "{refused}");
        assert!(took >= time && took < time + Duration::from_millis(700), "{took:?}");
        let creates = server.requests().iter().filter(|request| request.op == Op::Create).count();
        // The close does not wait until the backoff pause ends.
        let closing = Instant::now();
        client.close().await.expect("an end");
        let took = closing.elapsed();
        assert!(took < Duration::from_millis(500), "closing took {took:?}");
        let came: Vec<_> = server.greetings().iter().map(|at| *at - began).collect();
        server.answer_truthfully();
        server.clear();
        assert_eq!(hold(&crate::client(&server)).await.state(), LeaseState::Held);
        (came, creates)
    })
}

fn seldom(came: &[Duration]) {
    let first = Duration::from_secs(1);
    let later = came.iter().filter(|at| **at > first).count();
    let Some(last) = came.last() else { panic!("the client never came") };
    let seconds = usize::try_from(last.saturating_sub(first).as_secs()).expect("few") + 1;
    assert!(later <= OFTEN * seconds, "{} times, {came:?}", came.len());
    assert!(came.len() - later <= 20, "{} times in the first second", came.len() - later);
    // The first retry is fast, because a session may end for ordinary reasons.
    assert!(came.len() > 2 && came[2] < Duration::from_millis(700), "{came:?}");
}

#[test]
fn sessions_that_belong_to_others_from_the_start_are_sought_less_and_less_often() {
    seldom(&besieged(Op::Create, Answer::Foreign).0);
}

#[test]
fn sessions_that_expire_at_once_are_sought_less_and_less_often() {
    seldom(&besieged(Op::Create, Answer::Error(code::SESSION_EXPIRED)).0);
}

#[test]
fn a_create_that_ends_each_connection_is_repeated_less_and_less_often() {
    let (_, creates) = besieged(Op::Create, Answer::Close);
    assert!((2..=12).contains(&creates), "{creates} creates");
}

#[test]
fn a_create_that_fails_again_and_again_is_repeated_less_and_less_often() {
    for error in [code::THROTTLED, code::SESSION_MOVED] {
        // Listings succeed between the creates, but that does not reset the backoff of creates.
        let (came, creates) = besieged(Op::Create, Answer::Error(error));
        assert!((2..=12).contains(&creates), "{error}: {creates} creates");
        assert_eq!(came.len(), 1, "{error}: {came:?}");
    }
}

#[test]
fn a_node_that_is_nowhere_to_be_seen_is_looked_for_less_and_less_often() {
    let (came, creates) = besieged(Op::GetChildren, Answer::Nothing);
    assert!(creates <= 12, "{creates} creates");
    assert_eq!(came.len(), 1, "{came:?}");
}

#[test]
fn a_lock_is_granted_soon_after_a_storm() {
    let lies = [(Op::GetChildren, Answer::Nothing), (Op::Create, Answer::Error(code::THROTTLED))];
    for (op, lie) in lies {
        let server = Server::start(DIRECTORY, TIMEOUT);
        server.answer(move |request| if request.op == op { lie } else { Answer::Truth });
        block_on(async {
            let client = client(&server);
            let mut waiting = pin!(hold(&client));
            assert!(waits(waiting.as_mut(), Duration::from_secs(3)).await);
            // Delete the nodes that exist although the replies said otherwise.
            server.clear();
            server.answer_truthfully();
            let granted = tokio::time::timeout(Duration::from_secs(9), waiting).await;
            assert_eq!(granted.expect("the lock").state(), LeaseState::Held, "{op:?}");
        });
    }
}

#[test]
fn a_request_that_is_too_large_is_not_sent() {
    let server = Server::start(DIRECTORY, TIMEOUT);
    block_on(async {
        let client = client(&server);
        let lease = hold(&client).await;
        let options = LockOptions::default().label("x".repeat(1_100_000));
        let refused = match Mutex::with_options(&client, "/locks/b", options) {
            Ok(lock) => lock.acquire_as(&Owner::new(), Timeout::For(Duration::from_secs(1))).await.err(),
            Err(refused) => Some(refused),
        };
        assert_eq!(server.greetings().len(), 1, "the connection was lost");
        let refused = refused.expect("a refusal");
        assert_eq!(refused.to_string(), "label: is 1100000 bytes long; the limit is 1024 bytes");
        for (data, sum) in [(1_100_000, 1), (600_000, 2)] {
            let mut writes = lease.transaction();
            for _ in 0..sum {
                writes = writes.set_data("/x", &vec![0; data], None);
            }
            let refused = writes.commit().await.expect_err("a refusal");
            assert_eq!(refused.kind(), ErrorKind::BadArgument, "{refused}");
            assert!(refused.to_string().contains("the limit is 104"), "{refused}");
        }
        assert_eq!((server.greetings().len(), lease.state()), (1, LeaseState::Held));
    });
    let options = ClientOptions::new(Some(&server.hosts)).expect("hosts");
    assert!(options.auth("digest", vec![b'x'; 1_100_000]).is_err());
}
