//! Tests of lookahead: a waiter watches the two nearest nodes ahead of it, so that a watch event is
//! enough to grant the lock (rule 6).

use zklock::queue::{Action, Event, Intent, Kind, Naming};

use super::fixture::{
    A, B, QueueFixture, acknowledged, create, grants, list, listed, name, other, release, waits, watch,
    watched, writer,
};

#[test]
fn rule_06_lookahead_watches_the_two_nearest_and_the_own_node_in_one_flight() {
    let mut fixture = QueueFixture::new(1);
    let (node, actions) = fixture.place(A, 5, &[other(1), other(2), other(3)]);
    assert_eq!(watched(&actions), [other(2), other(3), node]);
    assert_eq!(actions.len(), 3);
}

#[test]
fn rule_06_lookahead_grants_on_the_event() {
    let mut fixture = QueueFixture::new(1);
    let (_, actions) = fixture.queue_up(A, 5, &[other(4)]);
    let actions = fixture.tell([Event::Gone(watch(&actions, &other(4)))]);
    assert!(matches!(&actions[..], [Action::Grant(A, ..)]), "{actions:?}");
}

#[test]
fn rule_06_lookahead_waits_until_the_own_watch_is_acknowledged() {
    let mut fixture = QueueFixture::new(1);
    let (node, actions) = fixture.place(A, 5, &[other(4)]);
    let nearest = watch(&actions, &other(4));
    assert_eq!(fixture.tell([acknowledged(nearest), Event::Gone(nearest)]), []);
    assert_eq!(grants(&fixture.tell([acknowledged(watch(&actions, &node))])), [A]);
}

#[test]
fn rule_06_lookahead_watches_the_only_one_left_when_the_second_nearest_goes() {
    let mut fixture = QueueFixture::new(1);
    let (_, actions) = fixture.queue_up(A, 5, &[other(1), other(2), other(3)]);
    let next = fixture.tell([Event::Gone(watch(&actions, &other(2)))]);
    assert_eq!((watched(&next), next.len()), (vec![other(1)], 1));
    let near = fixture.tell([acknowledged(watch(&next, &other(1))), Event::Gone(watch(&actions, &other(3)))]);
    assert_eq!(near, [], "the second-nearest became the nearest, and is watched");
    assert_eq!(grants(&fixture.tell([Event::Gone(watch(&next, &other(1)))])), [A]);
}

#[test]
fn rule_06_lookahead_lists_again_when_the_second_nearest_of_many_goes() {
    let mut fixture = QueueFixture::new(1);
    let (node, actions) = fixture.queue_up(A, 6, &[other(1), other(2), other(3), other(4), other(5)]);
    let look = fixture.tell([Event::Gone(watch(&actions, &other(4)))]);
    assert!(matches!(&look[..], [Action::List { sync: false, .. }]), "{look:?}");
    let next = fixture.tell([listed(list(&look).0, [&other(1), &other(5), &node])]);
    assert_eq!(watched(&next), [other(1)]);
}

#[test]
fn rule_06_the_nearest_gone_is_not_enough_while_others_are_before_it() {
    let mut fixture = QueueFixture::new(1);
    let (_, actions) = fixture.queue_up(A, 5, &[other(1), other(2), other(3)]);
    let next = fixture.tell([Event::Gone(watch(&actions, &other(3)))]);
    assert_eq!((grants(&next), watched(&next)), (vec![], vec![other(1)]));
    assert_eq!(fixture.tell([Event::Gone(watch(&actions, &other(2)))]), []);
    let gone = Event::Watched(watch(&next, &other(1)), zklock::queue::Outcome::NoNode);
    assert_eq!(grants(&fixture.tell([gone])), [A], "an answer that there is no node is as good as an event");
}

#[test]
fn rule_06_own_node_gone_joins_again() {
    let mut fixture = QueueFixture::new(1);
    let (node, actions) = fixture.queue_up(A, 5, &[other(4)]);
    let again = fixture.tell([Event::Gone(watch(&actions, &node)), Event::Gone(watch(&actions, &other(4)))]);
    assert_eq!(grants(&again), []);
    assert_ne!(create(&again).1, node[..node.len() - 10]);
}

