//! Tests of creates whose reply was lost (rule 8).

use zklock::queue::{Action, Event, Outcome};

use super::fixture::{
    A, B, QueueFixture, create, created, deleted, deletes, grants, list, listed, lost_reply, release, verify,
    waits,
};

#[test]
fn rule_08_lost_create_reply_the_lowest_node_is_verified_before_it_is_granted() {
    let mut fixture = QueueFixture::new(1);
    let (look, name) = lost_reply(&mut fixture, A);
    let (low, high) = (format!("{name}0000000003"), format!("{name}0000000004"));
    let actions = fixture.tell([listed(look, [&high, &low])]);
    assert_eq!((grants(&actions), deleted(&actions)), (vec![], vec![high]));
    let (ticket, node) = verify(&actions);
    assert_eq!(node, low);
    let look = fixture.tell([Event::Verified(ticket, Outcome::Done(Some(77)))]);
    let actions = fixture.tell([listed(list(&look).0, [&low])]);
    assert!(matches!(&actions[..], [Action::Grant(A, _, 77)]), "{actions:?}");
}

#[test]
fn rule_08_lost_create_reply_a_node_of_another_session_is_not_ours() {
    let mut fixture = QueueFixture::new(1);
    let (look, name) = lost_reply(&mut fixture, A);
    let node = format!("{name}0000000003");
    let (ticket, _) = verify(&fixture.tell([listed(look, [&node])]));
    let again = fixture.tell([Event::Verified(ticket, Outcome::Done(None))]);
    assert_ne!(create(&again).1, name);
}

#[test]
fn rule_08_lost_create_reply_only_a_listing_after_a_sync_concludes_that_there_is_no_node() {
    let mut fixture = QueueFixture::new(1);
    let first = fixture.tell([waits(A)]);
    let look = fixture.tell([Event::Created(create(&first).0, Outcome::Lost), listed(list(&first).0, &[])]);
    assert!(matches!(&look[..], [Action::List { sync: true, .. }]), "{look:?}");
    let again = fixture.tell([listed(list(&look).0, &[])]);
    assert_eq!(create(&again).1, create(&first).1);
}

#[test]
fn rule_08_lost_create_reply_the_next_listing_follows_a_sync() {
    let mut fixture = QueueFixture::new(1);
    let first = fixture.tell([waits(A)]);
    assert_eq!(fixture.tell([Event::Created(create(&first).0, Outcome::Lost)]), []);
    let look = fixture.tell([Event::Listed(list(&first).0, Outcome::Lost)]);
    assert!(matches!(&look[..], [Action::List { sync: true, .. }]), "{look:?}");
}

#[test]
fn rule_08_lost_create_reply_a_listing_from_before_the_create_concludes_nothing() {
    let mut fixture = QueueFixture::new(1);
    let (look, _) = lost_reply(&mut fixture, A);
    let second = fixture.tell([waits(B)]);
    fixture.tell([Event::Created(create(&second).0, Outcome::Lost)]);
    let next = fixture.tell([listed(look, &[])]);
    assert!(create(&next).1.ends_with("-lock-"));
    assert!(matches!(&next[..], [Action::Create(_, A, _), Action::List { sync: true, .. }]), "{next:?}");
}

#[test]
fn rule_08_lost_create_reply_the_node_appears_late() {
    let mut fixture = QueueFixture::new(1);
    let first = fixture.tell([waits(A)]);
    let node = format!("{}0000000003", create(&first).1);
    let look = fixture.tell([Event::Created(create(&first).0, Outcome::Lost), listed(list(&first).0, &[])]);
    let actions = fixture.tell([listed(list(&look).0, [&node])]);
    assert_eq!(verify(&actions).1, node);
}

