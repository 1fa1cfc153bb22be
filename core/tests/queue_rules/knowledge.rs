//! The client's knowledge of other contenders, and its lifetime (rules 5 and 10).

use zklock::queue::{Action, Contention, Event, Outcome, Refusal};

use super::desk::{A, Desk, acknowledged, grants, list, listed, other, watch, watched};

#[test]
fn rule_05_no_tombstones() {
    let mut desk = Desk::new(1);
    let (node, actions) = desk.queue_up(A, 5, &[other(3), other(4)]);
    desk.tell([Event::Gone(watch(&actions, &other(4)))]);
    // A server that is behind the event shows the node again. The node counts, and is watched
    // again.
    let look = desk.reconnect();
    let actions = desk.tell([listed(list(&look).0, [&other(4), &node])]);
    assert_eq!((grants(&actions), watched(&actions)), (vec![], vec![other(4)]));
    // The deletion is reported again, this time because the node cannot be watched.
    let actions = desk.tell([Event::Watched(watch(&actions, &other(4)), Outcome::NoNode)]);
    assert_eq!(grants(&actions), [A]);
}

#[test]
fn rule_05_a_listing_never_revokes_a_grant() {
    let mut desk = Desk::new(1);
    let node = desk.hold(A, 5);
    let look = desk.reconnect();
    let actions = desk.tell([listed(list(&look).0, [&other(4), &node])]);
    assert_eq!(actions, []);
}

#[test]
fn rule_05_a_change_uses_up_the_watch_which_is_set_again() {
    let mut desk = Desk::new(1);
    let (_, actions) = desk.queue_up(A, 5, &[other(4)]);
    let actions = desk.tell([Event::Changed(watch(&actions, &other(4)))]);
    assert_eq!((grants(&actions), watched(&actions)), (vec![], vec![other(4)]));
    let actions =
        desk.tell([acknowledged(watch(&actions, &other(4))), Event::Gone(watch(&actions, &other(4)))]);
    assert_eq!(grants(&actions), [A]);
}

#[test]
fn rule_10_nothing_is_granted_before_a_listing_on_the_new_connection() {
    let mut desk = Desk::new(1);
    let (node, actions) = desk.queue_up(A, 5, &[other(4)]);
    // The renewed watch fires before any listing.
    let look = desk.tell([Event::Disconnected, Event::Connected, Event::Gone(watch(&actions, &other(4)))]);
    assert_eq!(grants(&look), []);
    assert!(list(&look).1);
    assert_eq!(grants(&desk.tell([listed(list(&look).0, [&node])])), [A]);
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
    let mut desk = Desk::new(1);
    let node = desk.hold(A, 5);
    desk.0.guard(true);
    let ticket = list_and_watch(&desk.tell([]));
    assert_eq!(desk.0.child_watch(), None, "it is not answered");
    desk.tell([listed(ticket, [&node])]);
    assert_eq!((desk.0.child_watch(), desk.0.contention()), (Some(ticket), Some(Contention::Uncontended)));
    // Another client's contender joins. The next listing reports it, and this knowledge remains
    // while the watch is set again.
    let again = list_and_watch(&desk.tell([Event::Changed(ticket)]));
    assert_eq!(desk.0.child_watch(), None);
    desk.tell([listed(again, [&node, &other(6)]), Event::Changed(again)]);
    assert_eq!((desk.0.child_watch(), desk.0.contention()), (None, Some(Contention::Writers)));
    // Without a connection, the client knows nothing about other contenders.
    desk.tell([Event::Disconnected]);
    assert_eq!(desk.0.contention(), None);
}

#[test]
fn rule_19_a_listing_that_is_refused_sets_no_watch() {
    let mut desk = Desk::new(1);
    desk.hold(A, 5);
    desk.0.guard(true);
    let ticket = list_and_watch(&desk.tell([]));
    desk.tell([Event::Listed(ticket, Outcome::Refused(Refusal::NotAuthorized))]);
    assert_eq!(desk.0.child_watch(), None);
}

#[test]
fn rule_19_the_watch_goes_when_nothing_may_be_kept() {
    let mut desk = Desk::new(1);
    let node = desk.hold(A, 5);
    desk.0.guard(true);
    let ticket = list_and_watch(&desk.tell([]));
    desk.tell([listed(ticket, [&node])]);
    desk.0.guard(false);
    assert!(desk.tell([]).contains(&Action::Unwatch(ticket)));
    assert_eq!(desk.0.child_watch(), None);
}
