//! Tests of `timeout_reason`: after a timeout, the client reports that the lock was taken or that
//! no server replied, but only if it is certain.

use std::sync::Arc;
use std::time::Duration;

use zklock::{
    AnyLock, Client, Election, ErrorKind, Lock, LockOptions, MultiLock, Owner, Permits, ReadWriteLock,
    Semaphore, Timeout, TimeoutReason,
};

use super::proxy::{Proxy, RequestEffect, op};
use super::{behind_proxy, client, hold, mutex, options, run, server};

const SHORT: Duration = Duration::from_millis(300);

/// Timeout that is long enough for a few replies, even on a busy machine.
const AMPLE: Duration = Duration::from_secs(4);

/// Drops all requests including pings, while the connections seem to work.
fn silence(proxy: &Proxy) {
    proxy.rule(|_| RequestEffect::Vanish);
}

/// Returns the error of an acquire that must fail.
async fn failure(lock: impl Into<AnyLock>, timeout: Timeout) -> zklock::Error {
    lock.into().acquire_as(&Owner::new(), timeout).await.expect_err("it is not to be had")
}

async fn reason(lock: impl Into<AnyLock>, timeout: Timeout) -> Option<TimeoutReason> {
    let error = failure(lock, timeout).await;
    assert_eq!(error.kind(), ErrorKind::LockTimeout, "{error}");
    error.timeout_reason()
}

fn labelled(client: &Client, label: &str, permits: impl Into<Permits>) -> Semaphore {
    Semaphore::with_options(client, "/s", permits, LockOptions::default().label(label)).expect("a path")
}

#[test]
fn a_held_lock_is_taken_for_a_wait_and_for_a_try() {
    run(async {
        let server = server().await;
        let (one, other) = (client(&server.hosts()).await, client(&server.hosts()).await);
        let ReadWriteLock { write_lock, .. } = ReadWriteLock::new(&one, "/rw").expect("a path");
        let _held = (hold(&one, "/m").await, write_lock.acquire().await.expect("the lock"));
        for timeout in [Timeout::For(AMPLE), Timeout::Try, Timeout::TryWithin(Duration::from_secs(60))] {
            assert_eq!(reason(&mutex(&other, "/m"), timeout).await, Some(TimeoutReason::Taken));
            let ReadWriteLock { read_lock, .. } = ReadWriteLock::new(&other, "/rw").expect("a path");
            assert_eq!(reason(read_lock, timeout).await, Some(TimeoutReason::Taken));
            // The client knows this without a request, because it holds the lock itself.
            assert_eq!(reason(&mutex(&one, "/m"), timeout).await, Some(TimeoutReason::Taken));
        }
    });
}

#[test]
fn a_member_and_an_election_are_taken_as_a_mutex_is() {
    run(async {
        let server = server().await;
        let (one, other) = (client(&server.hosts()).await, client(&server.hosts()).await);
        let _held = hold(&one, "/b").await;
        let _leads = Election::new(&one, "/e").expect("a path").campaign().await.expect("it leads");
        for timeout in [Timeout::For(AMPLE), Timeout::Try] {
            let both = MultiLock::new([(&mutex(&other, "/a")).into(), (&mutex(&other, "/b")).into()])
                .expect("locks");
            let error = both.acquire_as(&Owner::new(), timeout).await.expect_err("one is held");
            assert_eq!(error.timeout_reason(), Some(TimeoutReason::Taken), "{error}");
            assert!(error.to_string().contains("\"/b\" is taken"), "{error}");
            let election = Election::new(&other, "/e").expect("a path");
            let error = election.campaign_with(timeout).await.expect_err("another leads");
            assert_eq!(error.timeout_reason(), Some(TimeoutReason::Taken), "{error}");
        }
    });
}

#[test]
fn holders_of_permits_are_named() {
    run(async {
        let server = server().await;
        let (one, other) = (client(&server.hosts()).await, client(&server.hosts()).await);
        one.set_shared_count("/count", 2).await.expect("a number");
        for permits in [Permits::Fixed(2), Permits::SharedCount("/count".to_owned())] {
            let [first, second] = ["first", "second"].map(|label| labelled(&one, label, permits.clone()));
            let held = (first.acquire().await.expect("a permit"), second.acquire().await.expect("a permit"));
            let error = failure(labelled(&other, "late", permits.clone()), Timeout::For(AMPLE)).await;
            assert_eq!(error.timeout_reason(), Some(TimeoutReason::Taken), "{error}");
            let label = |contender: &zklock::Contender| contender.about.as_ref()?.label.clone();
            let labels: Vec<_> = error.blockers().iter().filter_map(label).collect();
            assert_eq!(labels, ["first", "second"], "{error}");
            assert!(
                error.to_string().contains("(first)") && error.to_string().contains("which has a permit")
            );
            // A holder that has released its permit in the meantime is not reported as a blocker.
            held.0.release().await.expect("the end of the hold");
            let two = labelled(&other, "late", permits.clone()).acquire_many(2, Timeout::For(AMPLE)).await;
            let error = two.expect_err("one is held");
            // The node of the acquire that timed out might still exist, because the client does not
            // wait until it is deleted.
            let labels: Vec<_> =
                error.blockers().iter().filter_map(label).filter(|one| one != "late").collect();
            assert_eq!(labels, ["second"], "{error}");
            let tried = labelled(&other, "late", permits).acquire_many(2, Timeout::Try).await;
            assert_eq!(tried.expect_err("one is held").timeout_reason(), Some(TimeoutReason::Taken));
            held.1.release().await.expect("the end of the hold");
        }
    });
}