#[test]
fn rule_08_a_place_found_late_before_a_holder_waits_for_it() {
    let mut fixture = QueueFixture::new(1);
    let first = fixture.tell([waits(A)]);
    let name = create(&first).1;
    let second = fixture.tell([waits(B), Event::Created(create(&first).0, Outcome::Lost)]);
    let (a, b) = (format!("{name}0000000003"), format!("{}0000000004", create(&second).1));
    let look = fixture.tell([created(create(&second).0, &b), listed(list(&first).0, &[])]);
    // In spite of the sync, the listing does not show A's node, because the server follows a
    // deposed leader.
    let late = fixture.tell([listed(list(&look).0, [&b])]);
    assert_eq!(grants(&late), [B]);
    let again =
        fixture.tell([Event::Created(create(&late).0, Outcome::Lost), listed(list(&late).0, [&a, &b])]);
    let verified = Event::Verified(verify(&again).0, Outcome::Done(Some(9)));
    assert_eq!(grants(&fixture.tell([verified, listed(list(&again).0, [&a, &b])])), []);
    assert_eq!(grants(&fixture.tell([release(&b)])), [A]);
}

/// A deposed leader answers the sync, so the listing lacks A's first node. The listing after the
/// second create shows both nodes. A then waits with the first node, and the second is deleted.
#[test]
fn rule_08_the_create_after_a_stale_sync_corrects_its_result() {
    let mut fixture = QueueFixture::new(1);
    let (look, name) = lost_reply(&mut fixture, A);
    let again = fixture.tell([listed(look, &[])]);
    assert_eq!(create(&again).1, name, "the same uuid");
    let (first, second) = (format!("{name}0000000003"), format!("{name}0000000007"));
    let actions =
        fixture.tell([created(create(&again).0, &second), listed(list(&again).0, [&first, &second])]);
    assert_eq!((deleted(&actions), grants(&actions)), (vec![second], vec![]));
    let (ticket, node) = verify(&actions);
    assert_eq!(node, first);
    let look = fixture.tell([Event::Verified(ticket, Outcome::Done(Some(3)))]);
    let actions = fixture.tell([listed(list(&look).0, [&first])]);
    assert!(matches!(&actions[..], [Action::Grant(A, _, 3)]), "{actions:?}");
}

/// A deposed leader answers the sync, so the listing lacks A's node. The next listing shows A's
/// node ahead of B's, and B must wait for A.
#[test]
fn rule_08_a_stale_sync_lets_no_other_contender_of_ours_overtake() {
    let mut fixture = QueueFixture::new(1);
    let (look, name) = lost_reply(&mut fixture, A);
    let joined = fixture.tell([waits(B)]);
    let again = fixture.tell([listed(look, &[])]);
    assert_eq!(create(&again).1, name);
    let (first, other) = (format!("{name}0000000003"), format!("{}0000000004", create(&joined).1));
    let actions =
        fixture.tell([created(create(&joined).0, &other), listed(list(&again).0, [&first, &other])]);
    assert_eq!((deleted(&actions), grants(&actions)), (vec![], vec![]));
    let look = fixture.tell([Event::Created(create(&again).0, Outcome::Lost)]);
    let actions = fixture.tell([listed(list(&look).0, [&first, &other])]);
    assert_eq!((verify(&actions).1, grants(&actions)), (first, vec![]));
}

/// Two creates are lost with the connection. The driver reports the loss of A's create only after a
/// pause. In the meantime, a listing shows B's node behind A's.
#[test]
fn rule_08_a_loss_that_is_told_late_lets_no_other_contender_of_ours_overtake() {
    let mut fixture = QueueFixture::new(1);
    let first = fixture.tell([waits(A)]);
    let second = fixture.tell([waits(B)]);
    let (a, b) = (format!("{}0000000003", create(&first).1), format!("{}0000000004", create(&second).1));
    let lost =
        [Event::Created(create(&second).0, Outcome::Lost), Event::Listed(list(&first).0, Outcome::Lost)];
    fixture.tell([Event::Disconnected].into_iter().chain(lost));
    let look = fixture.tell([Event::Connected]);
    let found = fixture.tell([listed(list(&look).0, [&a, &b])]);
    assert_eq!((verify(&found).1, deleted(&found)), (b.clone(), vec![]));
    let look = fixture.tell([Event::Verified(verify(&found).0, Outcome::Done(Some(1004)))]);
    assert_eq!(grants(&fixture.tell([listed(list(&look).0, [&a, &b])])), [], "A's node stands before B's");
    let look = fixture.tell([Event::Created(create(&first).0, Outcome::Lost)]);
    let found = fixture.tell([listed(list(&look).0, [&a, &b])]);
    let look = fixture.tell([Event::Verified(verify(&found).0, Outcome::Done(Some(1003)))]);
    assert_eq!(grants(&fixture.tell([listed(list(&look).0, [&a, &b])])), [A]);
    assert_eq!(grants(&fixture.tell([release(&a)])), [B]);
}

