//! The end of a session and of a node (rules 11 and 12).

use zklock::queue::{Action, Event, Outcome, Refusal};

use super::desk::{
    A, B, Desk, acknowledged, create, created, grants, list, listed, lost, name, release, released, waits,
    watched, watches,
};

#[test]
fn rule_11_session_lost_ends_holds_and_lets_waiters_join_again() {
    let mut desk = Desk::new(1);
    let node = desk.hold(A, 5);
    desk.place(B, 6, std::slice::from_ref(&node));
    assert_eq!(desk.tell([Event::SessionLost]), [lost(&node)]);
    let again = desk.tell([Event::SessionBegan(2), Event::Connected, Event::TermBegan]);
    assert!(matches!(&again[..], [Action::Create(_, B, _), Action::List { .. }]), "{again:?}");
    // A release that arrives after the end of the session still gets a reply.
    assert_eq!(desk.tell([release(&node)]), [released(&node)]);
}

#[test]
fn rule_11_session_lost_forgets_everything_that_was_under_way() {
    let mut desk = Desk::new(1);
    let sent = desk.tell([waits(A)]);
    let again = desk.tell([Event::SessionLost, Event::SessionBegan(2), Event::Connected, Event::TermBegan]);
    let node = format!("{}0000000005", create(&sent).1);
    let late = [created(create(&sent).0, &node), listed(list(&sent).0, [&node])];
    assert_eq!(desk.tell(late), []);
    let new = format!("{}0000000006", create(&again).1);
    assert_eq!(grants(&desk.tell([created(create(&again).0, &new), listed(list(&again).0, [&new])])), [A]);
}

#[test]
fn rule_11_session_lost_parents_are_made_again_in_the_new_one() {
    let mut desk = Desk::new(1);
    let sent = desk.tell([waits(A)]);
    desk.tell([
        Event::Created(create(&sent).0, Outcome::NoNode),
        Event::Listed(list(&sent).0, Outcome::NoNode),
    ]);
    // The request to create the parents was in flight, and its result never arrives.
    let again = desk.tell([Event::SessionLost, Event::SessionBegan(2), Event::Connected, Event::TermBegan]);
    let made = desk.tell([Event::Created(create(&again).0, Outcome::NoNode)]);
    assert!(matches!(&made[..], [Action::MakeParents(_)]), "{made:?}");
}

#[test]
fn rule_11_session_lost_ends_the_wait_of_those_that_leave() {
    let mut desk = Desk::new(1);
    desk.tell([waits(A), waits(B)]);
    desk.tell([Event::Leave(A), Event::Leave(B)]);
    assert!(!desk.0.is_idle());
    desk.tell([Event::SessionLost]);
    assert!(desk.0.is_idle());
}

#[test]
fn rule_12_a_long_hold_watches_its_node_and_a_deletion_is_a_loss() {
    let mut desk = Desk::new(1);
    let node = desk.hold(A, 5);
    let watching = desk.tell([Event::WatchHold(name(&node))]);
    assert_eq!(watched(&watching), [node.as_str()]);
    assert_eq!(watching.len(), 1);
    desk.tell([acknowledged(watches(&watching)[0].0)]);
    assert_eq!(desk.tell([Event::Gone(watches(&watching)[0].0)]), [lost(&node)]);
    assert!(desk.0.is_idle());
}

#[test]
fn rule_12_a_long_hold_whose_node_may_not_be_watched_asks_once_and_nobody_is_refused() {
    let mut desk = Desk::new(1);
    let node = desk.hold(A, 5);
    desk.place(B, 6, std::slice::from_ref(&node));
    let watching = desk.tell([Event::WatchHold(name(&node))]);
    let refusal = || Outcome::Refused(Refusal::NotAuthorized);
    assert_eq!(desk.tell([Event::Watched(watches(&watching)[0].0, refusal())]), []);
    assert_eq!(desk.tell([Event::WatchHold(name(&node))]), []);
    // The heartbeat still reports the deletion.
    assert!(desk.tell([Event::Missing(name(&node))]).contains(&lost(&node)));
}

#[test]
fn rule_12_a_holders_node_that_a_new_connection_does_not_show_is_a_loss() {
    let mut desk = Desk::new(1);
    let node = desk.hold(A, 5);
    let look = desk.reconnect();
    assert_eq!(desk.tell([listed(list(&look).0, &[])]), [lost(&node)]);
}

#[test]
fn rule_12_a_heartbeat_that_misses_a_holders_node_is_a_loss() {
    let mut desk = Desk::new(1);
    let node = desk.hold(A, 5);
    assert_eq!(desk.tell([Event::Missing(name(&node))]), [lost(&node)]);
    assert_eq!(desk.tell([Event::Missing(name(&node))]), []);
}

#[test]
fn rule_12_a_holders_node_that_is_missing_is_a_loss_without_a_connection_too() {
    let mut desk = Desk::new(1);
    let node = desk.hold(A, 5);
    let (waiting, _) = desk.place(B, 6, std::slice::from_ref(&node));
    desk.tell([Event::Disconnected]);
    assert_eq!(desk.tell([Event::Missing(name(&node))]), [lost(&node)]);
    // The other contender's node is missing too: it creates another one on the next connection.
    assert_eq!(desk.tell([Event::Missing(name(&waiting))]), []);
    assert!(!create(&desk.tell([Event::Connected])).1.is_empty());
}
