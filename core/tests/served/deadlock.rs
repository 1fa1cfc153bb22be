//! Tests of deadlocks between two owners. The first owner that times out gets an error that reports
//! the deadlock.

use std::time::Duration;

use tokio::task::JoinHandle;
use zklock::{
    AnyLock, Client, Error, Lease, Lock, LockOptions, MultiLock, Mutex, Owner, ReadWriteLock, Timeout,
};

use super::proxy::{Request, RequestEffect, op};
use super::{behind_proxy, client, mutex, options, run, server, until_contenders};

/// Timeout of an acquire. The client searches for a deadlock in its last quarter, which is long
/// enough even on a busy machine.
const AMPLE: Duration = Duration::from_secs(4);

async fn hold_as(lock: &Lock, owner: &Owner) -> Lease {
    lock.acquire_as(owner, Timeout::Forever).await.expect("the lock")
}

/// Starts an acquire that waits until it is aborted.
fn wait_as(lock: &Lock, owner: &Owner) -> JoinHandle<()> {
    let (lock, owner) = (lock.clone(), owner.clone());
    tokio::spawn(async move { drop(lock.acquire_as(&owner, Timeout::Forever).await) })
}

/// Returns the error of an acquire that must time out.
async fn time_out(lock: impl Into<AnyLock>, owner: &Owner) -> Error {
    lock.into().acquire_as(owner, AMPLE).await.expect_err("it is held")
}

/// Returns the read lock and the write lock of a path.
fn halves(client: &Client, path: &str) -> (Lock, Lock) {
    let ReadWriteLock { read_lock, write_lock, .. } = ReadWriteLock::new(client, path).expect("a path");
    (read_lock, write_lock)
}

#[test]
fn two_owners_that_wait_for_each_other_are_named() {
    run(async {
        let server = server().await;
        let one = client(&server.hosts()).await;
        let other =
            Client::connect_with(options(&server.hosts()).label(Some("worker-2".into())).expect("a label"))
                .await
                .expect("a server");
        let told = async |one: &Client, other: &Client, [a, b]: [&str; 2]| {
            let (first, second) = (Owner::named("first"), Owner::named("second"));
            let _held = hold_as(&mutex(one, a), &first).await;
            let theirs = hold_as(&mutex(other, b), &second).await;
            let waiting = wait_as(&mutex(other, a), &second);
            until_contenders(&mutex(one, a), 2).await;
            let error = time_out(&mutex(one, b), &first).await;
            let found = error.deadlock().expect("a deadlock");
            assert_eq!((found.held.as_str(), found.waited.as_str()), (a, b));
            assert_eq!((found.other.node.as_str(), found.other.position), (&*theirs.node(), 0));
            let number = second.number();
            let text = format!(
                "deadlock: you hold {a} and wait for {b}; owner {number} (second) of this process holds {b} and waits \
                 for {a}"
            );
            assert_eq!(found.to_string(), text);
            assert!(error.to_string().ends_with(&format!("; {text}")), "{error}");
            assert_eq!(error.blockers().len(), 1);
            waiting.abort();
        };
        // The two owners are in two clients, and then in one client.
        tokio::join!(told(&one, &other, ["/a", "/b"]), told(&one, &one, ["/c", "/d"]));
    });
}

