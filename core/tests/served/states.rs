//! Tests of the states of a client and its leases while connections and sessions change.

use std::pin::pin;
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use zklock::{ClientState, ErrorKind, LeaseState, LossReason};

use super::proxy::{Request, RequestEffect, op};
use super::{behind_proxy, client, hold, mutex, run, server, until_contenders};

#[test]
fn a_client_reports_each_change_and_its_lease_is_suspended_meanwhile() {
    run(async {
        let (_server, proxy) = behind_proxy().await;
        let client = client(&proxy.hosts).await;
        let lease = hold(&client, "/l").await;
        let mut states = client.states();
        proxy.cut(false);
        assert_eq!(states.next().await, Some(ClientState::Suspended));
        assert_eq!((client.state(), lease.state()), (ClientState::Suspended, LeaseState::Suspended));
        lease.check().expect("its term runs");
        // The client reports `Connected` before a reply shows that the session still exists.
        proxy.rule(|request| if request.op == op::MULTI { RequestEffect::Wait } else { RequestEffect::Pass });
        proxy.come_back();
        assert_eq!(states.next().await, Some(ClientState::Connected));
        assert_eq!(lease.state(), LeaseState::Suspended);
        proxy.open();
        while lease.state() != LeaseState::Held {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        client.close().await.expect("an end");
        assert_eq!((states.next().await, states.next().await), (Some(ClientState::Closed), None));
        assert_eq!(lease.state(), LeaseState::Lost(LossReason::ClientClosed));
    });
}

#[test]
fn the_leases_of_a_closed_client_are_lost_before_the_server_answers() {
    run(async {
        let (_server, proxy) = behind_proxy().await;
        let client = client(&proxy.hosts).await;
        let lease = hold(&client, "/l").await;
        proxy.rule(|_| RequestEffect::Wait);
        let closing = tokio::spawn(async move { client.close().await });
        assert_eq!(lease.lost().await, LossReason::ClientClosed);
        assert!(!closing.is_finished(), "the server has not answered");
        proxy.open();
        closing.await.expect("no panic").expect("an end");
    });
}

/// Calls a function when it is woken, on the thread of the client and within the change that wakes
/// it.
struct OnWake<F>(F);

impl<F: Fn() + Send + Sync + 'static> Wake for OnWake<F> {
    fn wake(self: Arc<Self>) {
        (self.0)();
    }
}

#[test]
fn a_client_is_closed_only_when_its_leases_are_lost() {
    run(async {
        let server = server().await;
        let client = client(&server.hosts()).await;
        let lease = hold(&client, "/l").await;
        let mut states = client.states();
        let (found, states_of_the_lease) = mpsc::channel();
        let waker = Waker::from(Arc::new(OnWake(move || found.send(lease.state()).expect("a test"))));
        assert!(states.poll_next(&mut Context::from_waker(&waker)).is_pending());
        client.close().await.expect("an end");
        assert_eq!(states_of_the_lease.recv(), Ok(LeaseState::Lost(LossReason::ClientClosed)));
    });
}

