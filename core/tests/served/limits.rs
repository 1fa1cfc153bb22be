//! Tests of the options `max_hold` and `max_waiters`. `max_hold` ends a hold even while the holder
//! is not connected.

use std::time::Duration;

use zklock::{
    AnyLock, LeaseState, LockOptions, LossReason, MultiLock, Mutex, Owner, Permits, ReadWriteLock, Semaphore,
    Timeout, TimeoutReason,
};

use super::{behind_proxy, client, hold, mutex, run, server, until_contenders};

const AMPLE: Timeout = Timeout::For(Duration::from_secs(60));

fn at_most(waiters: u32) -> LockOptions {
    LockOptions::default().max_waiters(waiters)
}

async fn reason(lock: impl Into<AnyLock>, timeout: Timeout) -> Option<TimeoutReason> {
    let refused = lock.into().acquire_as(&Owner::new(), timeout).await;
    refused.expect_err("the queue is full").timeout_reason()
}

#[test]
fn a_hold_that_lasts_too_long_while_the_client_is_disconnected_is_lost_then_and_free_afterwards() {
    run(async {
        let (server, proxy) = behind_proxy().await;
        let (holder, next) = (client(&proxy.hosts).await, client(&server.hosts()).await);
        let limited = LockOptions::default().max_hold(Duration::from_millis(300));
        let lock = Mutex::with_options(&holder, "/l", limited).expect("a limit");
        let lease = lock.acquire().await.expect("the lock");
        let session = lease.session_id();
        let waiting = tokio::spawn(async move { hold(&next, "/l").await });
        proxy.cut(false);
        assert_eq!(lease.lost().await, LossReason::HeldTooLong);
        assert_eq!(lease.state(), LeaseState::Lost(LossReason::HeldTooLong));
        assert!(!waiting.is_finished(), "its node is still there");
        proxy.come_back();
        // The holder lost its lock although its session has not ended.
        drop(waiting.await.expect("the lock"));
        assert_eq!(holder.session_id(), session);
    });
}

#[test]
fn a_contender_beyond_the_waiter_limit_is_refused_without_a_node() {
    run(async {
        let server = server().await;
        let (one, other) = (client(&server.hosts()).await, client(&server.hosts()).await);
        let held = hold(&one, "/l").await;
        let limited = |waiters| Mutex::with_options(&other, "/l", at_most(waiters)).expect("a limit");
        assert_eq!(reason(&limited(0), AMPLE).await, Some(TimeoutReason::Full));
        assert_eq!(reason(&limited(0), Timeout::Forever).await, Some(TimeoutReason::Full));
        assert_eq!(reason(&limited(0), Timeout::Try).await, Some(TimeoutReason::Taken));
        let lock = limited(1);
        let waiting = tokio::spawn({
            let lock = lock.clone();
            async move { lock.acquire().await.expect("its turn comes") }
        });
        until_contenders(&lock, 2).await;
        let error = lock.acquire().await.expect_err("one waits");
        assert_eq!(error.timeout_reason(), Some(TimeoutReason::Full));
        assert!(error.to_string().starts_with("\"/l\" is full: 1 contender waits for it"), "{error}");
        assert_eq!(lock.contenders().await.expect("an answer").len(), 2);
        let both = MultiLock::new([(&mutex(&other, "/a")).into(), (&lock).into()]).expect("locks");
        assert_eq!(
            both.acquire().await.expect_err("one is full").timeout_reason(),
            Some(TimeoutReason::Full)
        );
        held.release().await.expect("the end of the hold");
        let owner = waiting.await.expect("no panic");
        // A holder can acquire the lock again despite the limit of waiters.
        let again = limited(0).acquire_as(&owner.owner(), AMPLE).await.expect("its own lock");
        drop((owner, again));
        assert_eq!(other.stats().busy, 5);
    });
}

#[test]
fn waiters_of_both_halves_count_and_holders_of_neither() {
    run(async {
        let server = server().await;
        let (one, other) = (client(&server.hosts()).await, client(&server.hosts()).await);
        let reads = ReadWriteLock::new(&one, "/rw").expect("a path").read_lock.acquire().await.expect("free");
        let ReadWriteLock { read_lock, write_lock } =
            ReadWriteLock::with_options(&other, "/rw", at_most(0)).expect("a limit");
        let also_reads = read_lock.acquire().await.expect("a reader does not wait for readers");
        assert_eq!(reason(&write_lock, AMPLE).await, Some(TimeoutReason::Full));
        drop((reads, also_reads));
        until_contenders(&write_lock, 0).await;
        let writes = write_lock.acquire().await.expect("free");
        // In a downgrade, the owner's reader takes over the position of its own writer.
        let owner = writes.owner();
        let also_reads = read_lock.acquire_as(&owner, AMPLE).await.expect("a downgrade");
        drop((writes, also_reads));
    });
}

#[test]
fn a_semaphore_refuses_a_contender_behind_too_many_waiters() {
    run(async {
        let server = server().await;
        let (one, other) = (client(&server.hosts()).await, client(&server.hosts()).await);
        one.set_shared_count("/count", 1).await.expect("a number");
        for permits in [Permits::Fixed(1), Permits::SharedCount("/count".to_owned())] {
            let on = |client, waiters| {
                Semaphore::with_options(client, "/s", permits.clone(), at_most(waiters)).expect("a limit")
            };
            let held = on(&one, 0).acquire().await.expect("a permit is free");
            assert_eq!(reason(&on(&other, 0), AMPLE).await, Some(TimeoutReason::Full));
            assert_eq!(reason(&on(&other, 0), Timeout::Try).await, Some(TimeoutReason::Taken));
            let waits = on(&other, 1);
            let waiting = tokio::spawn({
                let waits = waits.clone();
                async move { waits.acquire().await.expect("its turn comes") }
            });
            while waits.contenders().await.expect("an answer").len() < 3 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            let error = on(&one, 1).acquire().await.expect_err("one waits");
            assert_eq!(error.timeout_reason(), Some(TimeoutReason::Full), "{error}");
            held.release().await.expect("the end of the hold");
            waiting.await.expect("no panic").release().await.expect("the end of the hold");
            while !waits.contenders().await.expect("an answer").is_empty() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
    });
}
