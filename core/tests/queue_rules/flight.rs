//! Tests of a create and a listing that are sent together (rule 3).

use zklock::queue::{Action, Event, Intent, JoinId, Kind, Naming, Outcome, Refusal};

use super::fixture::{
    A, B, QueueFixture, create, created, deleted, grants, list, listed, lists, other, refusals, release,
    waits, watched,
};

#[test]
fn rule_03_a_create_and_a_listing_in_one_flight_and_no_more() {
    let mut fixture = QueueFixture::new(1);
    let sent = fixture.tell([waits(A)]);
    assert!(matches!(&sent[..], [Action::Create(..), Action::List { sync: false, .. }]), "{sent:?}");
    let node = format!("{}0000000000", create(&sent).1);
    assert_eq!(
        fixture.tell([created(create(&sent).0, &node)]),
        [],
        "only the listing tells who is before us"
    );
    let actions = fixture.tell([listed(list(&sent).0, [&node])]);
    assert!(matches!(&actions[..], [Action::Grant(A, on, 1000)] if on.as_str() == node), "{actions:?}");
}

#[test]
fn rule_03_torn_pair_is_not_believed() {
    let mut fixture = QueueFixture::new(1);
    let sent = fixture.tell([waits(A)]);
    // The create is lost with the old connection, and the reply to the listing arrives on the new
    // one.
    let actions = fixture.tell([
        Event::Disconnected,
        Event::Created(create(&sent).0, Outcome::Lost),
        Event::Connected,
        listed(list(&sent).0, &[]),
    ]);
    assert!(matches!(&actions[..], [Action::List { sync: true, .. }]), "{actions:?}");
}

#[test]
fn rule_03_a_listing_without_our_node_grants_nothing() {
    let mut fixture = QueueFixture::new(1);
    let sent = fixture.tell([waits(A)]);
    let node = format!("{}0000000000", create(&sent).1);
    let actions = fixture.tell([created(create(&sent).0, &node), listed(list(&sent).0, &[])]);
    assert_eq!(grants(&actions), []);
    assert_ne!(create(&actions).1, create(&sent).1, "an operator deleted it: it joins again");
}

#[test]
fn rule_03_a_listing_sent_before_the_create_says_nothing_of_it() {
    let mut fixture = QueueFixture::new(1);
    let first = fixture.tell([waits(A)]);
    let second = fixture.tell([waits(B)]);
    let nodes = [format!("{}0000000000", create(&first).1), format!("{}0000000001", create(&second).1)];
    let early = fixture.tell([created(create(&first).0, &nodes[0]), listed(list(&first).0, &nodes[..1])]);
    assert_eq!(grants(&early), [A]);
    let late = fixture.tell([created(create(&second).0, &nodes[1]), listed(list(&early).0, &nodes)]);
    assert_eq!(late, []);
}

#[test]
fn rule_03_a_listing_sent_before_the_create_and_heard_after_it_says_nothing_either() {
    let mut fixture = QueueFixture::new(1);
    let first = fixture.tell([waits(A)]);
    let second = fixture.tell([waits(B)]);
    let nodes = [format!("{}0000000000", create(&first).1), format!("{}0000000001", create(&second).1)];
    let both = [created(create(&first).0, &nodes[0]), created(create(&second).0, &nodes[1])];
    fixture.tell(both);
    let actions = fixture.tell([listed(list(&first).0, &nodes[..1])]);
    assert_eq!(grants(&actions), [A]);
    assert!(matches!(&actions[..], [Action::Grant(..), Action::List { .. }]), "{actions:?}");
}

#[test]
fn rule_03_missing_parents_are_made_and_the_create_sent_again_but_not_for_ever() {
    let mut fixture = QueueFixture::new(1);
    let mut sent = fixture.tell([waits(A)]);
    let mut made = 0;
    while refusals(&sent).is_empty() {
        let actions = fixture.tell([
            Event::Created(create(&sent).0, Outcome::NoNode),
            Event::Listed(list(&sent).0, Outcome::NoNode),
        ]);
        let Some(Action::MakeParents(ticket)) = actions.first() else {
            sent = actions;
            continue;
        };
        made += 1;
        sent = fixture.tell([Event::ParentsMade(*ticket, Outcome::Done(()))]);
    }
    assert_eq!(made, 16);
    assert!(matches!(&refusals(&sent)[..], [(A, Refusal::Server(_))]));
    assert!(fixture.0.is_idle());
}

/// Adds contenders with these sequence numbers while A holds the lock. Returns their nodes and the
/// actions that follow.
fn crowd(
    fixture: &mut QueueFixture,
    joins: impl IntoIterator<Item = (Event, u32)>,
) -> Vec<(String, Vec<Action>)> {
    let mut nodes = Vec::new();
    for (join, sequence) in joins {
        let sent = fixture.tell([join]);
        let node = format!("{}{sequence:010}", create(&sent).1);
        let answered = fixture.tell([created(create(&sent).0, &node)]);
        nodes.push((node, [sent, answered].concat()));
    }
    nodes
}

