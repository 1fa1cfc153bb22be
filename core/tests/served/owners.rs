//! Tests of the owners inside a client, as other clients see them.

use std::time::Duration;

use zklock::{Client, Lease, LockOptions, MultiLock, Mutex, Owner, ReadWriteLock, Semaphore, Timeout, dump};

use super::{client, mutex, options, run, server, until_contenders};

const BRIEF: Duration = Duration::from_millis(50);

async fn hold_as(client: &Client, path: &str, owner: &Owner) -> Lease {
    mutex(client, path).acquire_as(owner, Timeout::Forever).await.expect("the lock")
}

/// Returns the number and name of each contender's owner.
async fn told(client: &Client, path: &str) -> Vec<Option<(u64, Option<String>)>> {
    let contenders = mutex(client, path).contenders().await.expect("an answer");
    let owner = |contender: &zklock::Contender| {
        let owner = contender.about.as_ref()?.owner.as_ref()?;
        Some((owner.number, owner.name.clone()))
    };
    contenders.iter().map(owner).collect()
}

#[test]
fn other_contenders_see_an_owner_by_number_and_name() {
    run(async {
        let server = server().await;
        let (client, other) = (client(&server.hosts()).await, client(&server.hosts()).await);
        let (owner, nobody) = (Owner::named("nightly \"report\""), Owner::new());
        let named = Some((owner.number(), Some("nightly \"report\"".to_owned())));
        let _leases = [hold_as(&client, "/a", &owner).await, hold_as(&client, "/b", &owner).await];
        let _unnamed = hold_as(&client, "/c", &nobody).await;
        for path in ["/a", "/b"] {
            assert_eq!(told(&other, path).await, std::slice::from_ref(&named));
        }
        assert_eq!(told(&other, "/c").await, [Some((nobody.number(), None))]);
        let process = async |path| {
            let contenders = mutex(&other, path).contenders().await.expect("an answer");
            contenders[0].about.as_ref().and_then(|about| Some(about.owner.as_ref()?.process))
        };
        assert_eq!(process("/a").await, process("/c").await);
    });
}

#[test]
fn a_wait_that_times_out_names_the_owner_of_each_blocker() {
    run(async {
        let server = server().await;
        let (client, other) = (client(&server.hosts()).await, client(&server.hosts()).await);
        let owner = Owner::named("worker-2");
        let _lease = hold_as(&client, "/a", &owner).await;
        let number = owner.number();
        for (waiter, word) in [(&client, "number"), (&other, "owner")] {
            let refused = mutex(waiter, "/a").acquire_within(BRIEF).await.expect_err("it is held");
            assert!(
                refused.to_string().contains(&format!(", {word} {number} (worker-2), since ")),
                "{refused}"
            );
            let blocker = refused.blockers()[0].about.clone().expect("one of ours");
            assert_eq!(
                blocker.owner.map(|owner| (owner.number, owner.name)),
                Some((number, Some("worker-2".into())))
            );
        }
    });
}

#[test]
fn health_and_dump_name_the_owners_of_waits_and_holds() {
    run(async {
        let server = server().await;
        let client = client(&server.hosts()).await;
        let (holder, waiter) = (Owner::named("holds"), Owner::named("waits"));
        let _lease = hold_as(&client, "/named", &holder).await;
        let (lock, same) = (mutex(&client, "/named"), waiter.clone());
        let waiting = tokio::spawn(async move { lock.acquire_as(&same, Timeout::Forever).await });
        until_contenders(&mutex(&client, "/named"), 2).await;
        let health = client.health();
        assert_eq!((&health.holds[0].owner, health.holds[0].owner.name()), (&holder, Some("holds")));
        assert_eq!((&health.waits[0].owner, health.waits[0].owner.name()), (&waiter, Some("waits")));
        let text = dump();
        for owner in [&holder, &waiter] {
            let shown = format!(", by owner {} ({})\n", owner.number(), owner.name().expect("a name"));
            assert!(text.contains(&shown), "{text}");
        }
        waiting.abort();
    });
}

#[test]
fn each_kind_of_lock_tells_the_owner_that_asked() {
    run(async {
        let server = server().await;
        let (client, other) = (client(&server.hosts()).await, client(&server.hosts()).await);
        let owner = Owner::named("asks");
        let expected = [Some((owner.number(), Some("asks".to_owned())))];
        let both = ReadWriteLock::new(&client, "/both").expect("a path");
        let _written = both.write_lock.acquire_as(&owner, Timeout::Forever).await.expect("the lock");
        let _read = both.read_lock.acquire_as(&owner, Timeout::Forever).await.expect("a downgrade");
        assert_eq!(told(&other, "/both").await, [&expected[..], &expected[..]].concat());
        let several = MultiLock::new(["/m1", "/m2"].map(|path| mutex(&client, path).into())).expect("paths");
        let _several = several.acquire_as(&owner, Timeout::Forever).await.expect("the locks");
        assert_eq!(told(&other, "/m2").await, expected);
        // If a lock is not re-entrant, each acquire has its own owner, but other clients see the
        // owner that the caller named.
        let once = LockOptions::default().reentrant(false);
        let once = Mutex::with_options(&client, "/once", once).expect("a path");
        let lease = once.acquire_as(&owner, Timeout::Forever).await.expect("the lock");
        assert_ne!(lease.owner(), owner);
        assert_eq!(told(&other, "/once").await, expected);
        // A permit's owner has no name.
        let _permit =
            Semaphore::new(&client, "/permits", 2).expect("a path").acquire().await.expect("a permit");
        assert!(matches!(told(&other, "/permits/leases").await[..], [Some((_, None))]));
    });
}

#[test]
fn a_lease_gives_its_owner_with_its_name() {
    run(async {
        let server = server().await;
        let client = client(&server.hosts()).await;
        let owner = Owner::named("inner");
        let lease = hold_as(&client, "/a", &owner).await;
        assert_eq!((lease.owner(), lease.owner().name()), (owner, Some("inner")));
    });
}

#[test]
fn a_client_that_does_not_identify_itself_does_not_report_owners() {
    run(async {
        let server = server().await;
        let secret = Client::connect_with(options(&server.hosts()).identify(false)).await.expect("a server");
        let other = client(&server.hosts()).await;
        let _lease = hold_as(&secret, "/secret", &Owner::named("nobody's business")).await;
        assert_eq!(told(&other, "/secret").await, [None]);
        let refused = mutex(&other, "/secret").acquire_within(BRIEF).await.expect_err("it is held");
        assert!(!refused.to_string().contains("owner"), "{refused}");
    });
}
