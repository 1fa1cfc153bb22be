//! Tests of the rules that decide which contenders may hold the lock together, and of the hand-off
//! within one client (rules 4 and 7).

use zklock::queue::{Action, Event, Intent, Kind, Naming, Outcome, Refusal, Ticket};

use super::fixture::{
    A, B, QueueFixture, create, created, czxid, deleted, grants, list, listed, lists, lost, name, other,
    refusals, release, verify, watch, watched, writer,
};

#[test]
fn rule_04_a_waiter_waits_behind_its_own_client() {
    let mut fixture = QueueFixture::new(1);
    let first = fixture.hold(A, 0);
    let (_, actions) = fixture.place(B, 1, &[first]);
    assert_eq!(actions, [], "behind our own holder: no watch is needed");
}

#[test]
fn rule_04_a_writer_waits_for_its_own_clients_reader_before_it() {
    let mut fixture = QueueFixture::new(1);
    let join = |join, kind| Event::Join(join, Naming::Curator, kind, Intent::Wait);
    let first = fixture.tell([join(A, Kind::Read)]);
    let second = fixture.tell([join(B, Kind::Write), Event::Created(create(&first).0, Outcome::Lost)]);
    let reader = format!("{}0000000003", create(&first).1);
    let writer = format!("{}0000000004", create(&second).1);
    let look = fixture.tell([created(create(&second).0, &writer), listed(list(&first).0, &[])]);
    // The client has not verified yet that the reader's node belongs to its session. Until then,
    // the reader is not granted the lock, but the writer must wait for it.
    let found = fixture.tell([listed(list(&look).0, [&reader, &writer])]);
    assert_eq!(grants(&found), []);
    let again = fixture.tell([Event::Verified(verify(&found).0, Outcome::Done(Some(9)))]);
    assert_eq!(grants(&fixture.tell([listed(list(&again).0, [&reader, &writer])])), [A]);
    assert_eq!(grants(&fixture.tell([release(&reader)])), [B]);
}

#[test]
fn rule_04_readers_hold_together_and_wait_for_the_nearest_writer_only() {
    let reader = other(3).replace("-lock-", "-__READ__");
    for writers in [vec![], vec![writer(1), writer(2)]] {
        let mut fixture = QueueFixture::new(1);
        let sent = fixture.tell([Event::Join(A, Naming::Curator, Kind::Read, Intent::Wait)]);
        let node = format!("{}0000000005", create(&sent).1);
        let children = writers.iter().chain([&reader, &node]);
        let actions = fixture.tell([created(create(&sent).0, &node), listed(list(&sent).0, children)]);
        if writers.is_empty() {
            assert_eq!(grants(&actions), [A]);
        } else {
            assert_eq!((grants(&actions), watched(&actions)), (vec![], vec![writer(2), node]));
        }
    }
}

#[test]
fn rule_04_a_released_writer_keeps_its_place_until_the_reader_has_it() {
    let mut fixture = QueueFixture::new(1);
    let (writer, ticket, reader) = downgrading(&mut fixture);
    assert_eq!(fixture.tell([release(&writer)]), []);
    let actions = fixture.tell([created(ticket, &reader)]);
    assert_eq!((grants(&actions), deleted(&actions)), (vec![B], vec![writer]));
}

/// Prepares a downgrade: A holds the lock as a writer, and reader B is taking over its position in
/// the queue. Returns the writer's node, and the ticket and the name of the reader's create.
fn downgrading(fixture: &mut QueueFixture) -> (String, Ticket, String) {
    going_down(fixture, false)
}

/// Like [`downgrading`]. If `tries` is `true`, B does not wait for the lock.
fn going_down(fixture: &mut QueueFixture, tries: bool) -> (String, Ticket, String) {
    let sent = fixture.tell([Event::Join(A, Naming::Curator, Kind::Write, Intent::Wait)]);
    let writer = format!("{}0000000005", create(&sent).1);
    fixture.tell([created(create(&sent).0, &writer), listed(list(&sent).0, [&writer])]);
    let intent = Intent::Downgrade { writer: Box::new(name(&writer)), tries };
    let sent = fixture.tell([Event::Join(B, Naming::Curator, Kind::Read, intent)]);
    let Some(Action::CreateInPlace(ticket, B, reader, Some(check))) = sent.first() else {
        panic!("{sent:?}")
    };
    assert_eq!(check.as_str(), writer);
    assert!(reader.ends_with("__READ__0000000005"), "{reader}");
    (writer, *ticket, reader.clone())
}

/// The client learns from the reply to the reader's create that the writer's node does not exist,
/// even if the reader has left in the meantime.
#[test]
fn rule_04_a_writer_is_lost_when_its_place_is_gone_although_the_reader_leaves() {
    for tries in [false, true] {
        let mut fixture = QueueFixture::new(1);
        let (writer, ticket, _) = going_down(&mut fixture, tries);
        fixture.tell([Event::Leave(B)]);
        assert_eq!(fixture.tell([Event::Created(ticket, Outcome::NoNode)]), [lost(&writer)]);
        assert!(fixture.0.is_idle());
    }
}

