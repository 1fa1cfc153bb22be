//! Tests of heartbeats: which replies extend the term, and how often the client sends heartbeats.

use std::time::Duration;

use zklock::{ClientState, Lease, LeaseState, LossReason, ReadWriteLock};

use super::server::{Answer, Op, Server, code};
use super::{DIRECTORY, TIMEOUT, becomes, block_on, client, hold};

#[test]
fn a_heartbeat_that_is_answered_late_proves_the_moment_at_which_it_was_sent() {
    let late = TIMEOUT / 8;
    let server = Server::start(DIRECTORY, TIMEOUT);
    block_on(async {
        let client = client(&server);
        let lease = hold(&client).await;
        server
            .answer(move |request| if request.op == Op::Multi { Answer::Late(late) } else { Answer::Truth });
        let mut left = lease.remaining();
        let extended = loop {
            tokio::time::sleep(Duration::from_millis(5)).await;
            let before = std::mem::replace(&mut left, lease.remaining());
            if left > before {
                break left;
            }
        };
        assert!(
            extended + late <= TIMEOUT / 2,
            "{extended:?} are left as if it had been sent when it was answered"
        );
    });
}

#[test]
fn a_holder_proves_the_session_every_sixth_of_its_timeout() {
    let server = Server::start(DIRECTORY, TIMEOUT);
    block_on(async {
        let client = client(&server);
        let lease = hold(&client).await;
        let known = server.requests();
        let created = known.iter().find(|request| request.op == Op::Create).expect("a node").at;
        let wait = {
            let server = &server;
            move |known| server.await_request(known, |request| request.op == Op::Multi)
        };
        let first = wait(known.len());
        let known = server.requests().iter().position(|request| request.at == first.at).expect("it came") + 1;
        let second = wait(known);
        for pause in [first.at - created, second.at - first.at] {
            assert!(pause > TIMEOUT / 9 && pause < TIMEOUT * 5 / 18, "{pause:?}");
        }
        lease.check().expect("it is held");
    });
}

#[test]
fn a_delete_proves_nothing_on_a_connection_that_may_be_another_session_s() {
    let server = Server::start(DIRECTORY, TIMEOUT);
    block_on(async {
        let client = client(&server);
        let lock = ReadWriteLock::new(&client, DIRECTORY).expect("a path").read_lock;
        let leaving = lock.acquire().await.expect("the lock");
        let staying = lock.acquire().await.expect("the lock");
        // A successful delete does not show that the session is alive: a server that gave the
        // client another session would execute it too.
        server.answer(|request| match request.op {
            Op::Multi => Answer::Error(code::THROTTLED),
            _ => Answer::Truth,
        });
        let known = server.requests().len();
        server.cut();
        server.await_request(known, |request| request.op == Op::Multi);
        leaving.release().await.expect("the end of the hold");
        let deleted = |request: &super::server::Request| request.op == Op::Delete;
        server.await_request(known, deleted);
        assert_eq!(staying.state(), LeaseState::Suspended);
        tokio::time::sleep(TIMEOUT / 30).await;
        assert_eq!(staying.state(), LeaseState::Suspended);
        server.answer_truthfully();
        becomes(&staying, LeaseState::Held).await;
    });
}

#[test]
fn a_lock_was_not_broken_because_a_session_that_may_be_another_does_not_find_its_node() {
    let server = Server::start(DIRECTORY, TIMEOUT);
    block_on(async {
        let client = client(&server);
        let lease = hold(&client).await;
        // Imitate a lagging server that does not have the node, and that might have given the
        // client another session.
        server.answer(|request| match request.op {
            Op::Multi => Answer::Error(code::THROTTLED),
            Op::Delete => Answer::Error(code::NO_NODE),
            _ => Answer::Truth,
        });
        let known = server.requests().len();
        server.cut();
        server.await_request(known, |request| request.op == Op::Multi);
        lease.release().await.expect("the end of the hold");
        server.await_request(known, |request| request.op == Op::Delete);
        assert_eq!((lease.state(), client.stats().losses), (LeaseState::Released, 0));
    });
}

#[test]
fn a_heartbeat_that_may_not_read_a_node_proves_the_session() {
    let server = Server::start(DIRECTORY, TIMEOUT);
    block_on(async {
        let client = client(&server);
        let lease = hold(&client).await;
        server.answer(|request| match request.op {
            Op::Multi => Answer::FirstFailed(code::NO_AUTH),
            _ => Answer::Truth,
        });
        // Later heartbeats extend the time for which the session is certain to exist.
        for _ in 0..2 {
            let mut left = lease.remaining();
            while lease.remaining() <= left {
                left = lease.remaining();
                assert_eq!(lease.loss_reason(), None);
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
        assert_eq!(lease.state(), LeaseState::Held);
    });
}

#[test]
fn a_heartbeat_that_finds_no_node_extends_no_term() {
    let server = Server::start(DIRECTORY, TIMEOUT);
    block_on(async {
        let client = client(&server);
        let lock = ReadWriteLock::new(&client, DIRECTORY).expect("a path").read_lock;
        let leases = [lock.acquire().await.expect("the lock"), lock.acquire().await.expect("the lock")];
        // The reply to the first heartbeat reports that the first node is missing. It must not
        // extend the term, because the session might have ended (`localSessionsEnabled`). After
        // that, the server sends no replies.
        let mut beats = 0;
        server.answer(move |request| match request.op {
            Op::Multi if beats == 0 => {
                beats = 1;
                Answer::FirstFailed(code::NO_NODE)
            }
            _ if beats == 0 => Answer::Truth,
            _ => Answer::Silence,
        });
        let [one, other] = &leases;
        while one.loss_reason().is_none() && other.loss_reason().is_none() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let kept = if one.loss_reason().is_none() { one } else { other };
        let left = kept.remaining();
        assert!(left <= TIMEOUT / 3, "{left:?} are left: the heartbeat extended the term");
        becomes(kept, LeaseState::Lost(zklock::LossReason::TermEnded)).await;
    });
}

/// After a reconnection, the client sends a heartbeat, and a second request to find out which
/// session owns the nodes. The reply to the heartbeat reports a missing node. The lease on that
/// node is lost even if the reply to the second request never arrives.
#[test]
fn a_missing_node_is_lost_before_it_is_known_whose_session_it_is() {
    for answer in [Answer::FirstFailed(code::NO_NODE), Answer::DoneButSecondFailed(code::NO_NODE)] {
        let server = Server::start(DIRECTORY, TIMEOUT);
        block_on(async {
            let client = client(&server);
            let lock = ReadWriteLock::new(&client, DIRECTORY).expect("a path").read_lock;
            let held = [lock.acquire().await.expect("the lock"), lock.acquire().await.expect("the lock")];
            let mut told = false;
            server.answer(move |request| match request.op {
                Op::Multi if !told => {
                    told = true;
                    answer
                }
                _ if told => Answer::Silence,
                _ => Answer::Truth,
            });
            server.cut();
            let [first, second] = held.each_ref().map(Lease::lost);
            let reason = tokio::select! { reason = first => reason, reason = second => reason };
            assert_eq!(
                (reason, client.state()),
                (LossReason::NodeDeleted, ClientState::Connected),
                "{answer:?}"
            );
            server.answer_truthfully();
        });
    }
}
