//! What is known of others, and for how long (rules 5 and 10).

use zklock::queue::{Event, Outcome};

use super::desk::{A, Desk, acknowledged, grants, list, listed, other, watch, watched};

#[test]
fn rule_05_no_tombstones() {
    let mut desk = Desk::new(1);
    let (node, actions) = desk.queue_up(A, 5, &[other(3), other(4)]);
    desk.tell([Event::Gone(watch(&actions, &other(4)))]);
    // A server that is behind the event shows the node again: it counts, and is watched again.
    let look = desk.reconnect();
    let actions = desk.tell([listed(list(&look).0, [&other(4), &node])]);
    assert_eq!((grants(&actions), watched(&actions)), (vec![], vec![other(4)]));
    // Told the same once more, and by the node's absence this time.
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
    // The watch, set again, fires before anything else is known.
    let look = desk.tell([Event::Disconnected, Event::Connected, Event::Gone(watch(&actions, &other(4)))]);
    assert_eq!(grants(&look), []);
    assert!(list(&look).1);
    assert_eq!(grants(&desk.tell([listed(list(&look).0, [&node])])), [A]);
}