#[test]
fn rule_04_a_writer_is_lost_when_its_place_is_gone_although_a_reply_was_lost() {
    let mut fixture = QueueFixture::new(1);
    let (writer, ticket, _) = going_down(&mut fixture, false);
    let look = fixture.tell([Event::Created(ticket, Outcome::Lost)]);
    let again = fixture.tell([listed(list(&look).0, [&writer])]);
    let [Action::CreateInPlace(ticket, B, ..)] = &again[..] else { panic!("{again:?}") };
    let gone = fixture.tell([Event::Created(*ticket, Outcome::NoNode)]);
    assert!(gone.contains(&lost(&writer)), "{gone:?}");
    assert_eq!(lists(&gone), 1, "{gone:?}");
}

#[test]
fn rule_07_adjacent_handoff_grants_before_the_delete_is_acknowledged() {
    let mut fixture = QueueFixture::new(1);
    let first = fixture.hold(A, 0);
    fixture.place(B, 1, std::slice::from_ref(&first));
    let actions = fixture.tell([release(&first)]);
    assert_eq!((grants(&actions), deleted(&actions)), (vec![B], vec![first]));
    assert_eq!(actions.len(), 2, "a grant and a delete: {actions:?}");
}

#[test]
fn rule_07_a_contender_in_between_prevents_an_adjacent_hand_off() {
    let mut fixture = QueueFixture::new(1);
    let first = fixture.hold(A, 0);
    let (_, actions) = fixture.queue_up(B, 2, &[first.clone(), other(1)]);
    assert_eq!(grants(&fixture.tell([release(&first)])), []);
    assert_eq!(grants(&fixture.tell([Event::Gone(watch(&actions, &other(1)))])), [B]);
}

/// Regression: an operator deleted a writer's node while a reader was taking over its position. The
/// reader was placed ahead of a contender that already held the lock. The reader waited there
/// forever, or was granted the lock at the same time.
#[test]
fn rule_04_a_reader_in_the_place_of_a_lost_writer_stays_there() {
    for known_before in [true, false] {
        let mut fixture = QueueFixture::new(1);
        let (writer, ticket, reader) = downgrading(&mut fixture);
        let missing = Event::Missing(name(&writer));
        // The reader's node was created while the writer's node existed, so no contender behind it
        // holds the lock. The token of the reader's own node would be too large: a contender that
        // joined between the two nodes holds the lock later, with a smaller token.
        let in_place = Event::Created(ticket, Outcome::Done((reader.clone(), czxid(&writer) + 1000)));
        let look = fixture.tell(if known_before {
            vec![missing, in_place]
        } else {
            // End the term, so that `in_place` does not grant the lock before `missing` arrives.
            vec![Event::TermEnded, in_place, missing]
        });
        assert_eq!((grants(&look), deleted(&look)), (vec![], Vec::<String>::new()));
        let actions = fixture.tell([Event::TermBegan, listed(list(&look).0, [&reader])]);
        assert_eq!(actions.first(), Some(&Action::Grant(B, name(&reader), czxid(&writer))), "{actions:?}");
    }
}

#[test]
fn rule_04_without_the_right_to_check_a_reader_is_lost_with_its_writer() {
    for known_before in [true, false] {
        let mut fixture = QueueFixture::new(1);
        let (writer, ticket, reader) = downgrading(&mut fixture);
        let unchecked = fixture.tell([Event::CheckForbidden(ticket)]);
        let [Action::CreateInPlace(ticket, B, again, None)] = &unchecked[..] else { panic!("{unchecked:?}") };
        assert_eq!(*again, reader);
        let missing = Event::Missing(name(&writer));
        let in_place = created(*ticket, &reader);
        let again = fixture.tell(if known_before {
            vec![missing, in_place]
        } else {
            vec![Event::TermEnded, in_place, missing]
        });
        assert_eq!((grants(&again), deleted(&again)), (vec![], vec![reader]));
        assert!(create(&again).1.contains("__READ__"));
    }
}

#[test]
fn rule_04_a_reader_that_finds_no_writer_queues_like_any_other() {
    let mut fixture = QueueFixture::new(1);
    let (writer, ticket, _) = downgrading(&mut fixture);
    let actions = fixture.tell([Event::Created(ticket, Outcome::NoNode)]);
    assert_eq!(actions.first(), Some(&lost(&writer)));
    assert!(create(&actions).1.ends_with("__READ__"));
    assert!(
        matches!(&actions[1..], [Action::Create(_, B, _), Action::List { .. }]),
        "no parents: {actions:?}"
    );
}