#[test]
fn rule_03_only_the_first_two_waiters_of_a_client_join_with_a_listing() {
    let mut fixture = QueueFixture::new(1);
    let holder = fixture.hold(A, 0);
    let first = fixture.place(JoinId(2), 1, std::slice::from_ref(&holder)).0;
    let second = fixture.place(JoinId(3), 2, &[holder.clone(), first.clone()]).0;
    let crowd = crowd(&mut fixture, [(waits(JoinId(4)), 4), (waits(JoinId(5)), 5)]);
    assert_eq!(crowd.iter().map(|(_, sent)| lists(sent)).collect::<Vec<_>>(), [0, 0]);
    // Another client's contender joined before our last two. The client finds it by a listing when
    // one of the two gets near the front.
    let look = fixture.tell([release(&holder)]);
    assert_eq!((grants(&look), deleted(&look)), (vec![JoinId(2)], vec![holder]));
    let nodes = [first.clone(), second.clone(), other(3), crowd[0].0.clone(), crowd[1].0.clone()];
    let seen = fixture.tell([listed(list(&look).0, &nodes)]);
    assert_eq!((lists(&seen), watched(&seen)), (0, vec![other(3), crowd[0].0.clone()]));
    assert_eq!(grants(&fixture.tell([release(&first)])), [JoinId(3)]);
    assert_eq!(grants(&fixture.tell([release(&second)])), [], "another client's contender is ahead of it");
    let gone = Event::Gone(super::fixture::watch(&seen, &other(3)));
    let armed = Event::Watched(super::fixture::watch(&seen, &crowd[0].0), Outcome::Done(()));
    assert_eq!(grants(&fixture.tell([armed, gone])), [JoinId(4)]);
    let next = fixture.tell([release(&crowd[0].0)]);
    assert_eq!(
        (grants(&next), lists(&next)),
        (vec![JoinId(5)], 0),
        "the same listing has shown the last one"
    );
}

#[test]
fn rule_03_a_release_does_not_grant_the_lock_to_an_unlisted_contender() {
    let mut fixture = QueueFixture::new(1);
    let holder = fixture.hold(A, 0);
    let first = fixture.place(JoinId(2), 1, std::slice::from_ref(&holder)).0;
    let second = fixture.place(JoinId(3), 2, &[holder.clone(), first.clone()]).0;
    let third = crowd(&mut fixture, [(waits(JoinId(4)), 4)]).remove(0).0;
    let look = fixture.tell([release(&holder)]);
    // The holds of all other contenders end before the reply to the listing arrives.
    assert_eq!(grants(&fixture.tell([release(&first)])), [JoinId(3)]);
    assert_eq!(grants(&fixture.tell([release(&second)])), [], "another client's contender may be in between");
    assert_eq!(grants(&fixture.tell([listed(list(&look).0, [&third])])), [JoinId(4)]);
}

#[test]
fn rule_03_all_contenders_ahead_may_leave() {
    let mut fixture = QueueFixture::new(1);
    let holder = fixture.hold(A, 0);
    let first = fixture.place(JoinId(2), 1, std::slice::from_ref(&holder)).0;
    fixture.place(JoinId(3), 2, &[holder.clone(), first]);
    let third = crowd(&mut fixture, [(waits(JoinId(4)), 3)]).remove(0).0;
    let look = fixture.tell([Event::Leave(JoinId(2)), Event::Leave(JoinId(3))]);
    assert_eq!(lists(&look), 1);
    fixture.tell([listed(list(&look).0, [&holder, &third])]);
    assert_eq!(grants(&fixture.tell([release(&holder)])), [JoinId(4)]);
}

#[test]
fn rule_03_a_reader_behind_two_writers_of_ours_joins_without_a_listing_and_behind_one_with_it() {
    let join = |id, kind| Event::Join(JoinId(id), Naming::Curator, kind, Intent::Wait);
    for writers in 0..4 {
        let mut fixture = QueueFixture::new(1);
        let mut nodes = vec![fixture.hold(A, 0)];
        for writer in 0..writers {
            let sent = fixture.tell([join(10 + writer, Kind::Write)]);
            let node = format!("{}{:010}", create(&sent).1, 10 + writer);
            nodes.push(node.clone());
            let mut answers = vec![created(create(&sent).0, &node)];
            answers.extend((lists(&sent) > 0).then(|| listed(list(&sent).0, &nodes)));
            fixture.tell(answers);
        }
        assert_eq!(
            lists(&fixture.tell([join(50, Kind::Read)])),
            usize::from(writers < 2),
            "{writers} writers"
        );
    }
}