#[test]
fn halves_of_read_write_locks_and_members_of_several_are_found() {
    run(async {
        let server = server().await;
        let (one, other) = (client(&server.hosts()).await, client(&server.hosts()).await);
        let reader_holds = async {
            let (ours, theirs) = (Owner::new(), Owner::new());
            let _read = hold_as(&halves(&one, "/r").0, &ours).await;
            let _held = hold_as(&mutex(&other, "/m"), &theirs).await;
            let waiting = wait_as(&halves(&other, "/r").1, &theirs);
            until_contenders(&mutex(&one, "/r"), 2).await;
            let error = time_out(&mutex(&one, "/m"), &ours).await;
            assert_eq!(error.deadlock().map(|found| found.held.as_str()), Some("/r"), "{error}");
            waiting.abort();
        };
        let reader_waits = async {
            let (ours, theirs) = (Owner::new(), Owner::new());
            let _held = hold_as(&mutex(&one, "/n"), &ours).await;
            let _written = hold_as(&halves(&other, "/w").1, &theirs).await;
            let waiting = wait_as(&mutex(&other, "/n"), &theirs);
            until_contenders(&mutex(&one, "/n"), 2).await;
            let error = time_out(&halves(&one, "/w").0, &ours).await;
            assert_eq!(error.deadlock().map(|found| found.waited.as_str()), Some("/w"), "{error}");
            waiting.abort();
        };
        let member_waits = async {
            let (ours, theirs) = (Owner::new(), Owner::new());
            let _held = hold_as(&mutex(&one, "/x"), &ours).await;
            let _theirs = hold_as(&mutex(&other, "/z"), &theirs).await;
            let waiting = wait_as(&mutex(&other, "/x"), &theirs);
            until_contenders(&mutex(&one, "/x"), 2).await;
            let both = MultiLock::new(["/y", "/z"].map(|path| mutex(&one, path).into())).expect("paths");
            let error = both.acquire_as(&ours, AMPLE).await.expect_err("one is held");
            let found = error.deadlock().map(|found| (found.held.as_str(), found.waited.as_str()));
            assert_eq!(found, Some(("/x", "/z")), "{error}");
            waiting.abort();
        };
        tokio::join!(reader_holds, reader_waits, member_waits);
    });
}

#[test]
fn waits_without_a_cycle_are_not_reported_as_a_deadlock() {
    run(async {
        let server = server().await;
        let (one, other) = (client(&server.hosts()).await, client(&server.hosts()).await);
        let holder_is_idle = async {
            let (ours, theirs) = (Owner::new(), Owner::new());
            let _held = hold_as(&mutex(&one, "/a"), &ours).await;
            let _theirs = hold_as(&mutex(&other, "/b"), &theirs).await;
            // The owner that waits for `/a` does not hold `/b`.
            let waiting = wait_as(&mutex(&other, "/a"), &Owner::new());
            until_contenders(&mutex(&one, "/a"), 2).await;
            let error = time_out(&mutex(&one, "/b"), &ours).await;
            assert_eq!(error.deadlock(), None, "{error}");
            waiting.abort();
        };
        let readers_share = async {
            let (ours, theirs) = (Owner::new(), Owner::new());
            let _read = hold_as(&halves(&one, "/r").0, &ours).await;
            let _shares = hold_as(&halves(&other, "/r").0, &theirs).await;
            let _theirs = hold_as(&mutex(&other, "/m"), &theirs).await;
            let error = time_out(&mutex(&one, "/m"), &ours).await;
            assert_eq!(error.deadlock(), None, "{error}");
        };
        let other_owner_holds = async {
            let (ours, theirs) = (Owner::new(), Owner::new());
            // The owner that holds `/c` does not wait for `/d`.
            let _held = hold_as(&mutex(&one, "/c"), &Owner::new()).await;
            let _theirs = hold_as(&mutex(&other, "/d"), &theirs).await;
            let waiting = wait_as(&mutex(&other, "/c"), &theirs);
            until_contenders(&mutex(&one, "/c"), 2).await;
            let error = time_out(&mutex(&one, "/d"), &ours).await;
            assert_eq!(error.deadlock(), None, "{error}");
            waiting.abort();
        };
        tokio::join!(holder_is_idle, readers_share, other_owner_holds);
    });
}

