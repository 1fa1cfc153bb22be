//! Tests of the checks for missed events (rule 10). A waiter that receives no event for a while
//! checks whether a few nodes still exist. After a reconnection, a waiter far from the front defers
//! its listing.

use zklock::queue::{Action, Event, Intent, JoinId, Kind, NEAR, Naming, Outcome, Refusal, Ticket};

use super::fixture::{
    A, B, QueueFixture, acknowledged, create, created, grants, list, listed, lists, name, other, release,
    waits, watch, watched, watches, writer,
};

fn crowd(range: impl IntoIterator<Item = u32>) -> Vec<String> {
    range.into_iter().map(other).collect()
}

fn probe(actions: &[Action]) -> (Ticket, Vec<String>) {
    match actions {
        [Action::Probe(ticket, nodes)] => {
            (*ticket, nodes.iter().map(|node| node.as_str().to_owned()).collect())
        }
        _ => panic!("not one probe: {actions:?}"),
    }
}

fn probed<'a>(ticket: Ticket, gone: impl IntoIterator<Item = &'a String>) -> Event {
    Event::Probed(ticket, Outcome::Done(gone.into_iter().map(|node| name(node)).collect()))
}

/// Queues A behind the nodes 1 to 4, so that A is far from the front. Returns A's node and the
/// actions that set A's watches.
fn far(fixture: &mut QueueFixture) -> (String, Vec<Action>) {
    fixture.queue_up(A, 5, &crowd(1..=4))
}

/// Reconnects a client whose only contender is far from the front. Checks that the queue sends no
/// request.
fn deferred() -> (QueueFixture, String, Vec<Action>) {
    let mut fixture = QueueFixture::new(1);
    let (node, set) = far(&mut fixture);
    assert_eq!(fixture.reconnect(), []);
    assert!(fixture.0.defers_listing() && !fixture.0.is_near());
    (fixture, node, set)
}

/// An event arrives together with the end of the connection, before the next node is watched.
#[test]
fn rule_10_a_far_waiter_whose_watch_has_fired_lists_after_a_reconnection() {
    let mut fixture = QueueFixture::new(1);
    let (_, set) = fixture.queue_up(A, 9, &crowd(1..=8));
    fixture.tell([Event::Gone(watch(&set, &other(7))), Event::Disconnected]);
    assert!(!fixture.0.defers_listing());
    assert_eq!(lists(&fixture.tell([Event::Connected])), 1);
}

#[test]
fn rule_10_a_check_asks_for_the_own_node_and_the_watched_ones_however_many_wait() {
    for others in [1, 4, 40, 4_000] {
        let mut fixture = QueueFixture::new(1);
        let (node, set) =
            fixture.queue_up(A, others + 1, &crowd((1..=others).chain(others + 2..=2 * others)));
        for _ in 0..3 {
            let (ticket, nodes) = probe(&fixture.tell([Event::Resync]));
            assert_eq!(nodes, watched(&set), "{others}");
            assert_eq!(nodes.last(), Some(&node));
            assert_eq!(fixture.tell([Event::Resync]), [], "one at a time");
            assert_eq!(fixture.tell([probed(ticket, &[])]), []);
        }
    }
}

#[test]
fn rule_10_a_check_that_misses_a_node_of_another_client_calls_for_a_listing_and_grants_nothing() {
    for gone in [other(4), writer(4)] {
        let mut fixture = QueueFixture::new(1);
        let (node, _) = fixture.queue_up(A, 5, std::slice::from_ref(&gone));
        let (ticket, _) = probe(&fixture.tell([Event::Resync]));
        let look = fixture.tell([probed(ticket, [&gone])]);
        assert_eq!((grants(&look), lists(&look), look.len()), (vec![], 1, 1));
        assert_eq!(grants(&fixture.tell([listed(list(&look).0, [&node])])), [A]);
    }
}

#[test]
fn rule_10_a_check_that_misses_what_an_event_has_told_meanwhile_says_nothing_new() {
    let mut fixture = QueueFixture::new(1);
    let (_, set) = fixture.queue_up(A, 5, &crowd([3, 4]));
    let (ticket, _) = probe(&fixture.tell([Event::Resync]));
    assert_eq!(fixture.tell([Event::Gone(watch(&set, &other(3))), probed(ticket, [&other(3)])]), []);
    assert_eq!(grants(&fixture.tell([Event::Gone(watch(&set, &other(4)))])), [A]);
}

#[test]
fn rule_10_a_check_that_misses_the_own_node_joins_again() {
    for reconnected in [false, true] {
        let mut fixture = QueueFixture::new(1);
        let (node, set) = far(&mut fixture);
        if reconnected {
            assert_eq!(fixture.reconnect(), []);
        }
        let (ticket, _) = probe(&fixture.tell([Event::Resync]));
        let again = fixture.tell([probed(ticket, [&node])]);
        assert_ne!(create(&again).1, node[..node.len() - 10]);
        assert!(again.contains(&Action::Unwatch(watch(&set, &node))));
    }
}

