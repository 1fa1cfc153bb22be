//! Tests of the information that a client has about other contenders, and of how long the client
//! uses it (rules 5 and 10).

use zklock::queue::{Action, Contention, Event, Outcome, Refusal};

use super::fixture::{A, QueueFixture, acknowledged, grants, list, listed, other, watch, watched};

#[test]
fn rule_05_no_tombstones() {
    let mut fixture = QueueFixture::new(1);
    let (node, actions) = fixture.queue_up(A, 5, &[other(3), other(4)]);
    fixture.tell([Event::Gone(watch(&actions, &other(4)))]);
    // A server that has not applied the deletion shows the node again. The node then blocks A
    // again, and is watched again.
    let look = fixture.reconnect();
    let actions = fixture.tell([listed(list(&look).0, [&other(4), &node])]);
    assert_eq!((grants(&actions), watched(&actions)), (vec![], vec![other(4)]));
    // The new watch fails because the node does not exist.
    let actions = fixture.tell([Event::Watched(watch(&actions, &other(4)), Outcome::NoNode)]);
    assert_eq!(grants(&actions), [A]);
}

#[test]
fn rule_05_a_listing_never_revokes_a_grant() {
    let mut fixture = QueueFixture::new(1);
    let node = fixture.hold(A, 5);
    let look = fixture.reconnect();
    let actions = fixture.tell([listed(list(&look).0, [&other(4), &node])]);
    assert_eq!(actions, []);
}

#[test]
fn rule_05_a_change_uses_up_the_watch_which_is_set_again() {
    let mut fixture = QueueFixture::new(1);
    let (_, actions) = fixture.queue_up(A, 5, &[other(4)]);
    let actions = fixture.tell([Event::Changed(watch(&actions, &other(4)))]);
    assert_eq!((grants(&actions), watched(&actions)), (vec![], vec![other(4)]));
    let actions =
        fixture.tell([acknowledged(watch(&actions, &other(4))), Event::Gone(watch(&actions, &other(4)))]);
    assert_eq!(grants(&actions), [A]);
}

#[test]
fn rule_10_nothing_is_granted_before_a_listing_on_the_new_connection() {
    let mut fixture = QueueFixture::new(1);
    let (node, actions) = fixture.queue_up(A, 5, &[other(4)]);
    // The renewed watch fires before the reply to any listing.
    let look = fixture.tell([Event::Disconnected, Event::Connected, Event::Gone(watch(&actions, &other(4)))]);
    assert_eq!(grants(&look), []);
    assert!(list(&look).1);
    assert_eq!(grants(&fixture.tell([listed(list(&look).0, [&node])])), [A]);
}

/// Returns the ticket of a listing that sets a watch on the children.
fn list_and_watch(actions: &[Action]) -> zklock::queue::Ticket {
    let found = actions.iter().find_map(|action| match action {
        Action::ListAndWatch { ticket, .. } => Some(*ticket),
        _ => None,
    });
    found.expect("a listing")
}

#[test]
fn rule_19_the_children_are_watched_while_nodes_may_be_kept() {
    let mut fixture = QueueFixture::new(1);
    let node = fixture.hold(A, 5);
    fixture.0.guard(true);
    let ticket = list_and_watch(&fixture.tell([]));
    assert_eq!(fixture.0.child_watch(), None, "it is not answered");
    fixture.tell([listed(ticket, [&node])]);
    assert_eq!(
        (fixture.0.child_watch(), fixture.0.contention()),
        (Some(ticket), Some(Contention::Uncontended))
    );
    // Another client's contender joins, and the next listing shows it. The client still knows of
    // that contender while it sets the watch again.
    let again = list_and_watch(&fixture.tell([Event::Changed(ticket)]));
    assert_eq!(fixture.0.child_watch(), None);
    fixture.tell([listed(again, [&node, &other(6)]), Event::Changed(again)]);
    assert_eq!((fixture.0.child_watch(), fixture.0.contention()), (None, Some(Contention::Writers)));
    // Without a connection, the client knows nothing about other contenders.
    fixture.tell([Event::Disconnected]);
    assert_eq!(fixture.0.contention(), None);
}

#[test]
fn rule_19_a_listing_that_is_refused_sets_no_watch() {
    let mut fixture = QueueFixture::new(1);
    fixture.hold(A, 5);
    fixture.0.guard(true);
    let ticket = list_and_watch(&fixture.tell([]));
    fixture.tell([Event::Listed(ticket, Outcome::Refused(Refusal::NotAuthorized))]);
    assert_eq!(fixture.0.child_watch(), None);
}

#[test]
fn rule_19_the_watch_goes_when_nothing_may_be_kept() {
    let mut fixture = QueueFixture::new(1);
    let node = fixture.hold(A, 5);
    fixture.0.guard(true);
    let ticket = list_and_watch(&fixture.tell([]));
    fixture.tell([listed(ticket, [&node])]);
    fixture.0.guard(false);
    assert!(fixture.tell([]).contains(&Action::Unwatch(ticket)));
    assert_eq!(fixture.0.child_watch(), None);
}
