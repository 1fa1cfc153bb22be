//! A term is the time for which the session is certain to exist. No contender is granted the lock
//! without a term. A contender near the front makes the client send heartbeats, which start terms
//! (rule 16).

use zklock::queue::{Action, Event, Intent, Kind, NEAR, Naming};

use super::fixture::{
    A, QueueFixture, create, created, deleted, grants, list, listed, other, release, watch,
};

#[test]
fn rule_16_no_lock_is_granted_without_a_term() {
    let mut fixture = QueueFixture::new(1);
    let (_, actions) = fixture.queue_up(A, 5, &[other(4)]);
    fixture.tell([Event::TermEnded]);
    assert_eq!(fixture.tell([Event::Gone(watch(&actions, &other(4)))]), []);
    assert_eq!(grants(&fixture.tell([Event::TermBegan])), [A]);
}

#[test]
fn rule_16_a_new_session_begins_without_a_term() {
    let mut fixture = QueueFixture::new(1);
    fixture.tell([Event::SessionLost, Event::SessionBegan(2), Event::Connected]);
    let (_, actions) = fixture.place(A, 5, &[]);
    assert_eq!(grants(&actions), []);
    assert_eq!(grants(&fixture.tell([Event::TermBegan])), [A]);
}

#[test]
fn rule_16_a_release_needs_no_term() {
    let mut fixture = QueueFixture::new(1);
    let node = fixture.hold(A, 5);
    assert_eq!(deleted(&fixture.tell([Event::TermEnded, release(&node)])), [node]);
}

#[test]
fn near_and_far_waiters_are_distinguished() {
    let others: Vec<_> = (1..).take(NEAR + 1).map(other).collect();
    for (before, near) in [(NEAR, true), (NEAR + 1, false)] {
        let mut fixture = QueueFixture::new(1);
        fixture.queue_up(A, 9, &others[..before]);
        assert_eq!(fixture.0.is_near(), near, "{before} before it");
    }
}

/// Regression: after a long hold, each second hand-off in the queue took two round trips. A waiter
/// that learned only from a listing that it was near had no term when its turn came.
#[test]
fn a_waiter_is_near_while_it_asks_how_many_are_left_ahead() {
    let others: Vec<_> = (1..).take(2 * NEAR + 2).map(other).collect();
    for left in [NEAR, NEAR + 1] {
        let mut fixture = QueueFixture::new(1);
        let (node, actions) = fixture.queue_up(A, 99, &others);
        assert!(!fixture.0.is_near(), "before the event");
        let gone = &others[others.len() - 2];
        let asked = fixture.tell([Event::Gone(watch(&actions, gone))]);
        assert!(fixture.0.is_near(), "while it asks");
        let rest = others.iter().filter(|other| *other != gone).skip(others.len() - 1 - left);
        fixture.tell([listed(list(&asked).0, rest.chain([&node]))]);
        assert_eq!(fixture.0.is_near(), left == NEAR, "{left} are left");
    }
}

/// Regression: a reader behind many readers did not count as near the front. If its term ended
/// while it waited, the client sent no heartbeat for it, and the reader waited forever.
#[test]
fn a_reader_is_near_regardless_of_readers_ahead() {
    let mut fixture = QueueFixture::new(1);
    let sent = fixture.tell([Event::Join(A, Naming::Curator, Kind::Read, Intent::Wait)]);
    let node = format!("{}0000000009", create(&sent).1);
    let readers = [3, 4, 5, 6].map(|sequence| other(sequence).replace("-lock-", "-__READ__"));
    let children = readers.iter().chain([&node]);
    fixture.tell([Event::TermEnded, created(create(&sent).0, &node), listed(list(&sent).0, children)]);
    assert!(fixture.0.is_near());
    assert_eq!(grants(&fixture.tell([Event::TermBegan])), [A]);
}

/// Regression: a waiter for one of more than two permits waited forever if its session's term ended
/// while it waited.
#[test]
fn a_waiter_for_a_permit_is_near_regardless_of_taken_permits() {
    let mut fixture = QueueFixture::new(1);
    let sent = fixture.tell([Event::Join(A, Naming::Curator, Kind::Permit(4), Intent::Wait)]);
    let node = format!("{}0000000009", create(&sent).1);
    let leases = [3, 4, 5, 6].map(other);
    let taken = leases.iter().chain([&node]);
    let watching = fixture.tell([created(create(&sent).0, &node), listed(list(&sent).0, taken)]);
    let Some(Action::ListAndWatch { ticket, .. }) = watching.first() else { panic!("{watching:?}") };
    fixture.tell([Event::TermEnded, listed(*ticket, leases[1..].iter().chain([&node]))]);
    assert!(fixture.0.is_near());
    assert_eq!(grants(&fixture.tell([Event::TermBegan])), [A]);
}