#[test]
fn a_free_lock_in_an_outage_is_unreachable_and_a_try_fails_to_connect() {
    run(async {
        let (_server, proxy) = behind_proxy().await;
        // A try that waited for this timeout would hang.
        let options = options(&proxy.hosts).connect_timeout(Duration::from_secs(600)).expect("a time");
        let client = Client::connect_with(options).await.expect("a server that answers");
        let semaphore = Semaphore::new(&client, "/s", 2).expect("a path");
        let ReadWriteLock { read_lock, .. } = ReadWriteLock::new(&client, "/rw").expect("a path");
        silence(&proxy);
        let locks: [AnyLock; 3] = [(&mutex(&client, "/m")).into(), (&semaphore).into(), read_lock.into()];
        for lock in locks.clone() {
            assert_eq!(reason(lock, Timeout::For(SHORT)).await, Some(TimeoutReason::Unreachable));
        }
        for lock in locks.clone() {
            let error = failure(lock, Timeout::TryWithin(SHORT)).await;
            assert_eq!(error.kind(), ErrorKind::ConnectionFailed, "{error}");
            assert!(!error.to_string().contains("within 600s"), "{error}");
        }
        let all = MultiLock::new(locks).expect("locks");
        let waited = all.acquire_within(SHORT).await.expect_err("no answer");
        assert_eq!(waited.timeout_reason(), Some(TimeoutReason::Unreachable));
        let tried = all.try_acquire_within(SHORT).await.expect_err("no answer");
        assert_eq!(tried.kind(), ErrorKind::ConnectionFailed);
    });
}

#[test]
fn a_try_beside_a_waiter_that_was_not_answered_either_does_not_find_the_lock_taken() {
    run(async {
        let (_server, proxy) = behind_proxy().await;
        let client = client(&proxy.hosts).await;
        silence(&proxy);
        let waiting = mutex(&client, "/m");
        let waiting = tokio::spawn(async move { waiting.acquire_within(Duration::from_secs(60)).await });
        proxy.saw(|request| request.op == op::CREATE).await;
        let error = failure(&mutex(&client, "/m"), Timeout::TryWithin(SHORT)).await;
        assert_eq!(error.kind(), ErrorKind::ConnectionFailed, "{error}");
        waiting.abort();
    });
}

#[test]
fn without_a_session_a_wait_is_unreachable_and_a_try_fails_to_connect() {
    run(async {
        let client = Client::new(options("127.0.0.1:1"));
        let semaphore = Semaphore::new(&client, "/s", 2).expect("a path");
        let locks: [AnyLock; 2] = [(&mutex(&client, "/m")).into(), (&semaphore).into()];
        for lock in locks {
            let error = failure(lock.clone(), Timeout::For(SHORT)).await;
            assert_eq!(error.timeout_reason(), Some(TimeoutReason::Unreachable), "{error}");
            assert_eq!(error.servers().len(), 1, "{error}");
            let error = failure(lock, Timeout::TryWithin(SHORT)).await;
            assert_eq!((error.kind(), error.servers().len()), (ErrorKind::ConnectionFailed, 1), "{error}");
        }
    });
}

#[test]
fn replies_without_a_blocker_leave_the_reason_unknown() {
    run(async {
        let (_server, proxy) = behind_proxy().await;
        let client = client(&proxy.hosts).await;
        let other = Arc::new(mutex(&client, "/other"));
        // Requests for this lock get no reply, but others do.
        proxy.rule(|request| if request.names("/m") { RequestEffect::Wait } else { RequestEffect::Pass });
        other.acquire().await.expect("the lock").release().await.expect("the end of the hold");
        proxy.rule(|request| {
            if request.op == op::LIST && request.names("/m") {
                RequestEffect::Wait
            } else {
                RequestEffect::Pass
            }
        });
        let lock: Lock = mutex(&client, "/m").into();
        assert_eq!(reason(&lock, Timeout::For(SHORT)).await, Some(TimeoutReason::Unknown));
    });
}

#[test]
fn a_lock_that_was_seen_to_be_taken_is_taken_when_the_connection_is_lost() {
    run(async {
        let (server, proxy) = behind_proxy().await;
        let (one, other) = (client(&server.hosts()).await, client(&proxy.hosts).await);
        let _held = hold(&one, "/m").await;
        let lock = mutex(&other, "/m");
        let waiting = tokio::spawn(async move { lock.acquire_within(Duration::from_secs(2)).await });
        super::until_contenders(&mutex(&one, "/m"), 2).await;
        proxy.saw(|request| request.op == op::MULTI_READ || request.op == op::GET_DATA).await;
        proxy.cut(false);
        let error = waiting.await.expect("no panic").expect_err("it is held");
        assert_eq!(error.timeout_reason(), Some(TimeoutReason::Taken), "{error}");
        assert_eq!(error.servers().len(), 1, "{error}");
    });
}
