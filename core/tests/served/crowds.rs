//! More nodes than are dealt with at once.

use std::time::Duration;

use super::proxy::op;
use super::{behind_proxy, brief_client, client, hold, mutex, run, server};

#[test]
fn of_many_nodes_that_are_held_each_is_checked_in_its_turn() {
    run(async {
        let (_server, proxy) = behind_proxy().await;
        let client = brief_client(&proxy.hosts, Duration::from_secs(3)).await;
        let mut leases = Vec::new();
        for number in 0..300 {
            leases.push(hold(&client, &format!("/l{number}")).await);
        }
        let known = proxy.requests().len();
        let beats = || {
            let requests = proxy.requests().split_off(known);
            requests.into_iter().filter(|request| request.op == op::MULTI).collect::<Vec<_>>()
        };
        // Each sixth of the time-out a heartbeat, of 128 nodes at most: the fourth has seen them all.
        while beats().len() < 4 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let beats = beats();
        let unchecked = leases.iter().filter(|lease| !beats.iter().any(|beat| beat.names(&lease.node())));
        assert_eq!(unchecked.count(), 0, "of {}", leases.len());
        for beat in &beats {
            let nodes = leases.iter().filter(|lease| beat.names(&lease.node())).count();
            assert!((1..=128).contains(&nodes), "{nodes}");
        }
    });
}

#[test]
fn more_than_a_thousand_contenders_are_reported_in_order() {
    run(async {
        let server = server().await;
        let client = client(&server.hosts()).await;
        let lease = hold(&client, "/gate").await;
        drop(hold(&client, "/l").await);
        let mut crowd = lease.transaction();
        for number in (1_000..2_050).rev() {
            crowd = crowd.create(&format!("/l/_c_x-lock-{number:010}"), b"");
        }
        crowd.commit().await.expect("a crowd");
        let contenders = mutex(&client, "/l").contenders().await.expect("an answer");
        let expected: Vec<_> = (1_000..2_050).map(|number| format!("/l/_c_x-lock-{number:010}")).collect();
        let found: Vec<_> = contenders.iter().map(|contender| contender.node.clone()).collect();
        assert_eq!(found, expected);
        assert!(contenders.iter().enumerate().all(|(position, contender)| contender.position == position));
    });
}
