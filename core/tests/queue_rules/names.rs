//! Tests of node names, and of which children count as contenders (rules 1 and 2).

use zklock::queue::{Action, Event, Intent, Kind, Naming, Outcome, Refusal};

use super::fixture::{
    A, B, QueueFixture, campaigns, create, created, deleted, grants, list, listed, name, other, refusals,
    waits, watched,
};

/// A node name of kazoo's locks and elections.
const KAZOO_NODE: &str = "6cf7b2c1a3d04a5f8f5c1f4e6f2a9b10__lock__0000000002";

#[test]
fn rule_01_a_uuid_is_kept_over_retries_within_a_session() {
    let mut fixture = QueueFixture::new(1);
    let first = fixture.tell([waits(A)]);
    let (lost, unheard) = (create(&first).0, list(&first).0);
    fixture.tell([Event::Disconnected]);
    fixture.tell([Event::Created(lost, Outcome::Lost), Event::Listed(unheard, Outcome::Lost)]);
    let look = fixture.tell([Event::Connected]);
    let again = fixture.tell([listed(list(&look).0, &[])]);
    assert_eq!(create(&again).1, create(&first).1);
}

/// Guards against the bug CURATOR-604: a waiter whose session was replaced found the node of its
/// old session, and acquired the lock through that node.
#[test]
fn rule_01_a_uuid_never_crosses_sessions() {
    let mut fixture = QueueFixture::new(1);
    let (ghost, _) = fixture.queue_up(A, 5, &[other(4)]);
    let again =
        fixture.tell([Event::SessionLost, Event::SessionBegan(2), Event::Connected, Event::TermBegan]);
    assert!(matches!(&again[..], [Action::Create(..), Action::List { .. }]), "{again:?}");
    let (ticket, name) = create(&again);
    assert_ne!(name, ghost[..ghost.len() - 10], "the uuid of the old session");
    // The server still shows the old node. It counts as another client's node ahead of the new one.
    let new = format!("{name}0000000006");
    let actions = fixture.tell([created(ticket, &new), listed(list(&again).0, [&ghost, &new])]);
    assert_eq!((grants(&actions), deleted(&actions)), (vec![], vec![]));
    assert_eq!(watched(&actions), [ghost, new]);
}

#[test]
fn rule_01_an_unknown_create_of_an_old_session_is_not_looked_for_in_the_new_one() {
    let mut fixture = QueueFixture::new(1);
    let first = fixture.tell([waits(A)]);
    fixture.tell([Event::Disconnected, Event::Created(create(&first).0, Outcome::Lost)]);
    let again =
        fixture.tell([Event::SessionLost, Event::SessionBegan(2), Event::Connected, Event::TermBegan]);
    let ghost = format!("{}0000000005", create(&first).1);
    let new = format!("{}0000000006", create(&again).1);
    let actions = fixture.tell([created(create(&again).0, &new), listed(list(&again).0, [&ghost, &new])]);
    assert_eq!((grants(&actions), watched(&actions)), (vec![], vec![ghost, new]));
}

#[test]
fn rule_02_every_child_that_ends_in_a_number_counts_and_others_are_reported_once() {
    let mut fixture = QueueFixture::new(1);
    let (kazoo, plain) = ("0123456789abcdef__lock__0000000001".to_owned(), "x0000000002".to_owned());
    let children = [kazoo.clone(), plain.clone(), "locks".to_owned(), "leases".to_owned()];
    let (node, actions) = fixture.queue_up(A, 3, &children);
    assert_eq!(watched(&actions), [kazoo, plain, node.clone()]);
    let ignored: Vec<_> = actions.iter().filter(|action| matches!(action, Action::Ignored(_))).collect();
    assert_eq!(ignored.len(), 1);
    let look = fixture.reconnect();
    let actions = fixture.tell([listed(list(&look).0, children[2..].iter().chain([&node]))]);
    assert_eq!(grants(&actions), [A]);
    assert!(!actions.iter().any(|action| matches!(action, Action::Ignored(_))));
}

