//! Tests of tries: acquires that do not wait (rule 14).

use zklock::queue::{Action, Event, Outcome, Refusal};

use super::fixture::{
    A, B, QueueFixture, create, created, deleted, deletes, grants, list, listed, other, refusals, release,
    tries, waits,
};

#[test]
fn rule_14_busy_try_costs_one_read_and_no_write() {
    let mut fixture = QueueFixture::new(1);
    let look = fixture.tell([tries(A)]);
    assert!(matches!(&look[..], [Action::List { sync: false, .. }]), "{look:?}");
    let actions = fixture.tell([listed(list(&look).0, [&other(4)])]);
    assert_eq!(actions, [Action::Refuse(A, Refusal::Busy)]);
    assert!(fixture.0.is_idle());
}

#[test]
fn rule_14_busy_try_behind_the_own_client_costs_nothing() {
    let mut fixture = QueueFixture::new(1);
    fixture.hold(A, 5);
    assert_eq!(fixture.tell([tries(B)]), [Action::Refuse(B, Refusal::Busy)]);
}

#[test]
fn rule_14_a_try_whose_listing_was_lost_looks_again() {
    let mut fixture = QueueFixture::new(1);
    let look = fixture.tell([tries(A)]);
    let again = fixture.tell([Event::Listed(list(&look).0, Outcome::Lost)]);
    assert_eq!(again.len(), 1, "{again:?}");
    assert_eq!(refusals(&fixture.tell([listed(list(&again).0, [&other(4)])])), [(A, Refusal::Busy)]);
}

#[test]
fn rule_14_a_try_that_loses_the_race_leaves_the_queue() {
    let mut fixture = QueueFixture::new(1);
    let look = fixture.tell([tries(A)]);
    let sent = fixture.tell([listed(list(&look).0, &[])]);
    let node = format!("{}0000000005", create(&sent).1);
    let actions = fixture.tell([created(create(&sent).0, &node), listed(list(&sent).0, [&other(4), &node])]);
    assert_eq!(refusals(&actions), [(A, Refusal::Busy)]);
    assert_eq!((grants(&actions), deleted(&actions)), (vec![], vec![node]));
}

#[test]
fn rule_21_a_try_looks_again_in_the_next_session() {
    let mut fixture = QueueFixture::new(1);
    let look = fixture.tell([tries(A)]);
    // The listing showed a free lock, and the create is in flight.
    let sent = fixture.tell([listed(list(&look).0, &[])]);
    assert!(create(&sent).1.starts_with("_c_"));
    fixture.tell([Event::SessionLost]);
    let look = fixture.tell([Event::SessionBegan(2), Event::Connected, Event::TermBegan]);
    assert!(matches!(&look[..], [Action::List { .. }]), "{look:?}");
    assert_eq!(fixture.tell([listed(list(&look).0, [&other(4)])]), [Action::Refuse(A, Refusal::Busy)]);
    assert!(fixture.0.is_idle());
}

#[test]
fn rule_14_a_try_is_answered_by_a_listing_sent_after_it() {
    let mut fixture = QueueFixture::new(1);
    let node = fixture.hold(A, 5);
    let early = fixture.reconnect();
    let released = fixture.tell([release(&node), tries(B)]);
    assert_eq!(deleted(&released), std::slice::from_ref(&node));
    // This listing may be older than the release. It shows another waiter, which has left in the
    // meantime.
    let look = fixture.tell([listed(list(&early).0, [&node, &other(6)])]);
    assert_eq!(refusals(&look), []);
    let sent = fixture
        .tell([Event::Deleted(deletes(&released)[0].0, Outcome::Done(())), listed(list(&look).0, &[])]);
    assert!(create(&sent).1.starts_with("_c_"));
}

#[test]
fn rule_14_a_try_beside_a_contender_without_a_node_waits_for_an_answer() {
    let mut fixture = QueueFixture::new(1);
    let sent = fixture.tell([waits(A)]);
    // The server might never receive A's create, so B is not refused before a reply shows the state
    // of the lock.
    let look = fixture.tell([tries(B)]);
    assert_eq!(refusals(&look), []);
    let look = if look.is_empty() { fixture.tell([listed(list(&sent).0, &[])]) } else { look };
    assert_eq!(refusals(&look), []);
    // The server has replied, and A asked before B.
    assert_eq!(refusals(&fixture.tell([listed(list(&look).0, &[])])), [(B, Refusal::Busy)]);
}

#[test]
fn rule_14_without_a_term_a_try_behind_the_own_client_looks() {
    let mut fixture = QueueFixture::new(1);
    let node = fixture.hold(A, 5);
    fixture.tell([Event::TermEnded]);
    let look = fixture.tell([tries(B)]);
    assert_eq!(refusals(&look), []);
    assert_eq!(refusals(&fixture.tell([listed(list(&look).0, [&node])])), [(B, Refusal::Busy)]);
}

#[test]
fn rule_14_the_first_of_two_concurrent_tries_continues() {
    let mut fixture = QueueFixture::new(1);
    let look = fixture.tell([tries(A), tries(B)]);
    let sent = fixture.tell([listed(list(&look).0, &[])]);
    assert_eq!(refusals(&sent), [(B, Refusal::Busy)]);
    assert!(create(&sent).1.starts_with("_c_"));
}