#[test]
fn only_an_owner_that_holds_locks_searches_for_a_deadlock() {
    run(async {
        let (server, proxy) = behind_proxy().await;
        let (one, other) = (client(&proxy.hosts).await, client(&server.hosts()).await);
        let _theirs = hold_as(&mutex(&other, "/b"), &Owner::new()).await;
        let (holds, nothing) = (Owner::new(), Owner::new());
        let _held = hold_as(&mutex(&one, "/a"), &holds).await;
        for (owner, expected) in [(&nothing, 0), (&holds, 1)] {
            let from = proxy.requests().len();
            drop(time_out(&mutex(&one, "/b"), owner).await);
            let asked = proxy.requests().split_off(from);
            let lists = |path: &str| {
                asked.iter().filter(|request| request.op == op::LIST && request.names(path)).count()
            };
            assert_eq!(lists("/a"), expected);
            // This is the listing that every acquire needs.
            assert_eq!(lists("/b"), 1);
            assert!(!asked.iter().any(|request| request.op == op::MULTI_READ));
        }
    });
}

#[test]
fn an_owner_whose_node_was_handed_on_is_in_no_deadlock() {
    run(async {
        let (server, proxy) = behind_proxy().await;
        let (one, other) = (client(&proxy.hosts).await, client(&server.hosts()).await);
        let (ours, theirs) = (Owner::new(), Owner::new());
        let cohort = Mutex::with_options(&one, "/a", LockOptions::default().cohort(9)).expect("a path");
        let held = hold_as(&cohort, &ours).await;
        let _theirs = hold_as(&mutex(&other, "/b"), &theirs).await;
        let waiting = wait_as(&mutex(&other, "/a"), &theirs);
        until_contenders(&mutex(&other, "/a"), 2).await;
        let next = tokio::spawn(async move { cohort.acquire().await });
        until_contenders(&mutex(&other, "/a"), 3).await;
        let lock = mutex(&one, "/b");
        let attempt = tokio::spawn(async move { time_out(&lock, &ours).await });
        until_contenders(&mutex(&other, "/b"), 2).await;
        let known = proxy.requests().len();
        // At the end, the search checks both nodes of the found owner again.
        let again = |requests: &[Request]| {
            let reads = |request: &Request| request.op == op::MULTI_READ && request.names("/b");
            let looks = |request: &&Request| request.op == op::EXISTS && request.names("/a");
            let pass = requests.iter().position(reads).unwrap_or(requests.len());
            requests[pass..].iter().filter(looks).count() == 2
        };
        while !again(&proxy.requests()[known..]) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        until_contenders(&mutex(&one, "/b"), 2).await;
        held.release().await.expect("held");
        let next = next.await.expect("no panic").expect("the lock");
        assert_eq!(next.handoffs(), 1);
        let error = attempt.await.expect("no panic");
        assert_eq!(error.deadlock(), None, "{error}");
        waiting.abort();
    });
}

#[test]
fn an_owner_that_leaves_during_the_search_is_in_no_deadlock() {
    run(async {
        let (server, proxy) = behind_proxy().await;
        let (one, other) = (client(&proxy.hosts).await, client(&server.hosts()).await);
        let (ours, theirs) = (Owner::new(), Owner::new());
        let _held = hold_as(&mutex(&one, "/a"), &ours).await;
        let _theirs = hold_as(&mutex(&other, "/b"), &theirs).await;
        let waiting = wait_as(&mutex(&other, "/a"), &theirs);
        until_contenders(&mutex(&other, "/a"), 2).await;
        let lock = mutex(&one, "/b");
        let attempt = tokio::spawn(async move { time_out(&lock, &ours).await });
        until_contenders(&mutex(&other, "/b"), 2).await;
        let known = proxy.requests().len();
        let lists = |request: &Request| request.op == op::LIST && request.names("/b");
        proxy.rule(move |request| if lists(request) { RequestEffect::Wait } else { RequestEffect::Pass });
        while !proxy.requests().iter().skip(known).any(lists) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        // The search has found a waiter behind our owner. The waiter leaves before the search lists
        // `/b`.
        waiting.abort();
        until_contenders(&mutex(&other, "/a"), 1).await;
        proxy.rule(|_| RequestEffect::Pass);
        proxy.open();
        let error = attempt.await.expect("no panic");
        assert_eq!(error.deadlock(), None, "{error}");
    });
}
