//! Tests of the end of a session and of the deletion of a node (rules 11 and 12).

use zklock::queue::{Action, Event, Outcome, Refusal};

use super::fixture::{
    A, B, QueueFixture, acknowledged, create, created, grants, list, listed, lost, name, release, released,
    waits, watched, watches,
};

#[test]
fn rule_11_session_lost_ends_holds_and_lets_waiters_join_again() {
    let mut fixture = QueueFixture::new(1);
    let node = fixture.hold(A, 5);
    fixture.place(B, 6, std::slice::from_ref(&node));
    assert_eq!(fixture.tell([Event::SessionLost]), [lost(&node)]);
    let again = fixture.tell([Event::SessionBegan(2), Event::Connected, Event::TermBegan]);
    assert!(matches!(&again[..], [Action::Create(_, B, _), Action::List { .. }]), "{again:?}");
    // A release that arrives after the end of the session still gets a reply.
    assert_eq!(fixture.tell([release(&node)]), [released(&node)]);
}

#[test]
fn rule_11_session_lost_forgets_everything_that_was_under_way() {
    let mut fixture = QueueFixture::new(1);
    let sent = fixture.tell([waits(A)]);
    let again =
        fixture.tell([Event::SessionLost, Event::SessionBegan(2), Event::Connected, Event::TermBegan]);
    let node = format!("{}0000000005", create(&sent).1);
    let late = [created(create(&sent).0, &node), listed(list(&sent).0, [&node])];
    assert_eq!(fixture.tell(late), []);
    let new = format!("{}0000000006", create(&again).1);
    assert_eq!(grants(&fixture.tell([created(create(&again).0, &new), listed(list(&again).0, [&new])])), [A]);
}

#[test]
fn rule_11_session_lost_parents_are_made_again_in_the_new_one() {
    let mut fixture = QueueFixture::new(1);
    let sent = fixture.tell([waits(A)]);
    fixture.tell([
        Event::Created(create(&sent).0, Outcome::NoNode),
        Event::Listed(list(&sent).0, Outcome::NoNode),
    ]);
    // The session is lost before the reply to `MakeParents` arrives.
    let again =
        fixture.tell([Event::SessionLost, Event::SessionBegan(2), Event::Connected, Event::TermBegan]);
    let made = fixture.tell([Event::Created(create(&again).0, Outcome::NoNode)]);
    assert!(matches!(&made[..], [Action::MakeParents(_)]), "{made:?}");
}

#[test]
fn rule_11_session_lost_ends_the_wait_of_those_that_leave() {
    let mut fixture = QueueFixture::new(1);
    fixture.tell([waits(A), waits(B)]);
    fixture.tell([Event::Leave(A), Event::Leave(B)]);
    assert!(!fixture.0.is_idle());
    fixture.tell([Event::SessionLost]);
    assert!(fixture.0.is_idle());
}

#[test]
fn rule_12_a_long_hold_watches_its_node_and_a_deletion_is_a_loss() {
    let mut fixture = QueueFixture::new(1);
    let node = fixture.hold(A, 5);
    let watching = fixture.tell([Event::WatchHold(name(&node))]);
    assert_eq!(watched(&watching), [node.as_str()]);
    assert_eq!(watching.len(), 1);
    fixture.tell([acknowledged(watches(&watching)[0].0)]);
    assert_eq!(fixture.tell([Event::Gone(watches(&watching)[0].0)]), [lost(&node)]);
    assert!(fixture.0.is_idle());
}

#[test]
fn rule_12_a_long_hold_requests_a_forbidden_watch_only_once() {
    let mut fixture = QueueFixture::new(1);
    let node = fixture.hold(A, 5);
    fixture.place(B, 6, std::slice::from_ref(&node));
    let watching = fixture.tell([Event::WatchHold(name(&node))]);
    let refusal = || Outcome::Refused(Refusal::NotAuthorized);
    assert_eq!(fixture.tell([Event::Watched(watches(&watching)[0].0, refusal())]), []);
    assert_eq!(fixture.tell([Event::WatchHold(name(&node))]), []);
    // The heartbeat still reports the deletion.
    assert!(fixture.tell([Event::Missing(name(&node))]).contains(&lost(&node)));
}

#[test]
fn rule_12_a_holders_node_that_a_new_connection_does_not_show_is_a_loss() {
    let mut fixture = QueueFixture::new(1);
    let node = fixture.hold(A, 5);
    let look = fixture.reconnect();
    assert_eq!(fixture.tell([listed(list(&look).0, &[])]), [lost(&node)]);
}

#[test]
fn rule_12_a_heartbeat_that_misses_a_holders_node_is_a_loss() {
    let mut fixture = QueueFixture::new(1);
    let node = fixture.hold(A, 5);
    assert_eq!(fixture.tell([Event::Missing(name(&node))]), [lost(&node)]);
    assert_eq!(fixture.tell([Event::Missing(name(&node))]), []);
}

#[test]
fn rule_12_a_holders_node_that_is_missing_is_a_loss_without_a_connection_too() {
    let mut fixture = QueueFixture::new(1);
    let node = fixture.hold(A, 5);
    let (waiting, _) = fixture.place(B, 6, std::slice::from_ref(&node));
    fixture.tell([Event::Disconnected]);
    assert_eq!(fixture.tell([Event::Missing(name(&node))]), [lost(&node)]);
    // The waiter's node is missing too. The waiter creates another node on the next connection.
    assert_eq!(fixture.tell([Event::Missing(name(&waiting))]), []);
    assert!(!create(&fixture.tell([Event::Connected])).1.is_empty());
}
