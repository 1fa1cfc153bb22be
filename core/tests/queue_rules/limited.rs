//! Tests of the limit on waiters: a contender that finds too many waiters is refused (rule 14).

use zklock::queue::{Action, Event, Kind, Outcome, Refusal};

use super::fixture::{
    A, B, QueueFixture, create, created, grants, list, listed, other, refusals, release, waits,
    waits_behind_fewer, writer,
};

fn reader(sequence: u32) -> String {
    other(sequence).replace("-lock-", "-__READ__")
}

fn answer(kind: Kind, limit: u32, nodes: &[String]) -> Vec<Action> {
    let mut fixture = QueueFixture::new(1);
    let look = fixture.tell([waits_behind_fewer(A, kind, limit)]);
    assert!(matches!(&look[..], [Action::List { sync: false, .. }]), "{look:?}");
    fixture.tell([listed(list(&look).0, nodes)])
}

fn is_refused(kind: Kind, limit: u32, nodes: &[String]) -> Option<usize> {
    match &refusals(&answer(kind, limit, nodes))[..] {
        [] => None,
        [(A, Refusal::Full(waiting))] => Some(*waiting),
        other => panic!("{other:?}"),
    }
}

#[test]
fn rule_14_a_contender_beyond_the_limit_is_refused_by_one_read_and_no_write() {
    let queue = [other(4), other(5), other(6)];
    assert_eq!(answer(Kind::Exclusive, 2, &queue), [Action::Refuse(A, Refusal::Full(2))]);
    assert_eq!(is_refused(Kind::Exclusive, 3, &queue), None);
    let sent = answer(Kind::Exclusive, 3, &queue);
    assert!(create(&sent).1.starts_with("_c_"), "it queues: {sent:?}");
}

#[test]
fn rule_14_a_free_lock_is_never_full() {
    assert_eq!(is_refused(Kind::Exclusive, 0, &[]), None);
    assert_eq!(is_refused(Kind::Exclusive, 0, &[other(4)]), Some(0));
    assert_eq!(is_refused(Kind::Exclusive, 1, &[other(4)]), None);
}

#[test]
fn rule_14_holders_are_no_waiters() {
    // Two readers hold the lock, and two contenders wait, because the last reader is behind a
    // writer.
    let queue = [reader(4), reader(5), writer(6), reader(7)];
    assert_eq!(is_refused(Kind::Write, 2, &queue), Some(2));
    assert_eq!(is_refused(Kind::Read, 2, &queue), Some(2));
    assert_eq!(is_refused(Kind::Write, 3, &queue), None);
    // A reader does not wait for readers.
    assert_eq!(is_refused(Kind::Read, 0, &queue[..2]), None);
    assert_eq!(is_refused(Kind::Write, 0, &queue[..2]), Some(0));
    // After a downgrade, the owner holds the lock through the writer's node and the reader's node.
    assert_eq!(is_refused(Kind::Write, 1, &[writer(4), reader(4)]), None);
}

#[test]
fn rule_14_concurrent_joins_are_admitted_up_to_the_limit() {
    let mut fixture = QueueFixture::new(1);
    let look = fixture.tell([A, B].map(|join| waits_behind_fewer(join, Kind::Exclusive, 1)));
    let sent = fixture.tell([listed(list(&look).0, [&other(4)])]);
    assert_eq!(refusals(&sent), [(B, Refusal::Full(1))]);
    assert!(create(&sent).1.starts_with("_c_"));
}

#[test]
fn rule_14_a_waiter_of_ours_that_has_no_node_yet_counts_once() {
    let mut fixture = QueueFixture::new(1);
    let sent = fixture.tell([waits(A)]);
    let node = format!("{}0000000005", create(&sent).1);
    let look = fixture.tell([listed(list(&sent).0, [&other(4)]), waits_behind_fewer(B, Kind::Exclusive, 1)]);
    // The listing shows the node before the reply to its create arrives.
    let answer = fixture.tell([listed(list(&look).0, [&other(4), &node])]);
    assert_eq!(refusals(&answer), [(B, Refusal::Full(1))]);
}

#[test]
fn rule_14_an_admitted_waiter_stays_in_the_queue() {
    let mut fixture = QueueFixture::new(1);
    let look = fixture.tell([waits_behind_fewer(A, Kind::Exclusive, 1)]);
    let sent = fixture.tell([listed(list(&look).0, [&other(4)])]);
    let node = format!("{}0000000007", create(&sent).1);
    // Two other contenders joined earlier. The limit applies only at the time of joining.
    let queue = [other(4), other(5), other(6), node.clone()];
    let actions = fixture.tell([created(create(&sent).0, &node), listed(list(&sent).0, &queue)]);
    assert_eq!(refusals(&actions), []);
    fixture.tell([Event::SessionLost]);
    let sent = fixture.tell([Event::SessionBegan(2), Event::Connected, Event::TermBegan]);
    let node = format!("{}0000000008", create(&sent).1);
    let look = listed(list(&sent).0, [&node]);
    assert_eq!(grants(&fixture.tell([created(create(&sent).0, &node), look])), [A]);
    fixture.tell([release(&node)]);
}

#[test]
fn rule_14_a_contender_without_a_listing_lists_again() {
    let mut fixture = QueueFixture::new(1);
    let look = fixture.tell([waits_behind_fewer(A, Kind::Exclusive, 0)]);
    let again = fixture.tell([Event::Listed(list(&look).0, Outcome::Lost)]);
    assert_eq!(again.len(), 1, "{again:?}");
    fixture.tell([Event::SessionLost]);
    let look = fixture.tell([Event::SessionBegan(2), Event::Connected, Event::TermBegan]);
    let answer = fixture.tell([listed(list(&look).0, [&other(4)])]);
    assert_eq!(answer, [Action::Refuse(A, Refusal::Full(0))]);
    assert!(fixture.0.is_idle());
}
