//! Tests of the option `grace`: the client reports a lease as lost some time before it could really
//! be lost.

use std::time::Duration;

use zklock::{Client, ErrorKind, Lease, LeaseState, LockOptions, LossReason, Mutex, Owner, Timeout};

use super::proxy::{Proxy, Request, RequestEffect, op};
use super::{behind_proxy, brief_client, client, hold, mutex, options, run, until_contenders};

/// Session timeout. After each reply, the session is certain to exist for three seconds, half of
/// this time.
const SESSION: Duration = Duration::from_secs(6);

/// The longest allowed grace.
const GRACE: Duration = Duration::from_secs(1);

fn graceful(client: &Client, path: &str) -> Mutex {
    Mutex::with_options(client, path, LockOptions::default().grace(GRACE)).expect("a path")
}

/// Makes the proxy drop heartbeats, so that they get no reply.
fn hold_heartbeats_back(proxy: &Proxy) {
    proxy.rule(
        |request: &Request| if request.op == op::MULTI { RequestEffect::Vanish } else { RequestEffect::Pass },
    );
}

async fn until_less_is_left(lease: &Lease, than: Duration) {
    while lease.remaining() >= than {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[test]
fn the_node_of_a_lease_lost_to_its_grace_is_deleted_with_the_last_level() {
    run(async {
        let (server, proxy) = behind_proxy().await;
        let (holder, next) = (brief_client(&proxy.hosts, SESSION).await, client(&server.hosts()).await);
        let lock = graceful(&holder, "/l");
        let owner = Owner::new();
        let lease = lock.acquire_as(&owner, Timeout::Forever).await.expect("the lock");
        let inner = lock.acquire_as(&owner, Timeout::Forever).await.expect("a level");
        hold_heartbeats_back(&proxy);
        assert_eq!(lease.lost().await, LossReason::TermEnded);
        assert_eq!(inner.state(), LeaseState::Lost(LossReason::TermEnded));
        assert_eq!(lease.check().map_err(|error| error.kind()), Err(ErrorKind::LockLost));
        assert_eq!(lease.remaining(), Duration::ZERO);
        let seen = mutex(&next, "/l");
        drop(inner);
        assert_eq!(seen.contenders().await.expect("an answer").len(), 1, "the first level is not released");
        lease.release().await.expect("nothing to undo");
        until_contenders(&seen, 0).await;
        assert_eq!(holder.session_id(), lease.session_id(), "the session lives on");
    });
}

#[test]
fn the_node_of_an_unreleased_lost_lease_is_deleted_at_the_end_of_the_term() {
    run(async {
        let (server, proxy) = behind_proxy().await;
        let (holder, next) = (brief_client(&proxy.hosts, SESSION).await, client(&server.hosts()).await);
        let lease = graceful(&holder, "/l").acquire().await.expect("the lock");
        hold_heartbeats_back(&proxy);
        assert_eq!(lease.lost().await, LossReason::TermEnded);
        let waiting = tokio::spawn(async move { hold(&next, "/l").await });
        drop(waiting.await.expect("the lock"));
        assert_eq!(holder.session_id(), lease.session_id(), "the session lives on");
    });
}

#[test]
fn an_answer_within_the_grace_does_not_bring_the_lease_back() {
    run(async {
        let (server, proxy) = behind_proxy().await;
        let (holder, next) = (brief_client(&proxy.hosts, SESSION).await, client(&server.hosts()).await);
        let lease = graceful(&holder, "/l").acquire().await.expect("the lock");
        // A lease without a grace is still held when the first lease is lost.
        let other = hold(&holder, "/m").await;
        hold_heartbeats_back(&proxy);
        assert_eq!(lease.lost().await, LossReason::TermEnded);
        assert!(other.remaining() > Duration::ZERO);
        proxy.rule(|_| RequestEffect::Pass);
        while other.remaining() < SESSION / 3 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(other.state(), LeaseState::Held);
        assert_eq!(lease.state(), LeaseState::Lost(LossReason::TermEnded));
        // The client deletes the lost lease's node at the end of its term, even though a later
        // reply has extended the term of the other lease.
        drop(hold(&next, "/l").await);
        assert_eq!(other.state(), LeaseState::Held);
    });
}

#[test]
fn a_lock_is_granted_when_its_grace_and_a_sixth_of_the_timeout_are_left() {
    run(async {
        let (server, proxy) = behind_proxy().await;
        let (waiter, blocker) = (brief_client(&proxy.hosts, SESSION).await, client(&server.hosts()).await);
        let term = hold(&waiter, "/m").await;
        let [taken, beside] = [hold(&blocker, "/l").await, hold(&blocker, "/k").await];
        let [lock, other] = [graceful(&waiter, "/l"), mutex(&waiter, "/k")];
        let waiting = tokio::spawn(async move { lock.acquire().await });
        let hasty = tokio::spawn(async move { other.acquire().await });
        for path in ["/l", "/k"] {
            until_contenders(&mutex(&blocker, path), 2).await;
        }
        hold_heartbeats_back(&proxy);
        until_less_is_left(&term, SESSION / 3).await;
        taken.release().await.expect("the end of the hold");
        beside.release().await.expect("the end of the hold");
        // The remaining term is long enough to grant a lock without a grace.
        let hasty = hasty.await.expect("no panic").expect("the lock");
        assert!(term.remaining() > SESSION / 6, "the machine is too slow for this test");
        assert!(!waiting.is_finished());
        proxy.rule(|_| RequestEffect::Pass);
        let lease = waiting.await.expect("no panic").expect("the lock");
        assert!(lease.remaining() > SESSION / 12, "{:?}", lease.remaining());
        drop(hasty);
    });
}

#[test]
fn a_grace_of_more_than_a_sixth_of_the_session_timeout_is_refused() {
    run(async {
        let (server, _proxy) = behind_proxy().await;
        let long = LockOptions::default().grace(GRACE + Duration::from_millis(1));
        let lazy = Client::new(options(&server.hosts()).session_timeout(SESSION).expect("a time-out"));
        let lock = Mutex::with_options(&lazy, "/l", long).expect("a path");
        // Before its first session, the client does not know the session timeout. A waiter
        // therefore gets the error only when the session begins.
        let blocker = client(&server.hosts()).await;
        let _taken = hold(&blocker, "/l").await;
        for _ in 0..2 {
            let error = lock.acquire().await.expect_err("a grace that is too long");
            assert_eq!((error.kind(), error.argument()), (ErrorKind::BadArgument, Some("grace")));
            assert!(error.to_string().contains("must be at most 1s"), "{error}");
        }
        until_contenders(&mutex(&blocker, "/l"), 1).await;
        drop(graceful(&lazy, "/k").acquire().await.expect("the longest grace"));
    });
}
