//! Tests of a body that runs once per slot.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::timeout;
use zklock::internal::once::{OnceRecord, Turn, begin, forget, read};
use zklock::{
    Acl, Client, Election, Error, ErrorKind, Lease, Mutex, Owner, ReadWriteLock, Record, Result, Semaphore,
    Slot, Timeout, blocking,
};

use super::proxy::{Proxy, Request, RequestEffect, code, op};
use super::{behind_proxy, client, hold, mutex, options, run, server, until_contenders};

const HOUR: Duration = Duration::from_secs(3600);

/// Returns the record of the lock at `/l`.
async fn record(client: &Client) -> Option<OnceRecord> {
    read(client, "/l").await.expect("a record, or none")
}

/// Returns the recorded slot of the lock at `/l`.
async fn slot(client: &Client) -> Option<String> {
    record(client).await.map(|record| record.slot)
}

/// Runs a body that succeeds. Returns whether it ran.
async fn runs(lock: &Mutex, key: &str) -> Result<bool> {
    Ok(lock.once(key, |_| async { Ok::<_, Error>(()) }).await?.is_some())
}

/// A body that must not run.
async fn unwanted(_: Arc<Lease>) -> Result<()> {
    unreachable!("the body runs")
}

async fn begun(client: &Client, key: &str, record: Record) -> Turn {
    let key = Slot::key(key).expect("a key");
    let turn = begin(&mutex(client, "/l").into(), &Owner::new(), &key, Timeout::Forever, record).await;
    turn.expect("an answer").expect("a slot that is not recorded")
}

/// Writes the record of the lock at `/l` without holding the lock.
async fn write(client: &Client, data: &str) {
    let lease = hold(client, "/another").await;
    let transaction = match client.get("/l.once").await.expect("an answer") {
        Some(_) => lease.transaction().set_data("/l.once", data.as_bytes(), None),
        None => lease.transaction().create("/l.once", data.as_bytes()),
    };
    transaction.commit().await.expect("a write");
    lease.release().await.expect("the end of the hold");
}

/// Returns `true` if a request writes the record of the lock at `/l`.
fn writes_record(request: &Request) -> bool {
    request.op == op::MULTI && request.names("/l.once")
}

/// Applies this effect to the next request that writes the record.
fn to_next_record(proxy: &Proxy, effect: RequestEffect) {
    let mut done = false;
    proxy.rule(move |request| {
        if done || !writes_record(request) {
            return RequestEffect::Pass;
        }
        done = true;
        effect
    });
}

#[test]
fn a_slot_that_is_recorded_is_skipped() {
    run(async {
        let server = server().await;
        let client = client(&server.hosts()).await;
        let lock = mutex(&client, "/l");
        assert_eq!(record(&client).await, None);
        let mut token = 0;
        let ran: Result<_> = lock
            .once("a", |lease| {
                token = lease.fencing_token();
                async { Ok(7) }
            })
            .await;
        assert_eq!(ran.expect("a run"), Some(7));
        let found = record(&client).await.expect("a record");
        assert_eq!((found.slot.as_str(), found.fencing_token, found.period), ("a", token, None));
        assert_eq!(found.by.expect("a process").pid, std::process::id());
        assert_eq!(lock.once("a", unwanted).await.expect("a skip"), None);
        assert!(!lock.locked().await.expect("an answer"), "the lock is released");
        // Only the last slot is recorded, so the earlier slot runs again.
        assert!(runs(&lock, "b").await.expect("a run") && runs(&lock, "a").await.expect("a run"));
        assert!(
            forget(&client, "/l").await.expect("an answer")
                && !forget(&client, "/l").await.expect("an answer")
        );
        assert!(runs(&lock, "a").await.expect("a run"), "it is forgotten");
    });
}

