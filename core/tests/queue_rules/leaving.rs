//! Tests that a contender's node is deleted when the contender gives up, releases the lock or is
//! refused (rules 9 and 13).

use zklock::queue::{Action, Event, Outcome, Refusal, Ticket};

use super::fixture::{
    A, B, QueueFixture, create, created, deleted, deletes, grants, list, listed, lost_reply, name, other,
    refusals, release, released, verify, waits, watch, watches,
};

#[test]
fn rule_09_leaving_deletes_the_node_and_drops_the_watches() {
    let mut fixture = QueueFixture::new(1);
    let (node, set) = fixture.queue_up(A, 5, &[other(3), other(4)]);
    let actions = fixture.tell([Event::Leave(A)]);
    assert_eq!(deleted(&actions), [node]);
    let dropped = |node: &str| actions.contains(&Action::Unwatch(watch(&set, node)));
    assert!(dropped(&other(3)) && dropped(&other(4)), "{actions:?}");
    assert_eq!(actions.len(), 3, "its own watch goes with the node: {actions:?}");
    fixture.tell([Event::Deleted(deletes(&actions)[0].0, Outcome::Done(()))]);
    assert!(fixture.0.is_idle());
}

#[test]
fn rule_09_a_shared_watch_goes_with_its_last_user() {
    let mut fixture = QueueFixture::new(1);
    let (first, set) = fixture.queue_up(A, 5, &[other(3), other(4)]);
    fixture.queue_up(B, 6, &[other(3), other(4), first]);
    let actions = fixture.tell([Event::Leave(A)]);
    assert!(!actions.iter().any(|action| matches!(action, Action::Unwatch(_))), "{actions:?}");
    let actions = fixture.tell([Event::Leave(B)]);
    assert!(actions.contains(&Action::Unwatch(watch(&set, &other(4)))), "{actions:?}");
}

#[test]
fn rule_09_leaving_while_the_create_is_under_way_deletes_the_node_when_it_comes() {
    let mut fixture = QueueFixture::new(1);
    let sent = fixture.tell([waits(A)]);
    assert_eq!(fixture.tell([Event::Leave(A)]), []);
    let node = format!("{}0000000005", create(&sent).1);
    let actions = fixture.tell([created(create(&sent).0, &node), listed(list(&sent).0, [&node])]);
    assert_eq!((grants(&actions), deleted(&actions)), (vec![], vec![node]));
}

#[test]
fn rule_09_leaving_with_an_unknown_create_looks_for_the_node_first() {
    let mut fixture = QueueFixture::new(1);
    let (look, name) = lost_reply(&mut fixture, A);
    assert_eq!(fixture.tell([Event::Leave(A)]), []);
    let node = format!("{name}0000000005");
    let (ticket, _) = verify(&fixture.tell([listed(look, [&node])]));
    let actions = fixture.tell([Event::Verified(ticket, Outcome::Done(Some(9)))]);
    assert_eq!((grants(&actions), deleted(&actions)), (vec![], vec![node]));
}

#[test]
fn rule_09_leaving_with_an_unknown_create_ends_when_there_is_no_node() {
    let mut fixture = QueueFixture::new(1);
    let (look, _) = lost_reply(&mut fixture, A);
    fixture.tell([Event::Leave(A)]);
    assert_eq!(fixture.tell([listed(look, &[])]), []);
    fixture.rule_out_late_creates();
}

/// Returns a queue, a node's name and a listing's ticket. The node's contender left before the
/// result of its create was known, so the listing must show whether the node exists.
fn listing_after_the_doubt() -> (QueueFixture, String, Ticket) {
    let mut fixture = QueueFixture::new(1);
    let (look, name) = lost_reply(&mut fixture, A);
    fixture.tell([Event::Leave(A)]);
    assert_eq!(fixture.tell([listed(look, &[])]), []);
    let doubt = fixture.0.doubt().expect("the server might still execute the create");
    let look = fixture.tell([Event::Certain(doubt)]);
    (fixture, format!("{name}0000000005"), list(&look).0)
}

#[test]
fn rule_08_a_doubt_lasts_until_a_listing_is_answered() {
    let (mut fixture, node, look) = listing_after_the_doubt();
    let refused = Event::Listed(look, Outcome::Refused(Refusal::NotAuthorized));
    assert_eq!(fixture.tell([refused]), []);
    let look = fixture.tell([Event::Resync]);
    assert_eq!(deleted(&fixture.tell([listed(list(&look).0, [&node])])), [node]);
}

#[test]
fn rule_08_a_doubt_outlasts_a_listing_whose_reply_is_lost() {
    let (mut fixture, node, look) = listing_after_the_doubt();
    assert_eq!(fixture.tell([Event::Disconnected, Event::Listed(look, Outcome::Lost)]), []);
    assert!(!fixture.0.is_idle(), "the queue must not be dropped before a listing is answered");
    let look = fixture.tell([Event::Connected]);
    assert_eq!(deleted(&fixture.tell([listed(list(&look).0, [&node])])), [node]);
}