#[test]
fn rule_06_one_place_that_is_certain_does_not_vouch_for_those_behind_it() {
    let mut fixture = QueueFixture::new(1);
    let (first, near) = fixture.queue_up(A, 2, &[other(1)]);
    let (node, far) = fixture.queue_up(B, 4, &[other(1), first.clone(), other(3)]);
    // The event uses up the watch on B's node, so the client no longer knows whether the node
    // exists.
    let used_up = Event::Changed(watch(&far, &node));
    assert_eq!(fixture.tell([used_up, Event::Gone(watch(&far, &other(3)))]), []);
    assert_eq!(grants(&fixture.tell([Event::Gone(watch(&near, &other(1)))])), [A]);
    let look = fixture.tell([release(&first)]);
    assert_eq!(grants(&look), []);
    let again = fixture.tell([listed(list(&look).0, [])]);
    assert_ne!(create(&again).1, node[..node.len() - 10]);
}

#[test]
fn rule_06_a_vanished_writer_blocks_until_a_later_listing() {
    let mut fixture = QueueFixture::new(1);
    let (node, actions) = fixture.queue_up(A, 5, &[writer(4)]);
    let look = fixture.tell([Event::Gone(watch(&actions, &writer(4)))]);
    assert!(matches!(&look[..], [Action::List { .. }]), "{look:?}");
    // Curator downgraded its lock, so a reader now has the writer's position in the queue.
    let reader = writer(4).replace("__WRIT__", "__READ__");
    let next = fixture.tell([listed(list(&look).0, [&reader, &node])]);
    assert_eq!((grants(&next), watched(&next)), (vec![], vec![reader.clone()]));
    assert_eq!(grants(&fixture.tell([Event::Gone(watch(&next, &reader))])), [A]);
}

#[test]
fn rule_06_a_vanished_writer_is_not_cleared_by_a_listing_from_before() {
    let mut fixture = QueueFixture::new(1);
    let (node, actions) = fixture.queue_up(A, 5, &[writer(4)]);
    let look = fixture.tell([waits(B)]);
    // Both events arrive together, but the listing was made before the writer's node was deleted.
    let next =
        fixture.tell([listed(list(&look).0, [&writer(4), &node]), Event::Gone(watch(&actions, &writer(4)))]);
    assert_eq!(grants(&next), []);
    assert_eq!(grants(&fixture.tell([listed(list(&next).0, [&node])])), [A]);
}

#[test]
fn rule_06_a_heartbeat_that_misses_a_waiters_node_lets_it_join_again() {
    let mut fixture = QueueFixture::new(1);
    let (node, watching) = fixture.queue_up(A, 5, &[other(4)]);
    let again = fixture.tell([Event::Missing(name(&node))]);
    assert!(create(&again).1.starts_with("_c_"));
    assert!(again.contains(&Action::Unwatch(watch(&watching, &node))));
}

/// Regression: under kazoo's naming, the node of a write lock was mistaken for the node of a mutex.
/// When a writer's node was gone after a downgrade, the next waiter was granted the lock, although
/// the reader of the downgrade still held it.
#[test]
fn rule_06_a_vanished_writer_blocks_under_the_names_of_kazoo_too() {
    let mut theirs = QueueFixture::new(2);
    let writer = create(&theirs.tell([Event::Join(A, Naming::Kazoo, Kind::Write, Intent::Wait)])).1;
    let (writer, reader) = (format!("{writer}0000000004"), "f00d__rlock__0000000004".to_owned());
    assert!(writer.contains("__lock__0000000004"), "kazoo must know it for a lock: {writer}");
    let mut fixture = QueueFixture::new(1);
    let (node, actions) = fixture.queue_up(A, 5, std::slice::from_ref(&writer));
    let look = fixture.tell([Event::Gone(watch(&actions, &writer))]);
    assert_eq!(grants(&look), []);
    let next = fixture.tell([listed(list(&look).0, [&reader, &node])]);
    assert_eq!((grants(&next), watched(&next)), (vec![], vec![reader]));
}