#[test]
fn a_failed_body_is_not_recorded() {
    run(async {
        let server = server().await;
        let client = client(&server.hosts()).await;
        let lock = mutex(&client, "/l");
        let failed = lock.once("a", |_| async { Err::<(), _>(zklock::internal::bad_argument("x", "y")) });
        assert_eq!(failed.await.expect_err("the body's error").argument(), Some("x"));
        assert_eq!(slot(&client).await, None);
        assert!(!lock.locked().await.expect("an answer"), "the lock is released");
        assert!(runs(&lock, "a").await.expect("a run"));
    });
}

#[test]
fn a_slot_that_is_recorded_at_the_start_does_not_run_again() {
    run(async {
        let server = server().await;
        let client = client(&server.hosts()).await;
        let (lock, key) = (mutex(&client, "/l"), Slot::key("a").expect("a key"));
        let seen = client.clone();
        let body = |_| async move {
            assert_eq!(slot(&seen).await.as_deref(), Some("a"));
            Err::<(), _>(zklock::internal::bad_argument("x", "y"))
        };
        let failed = lock.once_as(&Owner::new(), &key, Timeout::Forever, Record::Start, body).await;
        assert_eq!(failed.expect_err("the body's error").argument(), Some("x"));
        assert_eq!(lock.once("a", unwanted).await.expect("a skip"), None);
        // This scope ends like any other scope.
        let turn = begun(&client, "b", Record::Start).await;
        assert!(server.expire(client.session_id()).await);
        assert_eq!(turn.record().await.expect_err("a loss").kind(), ErrorKind::LockLost);
        assert_eq!(slot(&client).await.as_deref(), Some("b"));
        begun(&client, "c", Record::Start).await.record().await.expect("the end of the turn");
    });
}

#[test]
fn a_body_whose_session_ends_is_not_recorded() {
    run(async {
        let server = server().await;
        let (client, other) = (client(&server.hosts()).await, client(&server.hosts()).await);
        let expiring = &server;
        let lock = mutex(&client, "/l");
        let lost = lock.once("a", |lease| async move {
            assert!(expiring.expire(lease.session_id()).await);
            Ok::<_, Error>(())
        });
        assert_eq!(lost.await.expect_err("a loss").kind(), ErrorKind::LockLost);
        assert_eq!(slot(&other).await, None);
        assert!(runs(&mutex(&other, "/l"), "a").await.expect("a run"));
    });
}

#[test]
fn a_former_holder_cannot_write_the_record() {
    run(async {
        let server = server().await;
        let (former, holder) = (client(&server.hosts()).await, client(&server.hosts()).await);
        // The result is the same with and without an existing record.
        for key in ["a", "b"] {
            let turn = begun(&former, key, Record::AfterBody).await;
            holder.break_lock(&turn.lease().node()).await.expect("a delete");
            let next = begun(&holder, key, Record::AfterBody).await;
            let before = slot(&holder).await;
            assert_eq!(turn.record().await.expect_err("a loss").kind(), ErrorKind::LockLost);
            assert_eq!(slot(&holder).await, before);
            next.record().await.expect("a record");
            assert_eq!(slot(&holder).await.as_deref(), Some(key));
        }
    });
}

