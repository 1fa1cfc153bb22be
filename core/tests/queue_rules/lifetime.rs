//! Tests of the end of a queue. If a queue is dropped too early, the next queue for the same path
//! receives replies and events that it does not expect.

use zklock::queue::{Action, Event, Outcome, Queue};

use super::fixture::{A, B, QueueFixture, create, created, list, listed, other, waits, watch};

#[test]
fn a_queue_that_follows_another_does_not_take_its_answers() {
    let mut first = QueueFixture::new(1);
    let sent = first.tell([waits(A)]);
    let mut second = QueueFixture(Queue::after(first.0.last_ticket()));
    second.tell([Event::SessionBegan(2), Event::Connected, Event::TermBegan]);
    let own = second.tell([waits(B)]);
    assert!(create(&own).0 > create(&sent).0);
    let late = format!("{}0000000005", create(&sent).1);
    assert_eq!(second.tell([created(create(&sent).0, &late), listed(list(&sent).0, [&late])]), []);
}

/// Regression: a queue was dropped with a listing in flight. The next queue for the path treated
/// the reply to that listing as the reply to its own, ignored the real reply, and waited forever.
#[test]
fn a_queue_is_not_idle_while_an_answer_is_still_to_come() {
    let mut fixture = QueueFixture::new(1);
    let sent = fixture.tell([waits(A)]);
    fixture.tell([Event::Leave(A), Event::Created(create(&sent).0, Outcome::NoNode)]);
    assert!(!fixture.0.is_idle());
    fixture.tell([Event::Listed(list(&sent).0, Outcome::NoNode)]);
    assert!(fixture.0.is_idle());
}

/// A queue must not be dropped while it has a watch, because the next queue would treat the watch
/// event as one of its own.
#[test]
fn a_queue_is_not_idle_while_a_watch_may_still_fire() {
    let mut fixture = QueueFixture::new(1);
    let (node, set) = fixture.queue_up(A, 5, &[other(4)]);
    fixture.tell([Event::Gone(watch(&set, &node)), Event::Disconnected, Event::Leave(A)]);
    assert!(!fixture.0.is_idle());
    let actions = fixture.tell([Event::Connected]);
    assert!(actions.contains(&Action::Unwatch(watch(&set, &other(4)))), "{actions:?}");
    assert!(fixture.0.is_idle());
}
