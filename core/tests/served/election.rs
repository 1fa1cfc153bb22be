//! Elections.

use std::time::Duration;

use tokio::time::timeout;
use zklock::{Election, Patience};

use super::{client, run, server};

#[test]
fn candidates_lead_in_turn_and_who_observes_is_told_of_each() {
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
            timeout(Duration::from_secs(5), other.campaign_with(Patience::Try))
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