/// A listing shows the node of a create whose reply was lost. The client asks for the node's owner,
/// but that reply is lost too.
#[test]
fn rule_08_a_node_that_could_not_be_verified_is_not_overtaken() {
    let mut fixture = QueueFixture::new(1);
    let (look, name) = lost_reply(&mut fixture, A);
    let joined = fixture.tell([waits(B)]);
    let (a, b) = (format!("{name}0000000003"), format!("{}0000000004", create(&joined).1));
    let found = fixture.tell([listed(look, [&a])]);
    fixture.tell([created(create(&joined).0, &b), listed(list(&found).0, [&a, &b])]);
    let look = fixture.tell([Event::Verified(verify(&found).0, Outcome::Lost)]);
    assert_eq!(grants(&look), []);
    let again = fixture.tell([listed(list(&look).0, [&a, &b])]);
    assert_eq!((verify(&again).1, grants(&again)), (a.clone(), vec![]));
    let look = fixture.tell([Event::Verified(verify(&again).0, Outcome::Done(Some(9)))]);
    assert_eq!(grants(&fixture.tell([listed(list(&look).0, [&a, &b])])), [A]);
}

/// In addition, the deposed leader cannot commit the second create.
#[test]
fn rule_08_a_stale_sync_is_forgotten_if_the_create_that_follows_it_is_not_acknowledged() {
    let mut fixture = QueueFixture::new(1);
    let (look, name) = lost_reply(&mut fixture, A);
    let again = fixture.tell([listed(look, &[])]);
    let (lost, listing) = (create(&again).0, list(&again).0);
    let cut =
        [Event::Disconnected, Event::Created(lost, Outcome::Lost), Event::Listed(listing, Outcome::Lost)];
    assert_eq!(fixture.tell(cut), []);
    let look = fixture.tell([Event::Connected]);
    assert!(matches!(&look[..], [Action::List { sync: true, .. }]), "{look:?}");
    let found = fixture.tell([listed(list(&look).0, [&format!("{name}0000000003")])]);
    assert_eq!(verify(&found).1, format!("{name}0000000003"));
}

#[test]
fn rule_08_every_listing_finds_orphans() {
    let mut fixture = QueueFixture::new(1);
    let node = fixture.hold(A, 5);
    let orphan = format!("{}0000000007", &node[..node.len() - 10]);
    let look = fixture.reconnect();
    let actions = fixture.tell([listed(list(&look).0, [&node, &orphan])]);
    assert_eq!(deleted(&actions), [orphan]);
}

#[test]
fn rule_08_a_create_under_way_is_no_orphan() {
    let mut fixture = QueueFixture::new(1);
    let node = fixture.hold(A, 5);
    let look = fixture.reconnect();
    let sent = fixture.tell([waits(B)]);
    let early = format!("{}0000000006", create(&sent).1);
    let actions = fixture.tell([listed(list(&look).0, [&node, &early])]);
    assert_eq!(deleted(&actions), Vec::<String>::new());
}

/// Regression: a server was stopped while it had an old connect request and an old create of the
/// session in its queue. When it resumed, it took the session back and executed the create. The
/// node was ahead of all others, and the client did not know that the node existed.
#[test]
fn rule_08_a_create_that_was_given_up_may_come_late() {
    let mut fixture = QueueFixture::new(1);
    let (look, name) = lost_reply(&mut fixture, A);
    fixture.tell([Event::Leave(A), listed(look, &[])]);
    assert!(!fixture.0.is_idle());
    let look = fixture.reconnect();
    assert!(matches!(&look[..], [Action::List { sync: true, .. }]), "{look:?}");
    let late = format!("{name}0000000005");
    let actions = fixture.tell([listed(list(&look).0, [&late])]);
    assert_eq!(deleted(&actions), [late]);
    fixture.tell([Event::Deleted(deletes(&actions)[0].0, Outcome::Done(()))]);
    fixture.rule_out_late_creates();
}