#[test]
fn rule_09_a_grant_that_races_the_leave_is_ended_by_a_release() {
    let mut fixture = QueueFixture::new(1);
    let node = fixture.hold(A, 5);
    assert_eq!(fixture.tell([Event::Leave(A)]), []);
    assert_eq!(deleted(&fixture.tell([release(&node)])), [node]);
}

#[test]
fn rule_13_a_release_is_retried_until_the_node_is_gone() {
    let mut fixture = QueueFixture::new(1);
    let node = fixture.hold(A, 5);
    let first = fixture.tell([release(&node)]);
    assert_eq!(fixture.tell([Event::Disconnected]), []);
    assert_eq!(fixture.tell([Event::Deleted(deletes(&first)[0].0, Outcome::Lost)]), []);
    let again = fixture.tell([Event::Connected]);
    assert_eq!(deleted(&again), [node.as_str()]);
    let done = fixture.tell([Event::Deleted(deletes(&again)[0].0, Outcome::NoNode)]);
    assert_eq!(done, [released(&node)]);
    assert!(fixture.0.is_idle());
}

#[test]
fn rule_13_a_release_is_over_when_the_session_is() {
    let mut fixture = QueueFixture::new(1);
    let node = fixture.hold(A, 5);
    fixture.tell([release(&node)]);
    assert_eq!(fixture.tell([Event::SessionLost]), [released(&node)]);
    assert!(fixture.0.is_idle());
}

#[test]
fn rule_13_a_refused_delete_is_answered_and_tried_again_at_the_next_look() {
    let mut fixture = QueueFixture::new(1);
    let node = fixture.hold(A, 5);
    let sent = fixture.tell([release(&node)]);
    let (ticket, _) = deletes(&sent)[0];
    let refused = Outcome::Refused(Refusal::NotAuthorized);
    assert_eq!(fixture.tell([Event::Deleted(ticket, refused)]), [released(&node)]);
    // The queue must not be dropped while the node exists. The next queue for this path would not
    // know that the node belongs to this client.
    assert!(!fixture.0.is_idle());
    assert_eq!(deleted(&fixture.tell([Event::Resync])), [node]);
}

/// Regression: a contender that was refused while its create was in flight left a node behind until
/// the session ended.
#[test]
fn rule_09_a_refusal_deletes_a_node_whose_create_is_still_under_way() {
    let mut fixture = QueueFixture::new(1);
    let first = fixture.tell([waits(A)]);
    let second = fixture.tell([waits(B)]);
    let nodes = [format!("{}0000000000", create(&first).1), format!("{}0000000001", create(&second).1)];
    let refusal = Event::Listed(list(&first).0, Outcome::Refused(Refusal::NotAuthorized));
    let actions = fixture.tell([created(create(&first).0, &nodes[0]), refusal]);
    assert_eq!(refusals(&actions), [(A, Refusal::NotAuthorized), (B, Refusal::NotAuthorized)]);
    assert_eq!(deleted(&actions), [nodes[0].clone()]);
    assert!(!fixture.0.is_idle());
    assert_eq!(deleted(&fixture.tell([created(create(&second).0, &nodes[1])])), [nodes[1].clone()]);
}

/// Regression: a contender was refused while the client verified which session owned its node. The
/// node stayed in the queue without a contender, which caused a panic.
#[test]
fn rule_09_a_refusal_deletes_a_node_that_is_being_verified() {
    let mut fixture = QueueFixture::new(1);
    let (look, name) = lost_reply(&mut fixture, A);
    let node = format!("{name}0000000003");
    let found = fixture.tell([listed(look, [&other(2), &node])]);
    let look = fixture.tell([Event::Resync]);
    let wrapped = other(0).replace("0000000000", "-2147483000");
    let actions = fixture.tell([listed(list(&look).0, [&other(2), &node, &wrapped])]);
    assert_eq!(refusals(&actions), [(A, Refusal::SequenceExhausted)]);
    let actions = fixture.tell([Event::Verified(verify(&found).0, Outcome::Done(Some(9)))]);
    assert_eq!((grants(&actions), deleted(&actions)), (vec![], vec![node]));
}

/// A watch that exceeds the client's limit is never acknowledged, and no event ever ends it, so the
/// queue must drop it.
#[test]
fn rule_09_a_watch_that_was_not_acknowledged_is_dropped_with_its_node() {
    for deleted_by_another in [false, true] {
        let mut fixture = QueueFixture::new(1);
        let node = fixture.hold(A, 5);
        let (watch, _) = watches(&fixture.tell([Event::WatchHold(name(&node))]))[0];
        let actions = if deleted_by_another {
            fixture.tell([Event::Missing(name(&node))])
        } else {
            let sent = fixture.tell([release(&node)]);
            fixture.tell([Event::Deleted(deletes(&sent)[0].0, Outcome::Done(()))])
        };
        assert!(actions.contains(&Action::Unwatch(watch)), "{actions:?}");
        assert!(fixture.0.is_idle() || deleted_by_another);
    }
}
