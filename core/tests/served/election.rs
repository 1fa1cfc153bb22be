//! Tests of elections.

use std::time::Duration;

use tokio::time::timeout;
use zklock::{Client, Election, ErrorKind, Mutex, Timeout};

use super::proxy::op;
use super::{LIMIT, behind_proxy, client, hold, options, run, server};

#[test]
fn candidates_lead_in_turn_and_an_observer_sees_each_leader() {
    run(async {
        let server = server().await;
        let (one, other) = (client(&server.hosts()).await, client(&server.hosts()).await);
        let watcher = client(&server.hosts()).await;
        let (one, other) = (Election::with_id(&one, "/e", "one"), Election::with_id(&other, "/e", "other"));
        let (one, other) = (one.expect("a path"), other.expect("a path"));
        let mut leaders = Election::new(&watcher, "/e").expect("a path").observe();
        assert_eq!(leaders.next().await.expect("news"), None);
        let leading = one.campaign().await.expect("the lead");
        assert_eq!(leaders.next().await.expect("news").expect("a leader").id, "one");
        assert!(one.is_leader() && !other.is_leader());
        assert!(
            timeout(Duration::from_secs(5), other.campaign_with(Timeout::Try))
                .await
                .expect("an end")
                .is_err()
        );
        let next = other.clone();
        let campaigning = tokio::spawn(async move { next.campaign().await });
        while other.candidates().await.expect("an answer").len() < 2 {
            tokio::task::yield_now().await;
        }
        leading.resign().await.expect("the end of the lead");
        let leader = campaigning.await.expect("no panic").expect("the lead");
        assert_eq!(leaders.next().await.expect("news").expect("a leader").id, "other");
        assert!(!one.is_leader() && other.is_leader());
        assert!(leader.fencing_token() > leading.fencing_token());
        drop(leader);
        assert_eq!(leaders.next().await.expect("news"), None);
    });
}

#[test]
fn a_candidate_next_to_a_kazoo_contender_gets_an_error_with_the_reason() {
    run(async {
        let server = server().await;
        let (operator, candidate) = (client(&server.hosts()).await, client(&server.hosts()).await);
        let gate = hold(&operator, "/gate").await;
        let kazoos = "/e/6cf7b2c1a3d04a5f8f5c1f4e6f2a9b10__lock__0000000000";
        gate.transaction().create("/e", b"").create(kazoos, b"").commit().await.expect("a contender");
        let election = Election::new(&candidate, "/e").expect("a path");
        for timeout in [Timeout::Forever, Timeout::Try] {
            let refused = election.campaign_with(timeout).await.expect_err("kazoo is there");
            let message = refused.to_string();
            assert_eq!(
                (refused.kind(), refused.argument()),
                (ErrorKind::BadArgument, Some("path")),
                "{message}"
            );
            for part in ["\"/e\" cannot be used for this election", "6cf7b2c1", "kazoo.Lock"] {
                assert!(message.contains(part), "{message}");
            }
        }
        // A mutex still queues behind kazoo's node.
        let lock = Mutex::new(&candidate, "/e").expect("a path");
        assert!(lock.try_acquire().await.expect("an answer").is_none());
    });
}

/// The election looks up the shared client only once. Otherwise, the next campaign would use a new
/// client.
#[test]
fn repeated_leadership_ends_when_its_shared_client_closes() {
    run(async {
        let server = server().await;
        let options = options(&server.hosts()).label(Some("leads again and again".into())).expect("a label");
        let (shared, observer) = (Client::shared(&options), client(&server.hosts()).await);
        let election = Election::new(options, "/e").expect("a path");
        let leading = election.run(|lease| {
            let shared = shared.clone();
            async move {
                lease.check()?;
                shared.close().await
            }
        });
        timeout(LIMIT / 2, leading).await.expect("it ends").expect("without an error");
        let seen = Election::new(&observer, "/e").expect("a path");
        assert!(seen.candidates().await.expect("an answer").is_empty());
    });
}

#[test]
fn the_id_of_a_leader_is_read_if_it_is_no_longer_than_4_kib() {
    run(async {
        let (server, proxy) = behind_proxy().await;
        let (operator, watcher) = (client(&server.hosts()).await, client(&proxy.hosts).await);
        let gate = hold(&operator, "/gate").await;
        gate.transaction().create("/e", b"").commit().await.expect("a directory");
        for (length, read) in [(0, 0), (4096, 4096), (4097, 0)] {
            let node = format!("/e/_c_x-latch-{length:010}");
            gate.transaction().create(&node, &vec![b'x'; length]).commit().await.expect("a candidate");
            let mut leaders = Election::new(&watcher, "/e").expect("a path").observe();
            let leader = leaders.next().await.expect("news").expect("a leader");
            assert_eq!((leader.node.as_str(), leader.id.len()), (node.as_str(), read));
            let requests = proxy.requests();
            let reads = requests.iter().filter(|one| one.op == op::GET_DATA && one.names(&node)).count();
            assert_eq!(reads, usize::from(read > 0), "others may have made it as long as they like");
            gate.transaction().delete(&node, None).commit().await.expect("it leaves");
        }
    });
}