#[test]
fn rule_10_a_check_whose_answer_is_lost_is_repeated_and_one_that_is_refused_gives_way_to_listings() {
    let mut fixture = QueueFixture::new(1);
    let (node, _) = far(&mut fixture);
    let (ticket, _) = probe(&fixture.tell([Event::Resync]));
    assert_eq!(fixture.tell([Event::Probed(ticket, Outcome::Lost)]), []);
    let (ticket, _) = probe(&fixture.tell([Event::Resync]));
    let refused = Refusal::Server("it knows no multiRead".to_owned());
    let look = fixture.tell([Event::Probed(ticket, Outcome::Refused(refused))]);
    let all: Vec<_> = crowd(1..=4).into_iter().chain([node]).collect();
    assert_eq!(fixture.tell([listed(list(&look).0, &all)]), []);
    list(&fixture.tell([Event::Resync]));
}

#[test]
fn rule_10_many_of_one_client_are_checked_in_turn_and_the_first_each_time() {
    let mut fixture = QueueFixture::new(1);
    let (first, _) = fixture.queue_up(A, 5, &crowd(1..=4));
    let mut all = vec![first.clone()];
    for number in 6..26 {
        let sent = fixture.tell([waits(JoinId(number))]);
        let node = format!("{}{number:010}", create(&sent).1);
        let mut next = fixture.tell([created(create(&sent).0, &node)]);
        all.push(node);
        next.extend(sent);
        for look in next.iter().filter(|action| matches!(action, Action::List { .. })) {
            let children: Vec<_> = crowd(1..=4).into_iter().chain(all.clone()).collect();
            fixture.tell([listed(list(std::slice::from_ref(look)).0, &children)]);
        }
    }
    let mut checked = std::collections::BTreeSet::new();
    for _ in 0..6 {
        let (ticket, nodes) = probe(&fixture.tell([Event::Resync]));
        assert!(nodes.len() <= 8, "{nodes:?}");
        assert_eq!(nodes[..3], [other(3), other(4), first.clone()]);
        checked.extend(nodes);
        fixture.tell([probed(ticket, &[])]);
    }
    assert_eq!(checked.len(), all.len() + 2, "each of them, and the two that are watched");
}

#[test]
fn rule_10_a_queue_in_doubt_or_of_permits_lists() {
    let mut fixture = QueueFixture::new(1);
    let permit = Event::Join(A, Naming::Curator, Kind::Permit(1), Intent::Wait);
    let sent = fixture.tell([permit]);
    let node = format!("{}0000000005", create(&sent).1);
    let watching = fixture.tell([created(create(&sent).0, &node), listed(list(&sent).0, [&other(1), &node])]);
    let Some(Action::ListAndWatch { ticket, .. }) = watching.first() else { panic!("{watching:?}") };
    fixture.tell([listed(*ticket, [&other(1), &node])]);
    list(&fixture.tell([Event::Resync]));
}

#[test]
fn rule_10_where_all_of_ours_hold_there_is_nothing_to_look_at() {
    let mut fixture = QueueFixture::new(1);
    let node = fixture.hold(A, 5);
    assert_eq!(fixture.tell([Event::Resync]), []);
    let (waiter, _) = fixture.place(B, 6, &[node]);
    assert_eq!(probe(&fixture.tell([Event::Resync])).1, [waiter], "the holder's is the heartbeat's");
}

#[test]
fn rule_10_a_waiter_that_waits_only_for_the_watch_on_its_own_node_lists_after_a_silence() {
    let mut fixture = QueueFixture::new(1);
    // The watch on A's own node is never acknowledged, because the client has too many watches.
    let (node, set) = fixture.place(A, 5, &[other(4)]);
    assert_eq!(fixture.tell([Event::Gone(watch(&set, &other(4)))]), []);
    let look = fixture.tell([Event::Resync]);
    assert_eq!(grants(&fixture.tell([listed(list(&look).0, [&node])])), [A]);
}

#[test]
fn rule_10_a_far_waiter_lists_nothing_when_it_is_connected_again_and_a_near_one_does() {
    for others in 1..=6 {
        let mut fixture = QueueFixture::new(1);
        let (node, set) = fixture.queue_up(A, others + 1, &crowd(1..=others));
        let far = others as usize > NEAR;
        for _ in 0..3 {
            let next = fixture.reconnect();
            assert_eq!(fixture.0.defers_listing(), far);
            if far {
                assert_eq!(next, []);
                assert_eq!(fixture.0.ahead_of(A), Some(others as usize), "as far as was known");
                let (ticket, nodes) = probe(&fixture.tell([Event::Resync]));
                assert_eq!(nodes, watched(&set));
                assert_eq!(fixture.tell([probed(ticket, &[])]), []);
            } else {
                assert!(list(&next).1, "after a sync");
                let all: Vec<_> = crowd(1..=others).into_iter().chain([node.clone()]).collect();
                let again = fixture.tell([listed(list(&next).0, &all)]);
                let acknowledged = watches(&again).into_iter().map(|(ticket, _)| acknowledged(ticket));
                fixture.tell(acknowledged);
            }
        }
    }
}