#[test]
fn rule_02_a_sequence_number_close_to_the_end_is_refused_and_the_node_deleted() {
    let mut fixture = QueueFixture::new(1);
    let (node, actions) = fixture.place(A, i32::MAX as u32 - 9, &[]);
    assert_eq!(refusals(&actions), [(A, Refusal::SequenceExhausted)]);
    assert_eq!((grants(&actions), deleted(&actions)), (vec![], vec![node]));
}

#[test]
fn rule_02_a_counter_that_has_wrapped_is_refused_though_our_number_looks_low() {
    let mut fixture = QueueFixture::new(1);
    let wrapped = other(0).replace("0000000000", "-2147483000");
    let (node, actions) = fixture.place(A, 3, &[wrapped]);
    assert_eq!(refusals(&actions), [(A, Refusal::SequenceExhausted)]);
    assert_eq!(deleted(&actions), [node]);
}

#[test]
fn rule_02_a_candidate_beside_kazoo_is_refused_and_its_node_deleted() {
    let mut fixture = QueueFixture::new(1);
    let (node, actions) = fixture.place_as(campaigns(A), 3, &[KAZOO_NODE.to_owned()]);
    assert_eq!(refusals(&actions), [(A, Refusal::BesideKazoo(name(KAZOO_NODE)))]);
    assert_eq!((grants(&actions), deleted(&actions)), (vec![], vec![node]));
}

#[test]
fn rule_02_a_candidate_that_waits_is_refused_when_kazoo_comes_behind_it() {
    let mut fixture = QueueFixture::new(1);
    let latch = other(1).replace("-lock-", "-latch-");
    let (node, actions) = fixture.place_as(campaigns(A), 3, std::slice::from_ref(&latch));
    assert_eq!((refusals(&actions), watched(&actions).len()), (vec![], 2));
    let look = fixture.reconnect();
    let behind = KAZOO_NODE.replace("0000000002", "0000000004");
    let actions = fixture.tell([listed(list(&look).0, [&latch, &node, &behind])]);
    assert_eq!(refusals(&actions), [(A, Refusal::BesideKazoo(name(&behind)))]);
    assert_eq!(deleted(&actions), [node]);
}

#[test]
fn rule_02_a_leader_and_a_lock_stay_when_kazoo_comes() {
    let mut fixture = QueueFixture::new(1);
    let (node, actions) = fixture.place_as(campaigns(A), 1, &[]);
    assert_eq!(grants(&actions), [A]);
    let kazoos = KAZOO_NODE.to_owned();
    let look = fixture.reconnect();
    let actions = fixture.tell(look.iter().map(|_| listed(list(&look).0, [&node, &kazoos])));
    assert_eq!((refusals(&actions), deleted(&actions)), (vec![], vec![]));

    let mut fixture = QueueFixture::new(1);
    let (_, actions) = fixture.place(B, 3, &[kazoos]);
    assert_eq!((refusals(&actions), deleted(&actions)), (vec![], vec![]));
}

/// A zklock lock under kazoo's names and an election candidate on the same path exclude each other.
#[test]
fn rule_02_a_node_of_the_same_session_under_kazoos_names_is_no_contender_on_kazoo() {
    let mut fixture = QueueFixture::new(1);
    let lock = fixture.tell([Event::Join(B, Naming::Kazoo, Kind::Exclusive, Intent::Wait)]);
    // The lock's create is in flight, and a listing shows its node.
    let own = format!("{}0000000002", create(&lock).1);
    fixture.tell([listed(list(&lock).0, [])]);
    let candidate = fixture.tell([campaigns(A)]);
    let node = format!("{}0000000003", create(&candidate).1);
    let actions =
        fixture.tell([created(create(&candidate).0, &node), listed(list(&candidate).0, [&own, &node])]);
    assert_eq!((refusals(&actions), grants(&actions)), (vec![], vec![]));
}
