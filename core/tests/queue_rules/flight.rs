//! A create and a listing in one flight (rule 3).

use zklock::queue::{Action, Event, Outcome, Refusal};

use super::desk::{A, B, Desk, create, created, grants, list, listed, refusals, waits};

#[test]
fn rule_03_a_create_and_a_listing_in_one_flight_and_no_more() {
    let mut desk = Desk::new(1);
    let sent = desk.tell([waits(A)]);
    assert!(matches!(&sent[..], [Action::Create(..), Action::List { sync: false, .. }]), "{sent:?}");
    let node = format!("{}0000000000", create(&sent).1);
    assert_eq!(desk.tell([created(create(&sent).0, &node)]), [], "only the listing tells who is before us");
    let actions = desk.tell([listed(list(&sent).0, [&node])]);
    assert!(matches!(&actions[..], [Action::Grant(A, on, 1000)] if on.as_str() == node), "{actions:?}");
}

#[test]
fn rule_03_torn_pair_is_not_believed() {
    let mut desk = Desk::new(1);
    let sent = desk.tell([waits(A)]);
    // The create was lost with the old connection, the listing was answered on the new one.
    let actions = desk.tell([
        Event::Disconnected,
        Event::Created(create(&sent).0, Outcome::Lost),
        Event::Connected,
        listed(list(&sent).0, &[]),
    ]);
    assert!(matches!(&actions[..], [Action::List { sync: true, .. }]), "{actions:?}");
}

#[test]
fn rule_03_a_listing_without_our_node_grants_nothing() {
    let mut desk = Desk::new(1);
    let sent = desk.tell([waits(A)]);
    let node = format!("{}0000000000", create(&sent).1);
    let actions = desk.tell([created(create(&sent).0, &node), listed(list(&sent).0, &[])]);
    assert_eq!(grants(&actions), []);
    assert_ne!(create(&actions).1, create(&sent).1, "an operator deleted it: it joins again");
}

#[test]
fn rule_03_a_listing_sent_before_the_create_says_nothing_of_it() {
    let mut desk = Desk::new(1);
    let first = desk.tell([waits(A)]);
    let second = desk.tell([waits(B)]);
    let nodes = [format!("{}0000000000", create(&first).1), format!("{}0000000001", create(&second).1)];
    let early = desk.tell([created(create(&first).0, &nodes[0]), listed(list(&first).0, &nodes[..1])]);
    assert_eq!(grants(&early), [A]);
    let late = desk.tell([created(create(&second).0, &nodes[1]), listed(list(&early).0, &nodes)]);
    assert_eq!(late, []);
}

#[test]
fn rule_03_a_listing_sent_before_the_create_and_heard_after_it_says_nothing_either() {
    let mut desk = Desk::new(1);
    let first = desk.tell([waits(A)]);
    let second = desk.tell([waits(B)]);
    let nodes = [format!("{}0000000000", create(&first).1), format!("{}0000000001", create(&second).1)];
    let both = [created(create(&first).0, &nodes[0]), created(create(&second).0, &nodes[1])];
    desk.tell(both);
    let actions = desk.tell([listed(list(&first).0, &nodes[..1])]);
    assert_eq!(grants(&actions), [A]);
    assert!(matches!(&actions[..], [Action::Grant(..), Action::List { .. }]), "{actions:?}");
}

#[test]
fn rule_03_missing_parents_are_made_and_the_create_sent_again_but_not_for_ever() {
    let mut desk = Desk::new(1);
    let mut sent = desk.tell([waits(A)]);
    let mut made = 0;
    while refusals(&sent).is_empty() {
        let actions = desk.tell([
            Event::Created(create(&sent).0, Outcome::NoNode),
            Event::Listed(list(&sent).0, Outcome::NoNode),
        ]);
        let Some(Action::MakeParents(ticket)) = actions.first() else {
            sent = actions;
            continue;
        };
        made += 1;
        sent = desk.tell([Event::ParentsMade(*ticket, Outcome::Done(()))]);
    }
    assert_eq!(made, 16);
    assert!(matches!(&refusals(&sent)[..], [(A, Refusal::Server(_))]));
    assert!(desk.0.is_idle());
}