#[test]
fn a_client_whose_leases_are_being_lost_refuses_an_acquire() {
    run(async {
        let server = server().await;
        let client = client(&server.hosts()).await;
        let lease = hold(&client, "/l").await;
        let (found, outcomes) = mpsc::channel();
        let lock = mutex(&client, "/m");
        let acquire = move || {
            let polled = pin!(lock.acquire()).poll(&mut Context::from_waker(Waker::noop()));
            let refused =
                matches!(polled, Poll::Ready(Err(error)) if error.kind() == ErrorKind::ClientClosed);
            found.send(refused).expect("a test");
        };
        let mut lost = pin!(lease.lost());
        let waker = Waker::from(Arc::new(OnWake(acquire)));
        assert!(lost.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        client.close().await.expect("an end");
        assert_eq!(outcomes.recv(), Ok(true));
    });
}

#[test]
fn with_the_session_its_leases_are_lost_and_its_waiters_queue_again() {
    run(async {
        let server = server().await;
        let (one, other) = (client(&server.hosts()).await, client(&server.hosts()).await);
        let (lost, taken) = (hold(&one, "/l").await, hold(&other, "/m").await);
        let lock = mutex(&one, "/m");
        let waiting = tokio::spawn(async move { lock.acquire().await });
        until_contenders(&mutex(&other, "/m"), 2).await;
        let mut states = one.states();
        assert!(server.expire(lost.session_id()).await);
        assert_eq!(lost.lost().await, LossReason::SessionExpired);
        assert_eq!(lost.check().map_err(|error| error.kind()), Err(ErrorKind::LockLost));
        while states.next().await != Some(ClientState::Connected) {}
        until_contenders(&mutex(&other, "/m"), 2).await;
        taken.release().await.expect("the end of the hold");
        let granted = waiting.await.expect("no panic").expect("the lock");
        assert_ne!(granted.session_id(), lost.session_id());
    });
}

#[test]
fn a_waiter_behind_its_own_client_rejoins_when_its_node_is_deleted() {
    run(async {
        let (server, proxy) = behind_proxy().await;
        let (one, operator) = (client(&proxy.hosts).await, client(&server.hosts()).await);
        let first = hold(&one, "/l").await;
        let lock = mutex(&one, "/l");
        let waiting = tokio::spawn(async move { lock.acquire().await });
        let seen = mutex(&operator, "/l");
        until_contenders(&seen, 2).await;
        let node = seen.contenders().await.expect("an answer").remove(1).node;
        let known = proxy.requests().len();
        operator.break_lock(&node).await.expect("a node");
        // The client has no watch on the waiter's node, so only a heartbeat can show the deletion.
        // The client then creates a new node, without a listing or a read before that.
        until_contenders(&seen, 2).await;
        assert_ne!(seen.contenders().await.expect("an answer")[1].node, node);
        let found = |request: &&Request| [op::LIST, op::MULTI_READ, op::CREATE].contains(&request.op);
        let first_of_these = proxy.requests()[known..].iter().find(found).map(|request| request.op);
        assert_eq!(first_of_these, Some(op::CREATE), "what it asks when it knows");
        assert_eq!(first.session_id(), one.session_id(), "the session is another one");
        first.release().await.expect("the end of the hold");
        drop(waiting.await.expect("no panic").expect("the lock"));
    });
}

#[test]
fn a_transaction_under_a_broken_lock_writes_nothing() {
    run(async {
        let (server, proxy) = behind_proxy().await;
        let (one, operator) = (client(&proxy.hosts).await, client(&server.hosts()).await);
        let lease = hold(&one, "/l").await;
        lease.transaction().create("/x", b"1").commit().await.expect("it is held");
        // The transaction is on its way when the lock is broken.
        let known = proxy.requests().len();
        proxy.once(op::MULTI, RequestEffect::Wait);
        let writes = lease.transaction().set_data("/x", b"2", None);
        let writing = tokio::spawn(writes.commit());
        while proxy.requests().len() == known {
            tokio::task::yield_now().await;
        }
        operator.break_lock(&lease.node()).await.expect("a node");
        proxy.open();
        let refused = writing.await.expect("no panic").expect_err("a refusal");
        assert_eq!(refused.kind(), ErrorKind::LockLost, "{refused}");
        assert_eq!(operator.get("/x").await.expect("an answer").expect("a node").data, b"1");
    });
}

#[test]
fn close_waits_until_the_server_has_ended_the_session() {
    run(async {
        let (server, proxy) = behind_proxy().await;
        let client = client(&proxy.hosts).await;
        let lease = hold(&client, "/l").await;
        proxy.once(op::CLOSE, RequestEffect::Wait);
        let closing = tokio::spawn(async move { client.close().await });
        proxy.saw(|request| request.op == op::CLOSE).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert!(!closing.is_finished(), "the server has not received the close");
        proxy.open();
        closing.await.expect("no panic").expect("an end");
        assert!(!server.expire(lease.session_id()).await, "the session is still there");
    });
}