/// If `late` is `true`, the server executes the reader's first create only after the first listing.
#[test]
fn rule_04_a_reader_that_finds_no_writer_after_a_lost_reply_looks_for_its_node_first() {
    for late in [true, false] {
        let mut fixture = QueueFixture::new(1);
        let (writer, ticket, reader) = downgrading(&mut fixture);
        let look = fixture.tell([Event::Created(ticket, Outcome::Lost)]);
        assert!(list(&look).1, "after a sync");
        let again = fixture.tell([listed(list(&look).0, [&writer])]);
        let [Action::CreateInPlace(ticket, B, ..)] = &again[..] else { panic!("{again:?}") };
        let look = fixture.tell([Event::Created(*ticket, Outcome::NoNode)]);
        assert_eq!((look.len(), look.first()), (2, Some(&lost(&writer))), "{look:?}");
        assert!(list(&look).1, "after a sync");
        let children = late.then_some(&reader);
        let actions = fixture.tell([listed(list(&look).0, children)]);
        assert!(!actions.contains(&lost(&writer)), "once: {actions:?}");
        if !late {
            assert!(create(&actions).1.ends_with("__READ__"));
            continue;
        }
        let (ticket, node) = verify(&actions);
        assert_eq!(node, reader);
        let look = fixture.tell([Event::Verified(ticket, Outcome::Done(Some(9)))]);
        assert_eq!(grants(&fixture.tell([listed(list(&look).0, [&reader])])), [B]);
    }
}

/// Returns a writer's node of another client.
fn someone(sequence: u32) -> String {
    writer(sequence)
}

/// Lets B try to take over the position of A's node, which does not exist any more. Returns the
/// actions.
fn try_without_place(fixture: &mut QueueFixture) -> Vec<Action> {
    let (writer, ticket, _) = going_down(fixture, true);
    let look = fixture.tell([Event::Created(ticket, Outcome::NoNode)]);
    assert_eq!(look.first(), Some(&lost(&writer)));
    look
}

#[test]
fn rule_21_a_try_that_finds_no_writer_looks_and_creates_nothing_where_the_lock_is_taken() {
    let mut fixture = QueueFixture::new(1);
    let look = try_without_place(&mut fixture);
    assert!(matches!(&look[1..], [Action::List { sync: false, .. }]), "{look:?}");
    let actions = fixture.tell([listed(list(&look).0, [&someone(6)])]);
    assert_eq!(actions, [Action::Refuse(B, Refusal::Busy)]);
    assert!(fixture.0.is_idle());
}

#[test]
fn rule_21_a_try_that_finds_no_writer_is_granted_a_free_lock() {
    let mut fixture = QueueFixture::new(1);
    let look = try_without_place(&mut fixture);
    let sent = fixture.tell([listed(list(&look).0, &[])]);
    let reader = format!("{}0000000007", create(&sent).1);
    assert!(reader.contains("__READ__"), "{reader}");
    let actions = fixture.tell([created(create(&sent).0, &reader), listed(list(&sent).0, [&reader])]);
    assert_eq!(grants(&actions), [B]);
}

#[test]
fn rule_21_a_try_that_finds_no_writer_leaves_if_another_came_in_between() {
    let mut fixture = QueueFixture::new(1);
    let look = try_without_place(&mut fixture);
    let sent = fixture.tell([listed(list(&look).0, &[])]);
    let reader = format!("{}0000000007", create(&sent).1);
    let children = [&someone(6), &reader];
    let actions = fixture.tell([created(create(&sent).0, &reader), listed(list(&sent).0, children)]);
    assert_eq!(refusals(&actions), [(B, Refusal::Busy)]);
    assert_eq!((grants(&actions), deleted(&actions)), (vec![], vec![reader]));
}

#[test]
fn rule_21_a_try_whose_writer_is_lost_with_the_session_looks_in_the_next_one() {
    let mut fixture = QueueFixture::new(1);
    let (writer, _, _) = going_down(&mut fixture, true);
    assert_eq!(fixture.tell([Event::SessionLost]), [lost(&writer)]);
    let look = fixture.tell([Event::SessionBegan(2), Event::Connected, Event::TermBegan]);
    assert!(matches!(&look[..], [Action::List { .. }]), "{look:?}");
    // As long as the server shows the old session's node, the node counts as another client's node.
    assert_eq!(refusals(&fixture.tell([listed(list(&look).0, [&writer])])), [(B, Refusal::Busy)]);
    assert!(fixture.0.is_idle());
}

/// The only node ahead of the reader is the writer's, which has the same owner. The reader is
/// granted the lock as soon as the session is certain to exist.
#[test]
fn rule_21_a_try_in_its_place_is_not_refused_for_its_own_writer() {
    let mut fixture = QueueFixture::new(1);
    let (writer, ticket, reader) = going_down(&mut fixture, true);
    let look = fixture.tell([Event::TermEnded, created(ticket, &reader), Event::Resync]);
    let actions = fixture.tell([listed(list(&look).0, [&writer, &reader])]);
    assert_eq!((refusals(&actions), grants(&actions)), (vec![], vec![]));
    assert_eq!(grants(&fixture.tell([Event::TermBegan])), [B]);
}
