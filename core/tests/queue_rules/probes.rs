//! Tests of probes: requests that check a few nodes by name, instead of listing a long queue (rule
//! 6).

use zklock::queue::{Action, Event, Outcome, Refusal, Ticket};

use super::fixture::{
    A, QueueFixture, acknowledged, grants, list, listed, lists, name, other, watch, watched, writer,
};

fn probe(actions: &[Action]) -> (Ticket, Vec<String>) {
    let mut probes = actions.iter().filter_map(|action| match action {
        Action::Probe(ticket, names) => {
            Some((*ticket, names.iter().map(|name| name.as_str().to_owned()).collect()))
        }
        _ => None,
    });
    match (probes.next(), probes.next()) {
        (Some(probe), None) => probe,
        _ => panic!("not one probe: {actions:?}"),
    }
}

fn probed<'a>(ticket: Ticket, gone: impl IntoIterator<Item = &'a String>) -> Event {
    Event::Probed(ticket, Outcome::Done(gone.into_iter().map(|node| name(node)).collect()))
}

fn crowd(range: impl IntoIterator<Item = u32>) -> Vec<String> {
    range.into_iter().map(other).collect()
}

/// Queues A behind the nodes 1 to 4 and ahead of the nodes 6 to 9. Then removes node 3. Returns A's
/// node, the actions that set its watches, and the actions after the removal.
fn the_third_goes(fixture: &mut QueueFixture) -> (String, Vec<Action>, Vec<Action>) {
    let (node, set) = fixture.queue_up(A, 5, &crowd((1..=4).chain(6..=9)));
    let asked = fixture.tell([Event::Gone(watch(&set, &other(3)))]);
    (node, set, asked)
}

#[test]
fn rule_06_the_few_nodes_that_may_be_ahead_are_probed_in_one_request() {
    let mut fixture = QueueFixture::new(1);
    let (_, set, asked) = the_third_goes(&mut fixture);
    assert_eq!((probe(&asked).1, asked.len()), (crowd([1, 2]), 1));
    // The probe finds none of the nodes, so A is granted the lock as soon as node 4 is removed.
    assert_eq!(fixture.tell([probed(probe(&asked).0, &crowd([1, 2]))]), []);
    assert_eq!(grants(&fixture.tell([Event::Gone(watch(&set, &other(4)))])), [A]);
}

#[test]
fn rule_06_nodes_that_a_probe_finds_are_watched() {
    let mut fixture = QueueFixture::new(1);
    let (_, set, asked) = the_third_goes(&mut fixture);
    let next = fixture.tell([probed(probe(&asked).0, &[])]);
    assert_eq!((watched(&next), next.len()), (crowd([2]), 1), "the nearest two are watched");
    let last = fixture.tell([acknowledged(watch(&next, &other(2))), Event::Gone(watch(&set, &other(4)))]);
    assert_eq!((watched(&last), last.len()), (crowd([1]), 1), "the second-nearest now");
    assert_eq!(fixture.tell([Event::Gone(watch(&next, &other(2)))]), []);
    assert_eq!(grants(&fixture.tell([Event::Gone(watch(&last, &other(1)))])), [A]);
}

#[test]
fn rule_06_without_the_answer_to_a_probe_nothing_is_granted() {
    let mut fixture = QueueFixture::new(1);
    let (_, set, asked) = the_third_goes(&mut fixture);
    assert_eq!(grants(&fixture.tell([Event::Gone(watch(&set, &other(4)))])), []);
    assert_eq!(grants(&fixture.tell([probed(probe(&asked).0, &crowd([1, 2]))])), [A]);
}

#[test]
fn rule_06_a_probes_answer_is_as_stale_as_an_event() {
    let mut fixture = QueueFixture::new(1);
    // The watch on its own node is not acknowledged.
    let (node, set) = fixture.place(A, 5, &crowd((1..=4).chain(6..=9)));
    let asked = fixture.tell([Event::Gone(watch(&set, &other(3)))]);
    fixture.tell([probed(probe(&asked).0, &crowd([1, 2]))]);
    assert_eq!(grants(&fixture.tell([Event::Gone(watch(&set, &other(4)))])), []);
    assert_eq!(grants(&fixture.tell([acknowledged(watch(&set, &node))])), [A]);
}

#[test]
fn rule_06_a_probe_that_was_lost_or_refused_gives_way_to_a_listing() {
    let refused = Outcome::Refused(Refusal::Server("it does not know probes".to_owned()));
    for (outcome, again) in [(Outcome::Lost, true), (refused, false), (Outcome::NoNode, false)] {
        let mut fixture = QueueFixture::new(1);
        let (node, _, asked) = the_third_goes(&mut fixture);
        let look = fixture.tell([Event::Probed(probe(&asked).0, outcome.clone())]);
        let all: Vec<_> = crowd([1, 2, 4, 6, 7, 8, 9]).into_iter().chain([node]).collect();
        let next = fixture.tell([listed(list(&look).0, &all)]);
        assert_eq!(watched(&next), crowd([2]));
        let after =
            fixture.tell([acknowledged(watch(&next, &other(2))), Event::Gone(watch(&next, &other(2)))]);
        assert_eq!(watched(&after), crowd([1]), "{outcome:?}: one is not worth a probe");
        assert!(lists(&after) == 0 || !again);
    }
}

#[test]
fn rule_06_a_writer_that_a_probe_misses_may_have_left_a_reader_in_its_place() {
    let mut fixture = QueueFixture::new(1);
    let others: Vec<_> = [other(1), writer(2)].into_iter().chain(crowd([3, 4, 6, 7, 8, 9])).collect();
    let (_, set) = fixture.queue_up(A, 5, &others);
    let asked = fixture.tell([Event::Gone(watch(&set, &other(3)))]);
    let look =
        fixture.tell([probed(probe(&asked).0, &[other(1), writer(2)]), Event::Gone(watch(&set, &other(4)))]);
    assert_eq!((grants(&look), lists(&look)), (vec![], 1));
}

#[test]
fn rule_06_a_probes_answer_from_an_earlier_connection_says_nothing() {
    let mut fixture = QueueFixture::new(1);
    let (node, _, asked) = the_third_goes(&mut fixture);
    fixture.tell([Event::Disconnected, Event::Probed(probe(&asked).0, Outcome::Lost)]);
    let look = fixture.tell([Event::Connected]);
    assert!(list(&look).1, "after a sync");
    let next = fixture.tell([listed(list(&look).0, [&other(2), &node])]);
    assert_eq!(grants(&next), []);
    assert!(!watched(&next).is_empty());
}