#[test]
fn a_record_that_was_written_meanwhile_is_not_overwritten() {
    run(async {
        let server = server().await;
        let (client, other) = (client(&server.hosts()).await, client(&server.hosts()).await);
        for (key, recorded) in [("a", "a"), ("b", "b"), ("c", "another")] {
            let turn = begun(&client, key, Record::AfterBody).await;
            write(&other, &format!(r#"{{"v":1,"slot":"{recorded}","token":"1","later":[]}}"#)).await;
            if key == recorded {
                let lost = turn.record().await.expect_err("a loss");
                assert_eq!(lost.kind(), ErrorKind::LockLost);
                assert_eq!(record(&other).await.expect("a record").fencing_token, 1);
            } else {
                turn.record().await.expect("a record");
                assert_eq!(slot(&other).await.as_deref(), Some(key));
            }
        }
        // If an operator has deleted the record, it is written again.
        let turn = begun(&client, "d", Record::AfterBody).await;
        assert!(forget(&other, "/l").await.expect("an answer"));
        turn.record().await.expect("a record");
        assert_eq!(slot(&other).await.as_deref(), Some("d"));
    });
}

#[test]
fn a_record_whose_reply_is_lost_is_written_once() {
    run(async {
        let (_server, proxy) = behind_proxy().await;
        let client = client(&proxy.hosts).await;
        for key in ["a", "b"] {
            let known = proxy.requests().len();
            to_next_record(&proxy, RequestEffect::LoseReply);
            assert!(runs(&mutex(&client, "/l"), key).await.expect("a run"));
            assert_eq!(slot(&client).await.as_deref(), Some(key));
            let requests = &proxy.requests()[known..];
            let written = requests.iter().position(writes_record).expect("a write");
            assert_eq!(requests.iter().filter(|request| writes_record(request)).count(), 1);
            let synced = requests[written..].iter().position(|request| request.op == op::SYNC);
            let behind = &requests[written + synced.expect("a sync")..];
            assert!(behind.iter().any(|request| request.op == op::GET_DATA && request.names("/l.once")));
        }
    });
}

#[test]
fn a_record_that_did_not_reach_the_server_is_written_again() {
    run(async {
        let (_server, proxy) = behind_proxy().await;
        let client = client(&proxy.hosts).await;
        for key in ["a", "b"] {
            // An error for the whole request does not show whether the request was executed.
            to_next_record(&proxy, RequestEffect::Refuse(code::UNIMPLEMENTED));
            assert!(runs(&mutex(&client, "/l"), key).await.expect("a run"));
            assert_eq!(slot(&client).await.as_deref(), Some(key));
        }
    });
}

#[test]
fn a_record_whose_reply_is_lost_with_the_session_is_found() {
    run(async {
        let (server, proxy) = behind_proxy().await;
        let client = client(&proxy.hosts).await;
        let session = client.session_id();
        proxy.rule(
            |request| if writes_record(request) { RequestEffect::LoseReply } else { RequestEffect::Pass },
        );
        let lock = mutex(&client, "/l");
        let running = tokio::spawn(async move { runs(&lock, "a").await });
        proxy.saw(writes_record).await;
        while !server.tree().await.contains_key("/l.once") {
            tokio::task::yield_now().await;
        }
        proxy.cut(false);
        assert!(server.expire(session).await);
        proxy.come_back();
        assert!(running.await.expect("no panic").expect("a run"));
    });
}

/// Before the read, the client sends a write. Without it, a lagging server could return the old
/// record, and the body would run twice for one slot.
#[test]
fn the_record_is_read_behind_a_write() {
    run(async {
        let (_server, proxy) = behind_proxy().await;
        let client = client(&proxy.hosts).await;
        let lock = mutex(&client, "/l");
        assert!(runs(&lock, "a").await.expect("a run"));
        let known = proxy.requests().len();
        assert!(!runs(&lock, "a").await.expect("a skip"));
        let asked: Vec<_> = proxy.requests()[known..].iter().map(|request| request.op).collect();
        assert_eq!(asked, [op::CREATE, op::LIST, op::MULTI, op::GET_DATA, op::DELETE]);
    });
}

#[test]
fn a_record_that_may_not_be_read_runs_nothing() {
    run(async {
        let server = server().await;
        let other = client(&server.hosts()).await;
        // Every client may use the directory, but not the record.
        hold(&other, "/l").await.release().await.expect("the end of the hold");
        let ours = options(&server.hosts()).auth("digest", "a:a").expect("credentials").acl(Acl::Creator);
        let ours = Client::connect_with(ours).await.expect("a server that answers");
        assert!(runs(&mutex(&ours, "/l"), "a").await.expect("a run"));
        for key in ["a", "b"] {
            let refused = mutex(&other, "/l").once(key, unwanted).await.expect_err("a refusal");
            assert_eq!(refused.kind(), ErrorKind::AuthFailed);
            assert!(refused.to_string().contains("\"/l.once\""), "{refused}");
        }
        until_contenders(&mutex(&other, "/l"), 0).await;
    });
}

#[test]
fn a_record_that_may_not_be_written_is_an_error_after_the_body() {
    run(async {
        let server = server().await;
        let other = client(&server.hosts()).await;
        hold(&other, "/l").await.release().await.expect("the end of the hold");
        let acl = "digest:a:mDmPUap4qvYwm+PZOtJ/scGyHLY=:cdrwa,world:anyone:r";
        let ours = options(&server.hosts()).auth("digest", "a:a").expect("credentials");
        let ours = ours.acl(Acl::parse(acl).expect("a list"));
        let ours = Client::connect_with(ours).await.expect("a server that answers");
        assert!(runs(&mutex(&ours, "/l"), "a").await.expect("a run"));
        assert!(!runs(&mutex(&other, "/l"), "a").await.expect("a skip"));
        let mut ran = false;
        let lock = mutex(&other, "/l");
        let refused = lock.once("b", |_| {
            ran = true;
            async { Ok::<_, Error>(()) }
        });
        let refused = refused.await.expect_err("a refusal");
        assert_eq!((refused.kind(), ran), (ErrorKind::AuthFailed, true), "{refused}");
        assert!(refused.to_string().contains("\"/l.once\""), "{refused}");
        assert_eq!(slot(&other).await.as_deref(), Some("a"));
        until_contenders(&lock, 0).await;
        assert!(forget(&other, "/l").await.expect("the parent is everybody's"));
    });
}

#[test]
fn a_record_that_is_not_understood_runs_nothing() {
    run(async {
        let server = server().await;
        let client = client(&server.hosts()).await;
        for data in [
            "",
            "a",
            "{}",
            r#"{"v":1,"slot":"a","token":1}"#,
            r#"{"v":1,"slot":"a","token":"x"}"#,
            r#"{"v":2,"slot":"a","token":"1"}"#,
            r#"{"v":1,"slot":1,"token":"1"}"#,
            r#"{"v":1,"slot":"a","token":"1","per":1000}"#,
            r#"{"v":1,"slot":"a","token":"1","n":1}"#,
        ] {
            write(&client, data).await;
            let refused = mutex(&client, "/l").once("a", unwanted).await.expect_err("a refusal");
            assert_eq!(
                (refused.kind(), refused.argument()),
                (ErrorKind::BadArgument, Some("path")),
                "{data}"
            );
            assert!(refused.to_string().contains("\"/l.once\""), "{refused}");
        }
        until_contenders(&mutex(&client, "/l"), 0).await;
    });
}

#[test]
fn keys_have_bounds() {
    run(async {
        let server = server().await;
        let client = client(&server.hosts()).await;
        let lock = mutex(&client, "/l");
        for key in ["", "a\n", "\u{85}", &"a".repeat(257), &"ü".repeat(129)] {
            let refused = lock.once(key, unwanted).await.expect_err("a refusal");
            assert_eq!(
                (refused.kind(), refused.argument()),
                (ErrorKind::BadArgument, Some("key")),
                "{key:?}"
            );
        }
        assert!(!server.tree().await.contains_key("/l"), "nothing was sent");
        for key in ["a", " ", "\"\\/🔒", &"a".repeat(256), &"ü".repeat(128)] {
            assert!(
                runs(&lock, key).await.expect("a run") && !runs(&lock, key).await.expect("a skip"),
                "{key:?}"
            );
            assert_eq!(slot(&client).await.as_deref(), Some(key));
        }
        let refused = lock.once_per(Duration::from_millis(999), unwanted).await.expect_err("a refusal");
        assert_eq!(refused.argument(), Some("period"));
    });
}

#[test]
fn a_lock_in_the_directory_of_another_lock_has_no_record() {
    run(async {
        let server = server().await;
        let client = client(&server.hosts()).await;
        let outer = hold(&client, "/p/l").await;
        let refused = mutex(&client, "/p/l/x").once("a", unwanted).await.expect_err("a refusal");
        assert_eq!((refused.kind(), refused.argument()), (ErrorKind::BadArgument, Some("path")));
        assert!(
            refused.to_string().contains("\"/p/l\"") && refused.to_string().contains("\"/p/l/x.once\""),
            "{refused}"
        );
        assert!(!server.tree().await.contains_key("/p/l/x.once"));
        // A lock that already has a record keeps it.
        outer.release().await.expect("the end of the hold");
        assert!(runs(&mutex(&client, "/p/l/x"), "a").await.expect("a run"));
        let outer = hold(&client, "/p/l").await;
        assert!(runs(&mutex(&client, "/p/l/x"), "b").await.expect("a run"));
        drop(outer);
        // A directory whose name ends in ten digits is not a contender.
        for number in ["/orders/0000000001", "/orders/0000000002"] {
            assert!(runs(&mutex(&client, number), "a").await.expect("a run"));
        }
    });
}

#[test]
fn a_lock_cannot_be_at_the_path_of_a_record() {
    run(async {
        let server = server().await;
        let client = client(&server.hosts()).await;
        let refused = [
            Mutex::new(&client, "/l.once").map(drop),
            ReadWriteLock::new(&client, "/l.once").map(drop),
            Semaphore::new(&client, "/l.once", 1).map(drop),
            Election::new(&client, "/l.once").map(drop),
        ];
        for refused in refused {
            let refused = refused.expect_err("a refusal");
            assert_eq!((refused.kind(), refused.argument()), (ErrorKind::BadArgument, Some("path")));
        }
        for path in ["/l.once/x", "/.oncer", "/once"] {
            assert!(runs(&mutex(&client, path), "a").await.expect("a run"), "{path}");
        }
        for path in ["/", "x", "/l.once"] {
            assert_eq!(read(&client, path).await.expect_err("a refusal").argument(), Some("path"), "{path}");
            assert_eq!(
                forget(&client, path).await.expect_err("a refusal").argument(),
                Some("path"),
                "{path}"
            );
        }
    });
}

#[test]
fn only_a_mutex_has_slots() {
    run(async {
        let server = server().await;
        let client = client(&server.hosts()).await;
        let locks = [
            Semaphore::new(&client, "/l", 1).expect("a path").into(),
            ReadWriteLock::new(&client, "/l").expect("a path").write_lock.into(),
        ];
        let key = Slot::key("a").expect("a key");
        for lock in locks {
            let refused = begin(&lock, &Owner::new(), &key, Timeout::Forever, Record::Start).await;
            assert_eq!(refused.expect_err("a refusal").argument(), Some("lock"));
        }
    });
}

#[test]
fn once_per_period_refuses_to_go_back() {
    run(async {
        let server = server().await;
        let client = client(&server.hosts()).await;
        let lock = mutex(&client, "/l");
        let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock");
        let now = since.as_secs() / HOUR.as_secs();
        let once = async || {
            lock.once_per(HOUR, |_| async { Ok::<_, Error>(()) }).await.expect("an answer").is_some()
        };
        for (per, number, expected) in [
            // The client that wrote the record has a clock that is five hours ahead. Other clients
            // skip the body until their clocks have caught up.
            (3_600_000, now + 5, false),
            (3_600_000, now - 1, true),
            // A record for another length of period does not count.
            (1_800_000, 2 * now + 9, true),
        ] {
            write(&client, &format!(r#"{{"v":1,"slot":"x","token":"1","per":{per},"n":{number}}}"#)).await;
            assert_eq!(once().await, expected, "{per} {number}");
        }
        let found = record(&client).await.expect("a record").period.expect("a period");
        assert!(found.millis == 3_600_000 && found.number >= now, "{found:?}");
        // The hour may end between the two calls.
        assert!(!once().await || record(&client).await.expect("a record").period > Some(found));
        assert!(
            runs(&lock, &found.number.to_string()).await.expect("a run"),
            "a key is no number of a period"
        );
    });
}

#[test]
fn once_that_is_cancelled_leaves_no_node() {
    run(async {
        let server = server().await;
        let client = client(&server.hosts()).await;
        let lock = mutex(&client, "/l");
        let body = |_| std::future::pending::<Result<()>>();
        timeout(Duration::from_millis(50), lock.once("a", body)).await.expect_err("the body does not end");
        until_contenders(&lock, 0).await;
        // The call is cancelled while it waits for the lock.
        let lease = hold(&client, "/l").await;
        timeout(Duration::from_millis(50), lock.once("a", unwanted)).await.expect_err("the lock is taken");
        until_contenders(&lock, 1).await;
        let late =
            lock.once_within("a", Duration::from_millis(50), unwanted).await.expect_err("the lock is taken");
        assert_eq!(late.kind(), ErrorKind::LockTimeout);
        let key = Slot::key("a").expect("a key");
        let busy = lock.once_as(&Owner::new(), &key, Timeout::Try, Record::Start, unwanted).await;
        assert_eq!(busy.expect_err("the lock is taken").kind(), ErrorKind::LockTimeout);
        lease.release().await.expect("the end of the hold");
        // Dropping the turn releases the lock, although the lease is still referenced.
        let turn = begun(&client, "a", Record::AfterBody).await;
        let lease = Arc::clone(turn.lease());
        drop(turn);
        until_contenders(&lock, 0).await;
        assert_eq!(lease.check().expect_err("it is released").kind(), ErrorKind::NotHeld);
        begun(&client, "a", Record::AfterBody).await.abandon().await.expect("the end of the turn");
        assert_eq!(slot(&client).await, None);
    });
}

#[test]
fn a_body_that_releases_the_lock_is_not_recorded() {
    run(async {
        let server = server().await;
        let client = client(&server.hosts()).await;
        let lock = mutex(&client, "/l");
        let released = lock.once("a", |lease| async move { lease.release().await });
        assert_eq!(released.await.expect_err("it is not held").kind(), ErrorKind::NotHeld);
        assert_eq!(slot(&client).await, None);
    });
}

#[test]
fn an_owner_that_holds_the_lock_runs_its_slots_within_the_hold() {
    run(async {
        let server = server().await;
        let client = client(&server.hosts()).await;
        let (lock, owner) = (mutex(&client, "/l"), Owner::new());
        let outer = lock.acquire_as(&owner, Timeout::Forever).await.expect("the lock");
        for (key, expected) in [("a", Some(())), ("a", None), ("b", Some(())), ("a", Some(()))] {
            let key = Slot::key(key).expect("a key");
            let body = async |lease: Arc<Lease>| {
                assert_eq!(lease.node(), outer.node());
                Ok::<_, Error>(())
            };
            let ran = lock.once_as(&owner, &key, Timeout::Try, Record::AfterBody, body).await;
            assert_eq!(ran.expect("an answer"), expected);
        }
        outer.check().expect("it is held");
        assert_eq!(record(&client).await.expect("a record").fencing_token, outer.fencing_token());
    });
}

#[test]
fn a_program_without_an_executor_has_slots_too() {
    run(async {
        let server = server().await;
        let hosts = server.hosts();
        let blocking = tokio::task::spawn_blocking(move || {
            let client = blocking::Client::connect(&hosts)?;
            let lock = blocking::Mutex::new(&client, "/l")?;
            let fail = |_: &Lease| Err::<(), _>(zklock::internal::bad_argument("x", "y"));
            assert_eq!(lock.once("a", fail).expect_err("the body's error").argument(), Some("x"));
            assert_eq!(lock.once("a", Lease::check)?, Some(()));
            assert_eq!(lock.once_within("a", HOUR, Lease::check)?, None);
            assert_eq!(lock.once_per(HOUR, Lease::check)?, Some(()));
            assert!(!lock.locked()?);
            Ok::<_, Error>(())
        });
        blocking.await.expect("no panic").expect("no error");
    });
}

#[test]
fn five_clients_run_each_slot_once() {
    run(async {
        let server = server().await;
        let mut clients = Vec::new();
        for _ in 0..5 {
            clients.push(client(&server.hosts()).await);
        }
        for number in 0..30 {
            let count = Arc::new(AtomicUsize::new(0));
            let tasks: Vec<_> = clients
                .iter()
                .map(|client| {
                    let (lock, count) = (mutex(client, "/l"), Arc::clone(&count));
                    tokio::spawn(async move {
                        let body = |_| async move {
                            count.fetch_add(1, Ordering::Relaxed);
                            Ok::<_, Error>(())
                        };
                        lock.once(number.to_string(), body).await.expect("an answer").is_some()
                    })
                })
                .collect();
            let mut ran = 0;
            for task in tasks {
                ran += usize::from(task.await.expect("no panic"));
            }
            assert_eq!((ran, count.load(Ordering::Relaxed)), (1, 1), "{number}");
            assert_eq!(slot(&clients[0]).await, Some(number.to_string()));
        }
        until_contenders(&mutex(&clients[0], "/l"), 0).await;
    });
}

/// Replies are lost, requests are refused and sessions end while slots run. No slot is recorded
/// twice, and no body begins for a slot that is already recorded.
#[test]
fn slots_are_recorded_once_despite_faults() {
    run(async {
        let server = Arc::new(server().await);
        let mut clients = Vec::new();
        for number in 0..3 {
            let proxy = Proxy::start(server.hosts()).await;
            let mut count = number;
            proxy.rule(move |request| {
                if !request.names("/l") {
                    return RequestEffect::Pass;
                }
                count += 1;
                match count % 11 {
                    0 => RequestEffect::LoseReply,
                    3 | 6 if writes_record(request) => RequestEffect::LoseReply,
                    8 if request.op == op::MULTI => RequestEffect::Refuse(code::UNIMPLEMENTED),
                    _ => RequestEffect::Pass,
                }
            });
            clients.push((client(&proxy.hosts).await, proxy));
        }
        let mut told = 0;
        for number in 0..12 {
            let recorded = Arc::new(AtomicUsize::new(0));
            // End only a few sessions, because a client pauses between consecutive sessions that
            // end early.
            let expires = Arc::new(AtomicBool::new(number % 5 == 4));
            let tasks: Vec<_> = clients
                .iter()
                .map(|(client, _)| {
                    let (lock, recorded, server) =
                        (mutex(client, "/l"), Arc::clone(&recorded), Arc::clone(&server));
                    let expires = Arc::clone(&expires);
                    tokio::spawn(async move {
                        let before = Arc::clone(&recorded);
                        let body = |lease: Arc<Lease>| async move {
                            assert_eq!(
                                before.load(Ordering::Relaxed),
                                0,
                                "slot {number} was recorded before"
                            );
                            if expires.swap(false, Ordering::Relaxed) {
                                server.expire(lease.session_id()).await;
                            }
                            Ok::<_, Error>(())
                        };
                        match lock.once(number.to_string(), body).await {
                            Ok(ran) => recorded.fetch_add(usize::from(ran.is_some()), Ordering::Relaxed),
                            Err(error) => {
                                let expected = [ErrorKind::LockLost, ErrorKind::ConnectionFailed];
                                assert!(expected.contains(&error.kind()), "{error}");
                                0
                            }
                        }
                    })
                })
                .collect();
            for task in tasks {
                task.await.expect("no violation");
            }
            let count = recorded.load(Ordering::Relaxed);
            assert!(count <= 1, "slot {number} was recorded {count} times");
            let observer = super::client(&server.hosts()).await;
            assert!(count == 0 || slot(&observer).await == Some(number.to_string()));
            told += count;
        }
        assert!(told >= 6, "{told} of 12 slots were recorded");
    });
}