#[test]
fn rule_10_a_deferred_listing_comes_before_the_grant_in_whatever_order_the_watches_fire() {
    for order in [[3, 4], [4, 3]] {
        let (mut fixture, node, set) = deferred();
        let look = fixture.tell([Event::Gone(watch(&set, &other(order[0])))]);
        assert_eq!(grants(&look), []);
        let ticket = list(&look).0;
        assert_eq!(grants(&fixture.tell([Event::Gone(watch(&set, &other(order[1])))])), []);
        assert_eq!(grants(&fixture.tell([listed(ticket, [&node])])), [A]);
    }
}

#[test]
fn rule_10_an_event_that_came_while_the_connection_was_lost_calls_for_the_listing() {
    let mut fixture = QueueFixture::new(1);
    let (node, set) = far(&mut fixture);
    fixture.tell([Event::Disconnected, Event::Gone(watch(&set, &other(4)))]);
    let look = fixture.tell([Event::Connected]);
    assert_eq!(grants(&look), []);
    assert_eq!(grants(&fixture.tell([listed(list(&look).0, [&node])])), [A]);
}

#[test]
fn rule_10_the_own_node_s_end_or_a_change_of_it_calls_for_the_listing() {
    let (mut fixture, node, set) = deferred();
    let again = fixture.tell([Event::Gone(watch(&set, &node))]);
    assert_ne!(create(&again).1, node[..node.len() - 10]);
    assert_eq!(lists(&again), 1);
    let (mut fixture, node, set) = deferred();
    list(&fixture.tell([Event::Changed(watch(&set, &node))]));
    // The connection is lost before the watch is acknowledged.
    let mut fixture = QueueFixture::new(1);
    let (_, set) = fixture.place(A, 5, &crowd(1..=4));
    let look = fixture.tell([
        Event::Disconnected,
        Event::Watched(watch(&set, &other(4)), Outcome::Lost),
        Event::Connected,
    ]);
    list(&look);
}

#[test]
fn rule_10_a_check_that_misses_a_watched_node_after_a_reconnection_calls_for_the_listing() {
    let (mut fixture, node, _) = deferred();
    let (ticket, _) = probe(&fixture.tell([Event::Resync]));
    let look = fixture.tell([probed(ticket, [&other(4)])]);
    assert_eq!(grants(&look), []);
    assert_eq!(grants(&fixture.tell([listed(list(&look).0, [&node])])), [A]);
}

#[test]
fn rule_10_a_join_or_leave_next_to_a_far_waiter_requires_the_listing_unless_none_is_left() {
    let (mut fixture, _, set) = deferred();
    assert_eq!(lists(&fixture.tell([waits(B)])), 1);
    let (mut desk2, _, _) = deferred();
    let left = desk2.tell([Event::Leave(A)]);
    assert_eq!(lists(&left), 0);
    for number in [3, 4] {
        assert!(left.contains(&Action::Unwatch(watch(&set, &other(number)))), "{left:?}");
    }
}

#[test]
fn rule_10_what_is_not_settled_is_listed_at_once_on_the_new_connection() {
    // The queue has a holder.
    let mut fixture = QueueFixture::new(1);
    let held = fixture.hold(A, 5);
    fixture.queue_up(B, 10, &crowd(6..=9).into_iter().chain([held.clone()]).collect::<Vec<_>>());
    assert!(list(&fixture.reconnect()).1);
    fixture.tell([release(&held)]);
    // The reply to a create is lost.
    let mut fixture = QueueFixture::new(1);
    far(&mut fixture);
    let sent = fixture.tell([waits(B)]);
    fixture.tell([
        Event::Disconnected,
        Event::Created(create(&sent).0, Outcome::Lost),
        Event::Listed(list(&sent).0, Outcome::Lost),
    ]);
    assert!(list(&fixture.tell([Event::Connected])).1);
}

#[test]
fn rule_10_a_check_from_an_earlier_connection_says_nothing() {
    let mut fixture = QueueFixture::new(1);
    let (node, _) = far(&mut fixture);
    let (ticket, _) = probe(&fixture.tell([Event::Resync]));
    assert_eq!(fixture.reconnect(), []);
    assert_eq!(fixture.tell([probed(ticket, [&node])]), []);
    probe(&fixture.tell([Event::Resync]));
}

#[test]
fn rule_11_a_session_lost_ends_a_deferral() {
    let (mut fixture, _, _) = deferred();
    let again =
        fixture.tell([Event::SessionLost, Event::SessionBegan(2), Event::Connected, Event::TermBegan]);
    assert!(!fixture.0.defers_listing());
    assert!(matches!(&again[..], [Action::Create(_, A, _), Action::List { .. }]), "{again:?}");
}
