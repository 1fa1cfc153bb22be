//! One test or more a rule of the protocol: each tells the queue a short history, and says what it must do.
//!
//! The numbers are those of the rules in the design. Rules without a test here are not the queue's.

use zklock::queue::{Action, Event, Intent, JoinId, Kind, Naming, NodeName, Outcome, Queue, Refusal, Ticket};

const A: JoinId = JoinId(1);
const B: JoinId = JoinId(2);

/// A queue whose settling after each batch of events returns what it wants done.
struct Desk(Queue);

impl Desk {
    /// In a session with this seed, connected.
    fn new(seed: u64) -> Self {
        let mut desk = Self(Queue::new());
        desk.tell([Event::SessionBegan(seed), Event::Connected, Event::TermBegan]);
        desk
    }

    fn tell(&mut self, events: impl IntoIterator<Item = Event>) -> Vec<Action> {
        events.into_iter().for_each(|event| self.0.handle(event));
        self.0.settle();
        std::iter::from_fn(|| self.0.next_action()).collect()
    }

    /// A contender waits behind these children, with its watches acknowledged. Its node.
    fn queue_up(&mut self, join: JoinId, sequence: u32, others: &[String]) -> (String, Vec<Action>) {
        let (node, actions) = self.place(join, sequence, others);
        let acks: Vec<_> = watches(&actions).into_iter().map(|(ticket, _)| acknowledged(ticket)).collect();
        assert_eq!(self.tell(acks), []);
        (node, actions)
    }

    /// A contender joins, and its listing shows these children and its own. Its node, and what follows.
    fn place(&mut self, join: JoinId, sequence: u32, others: &[String]) -> (String, Vec<Action>) {
        let sent = self.tell([waits(join)]);
        let node = format!("{}{sequence:010}", create(&sent).1);
        let listed = listed(list(&sent).0, others.iter().chain([&node]));
        let actions = self.tell([created(create(&sent).0, &node), listed]);
        (node, actions)
    }

    /// A contender holds. Its node.
    fn hold(&mut self, join: JoinId, sequence: u32) -> String {
        let (node, actions) = self.place(join, sequence, &[]);
        assert_eq!(grants(&actions), [join]);
        node
    }

    /// Looks again and again and finds nothing, until no create can come late any more.
    fn outlast_doubt(&mut self) {
        for looks in 0.. {
            assert!(looks < 100, "it doubts for ever");
            let look = self.tell([Event::LookAgain]);
            if look.is_empty() {
                break;
            }
            assert_eq!(self.tell([listed(list(&look).0, &[])]), []);
        }
        assert!(self.0.is_idle());
    }

    fn reconnect(&mut self) -> Vec<Action> {
        self.tell([Event::Disconnected, Event::Connected])
    }
}

fn waits(join: JoinId) -> Event {
    Event::Join(join, Naming::Curator, Kind::Exclusive, Intent::Wait)
}

fn tries(join: JoinId) -> Event {
    Event::Join(join, Naming::Curator, Kind::Exclusive, Intent::Try)
}

fn created(ticket: Ticket, node: &str) -> Event {
    Event::Created(ticket, Outcome::Done((node.to_owned(), czxid(node))))
}

/// The transaction that made a node: as its sequence number, from 1000.
fn czxid(node: &str) -> i64 {
    1000 + node[node.len() - 10..].parse::<i64>().expect("ten digits")
}

fn listed<'a>(ticket: Ticket, children: impl IntoIterator<Item = &'a String>) -> Event {
    Event::Listed(ticket, Outcome::Done(children.into_iter().cloned().collect()))
}

fn acknowledged(ticket: Ticket) -> Event {
    Event::Watched(ticket, Outcome::Done(()))
}

fn other(sequence: u32) -> String {
    format!("_c_0f0f0f0f-0f0f-4f0f-8f0f-0f0f0f0f0f0f-lock-{sequence:010}")
}

fn writer(sequence: u32) -> String {
    other(sequence).replace("-lock-", "-__WRIT__")
}

/// The one create among actions: its ticket, and the name before the sequence number.
fn create(actions: &[Action]) -> (Ticket, String) {
    let mut creates = actions.iter().filter_map(|action| match action {
        Action::Create(ticket, _, name) => Some((*ticket, name.clone())),
        _ => None,
    });
    match (creates.next(), creates.next()) {
        (Some(create), None) => create,
        _ => panic!("not one create: {actions:?}"),
    }
}

/// The one listing among actions, and whether it follows a sync.
fn list(actions: &[Action]) -> (Ticket, bool) {
    let mut lists = actions.iter().filter_map(|action| match action {
        Action::List { ticket, sync } => Some((*ticket, *sync)),
        _ => None,
    });
    match (lists.next(), lists.next()) {
        (Some(list), None) => list,
        _ => panic!("not one listing: {actions:?}"),
    }
}

fn watches(actions: &[Action]) -> Vec<(Ticket, String)> {
    let watch = |action: &Action| match action {
        Action::Watch(ticket, node) => Some((*ticket, node.as_str().to_owned())),
        _ => None,
    };
    actions.iter().filter_map(watch).collect()
}

fn watch(actions: &[Action], node: &str) -> Ticket {
    let found = watches(actions).into_iter().find(|(_, on)| on == node);
    found.unwrap_or_else(|| panic!("no watch on {node}: {actions:?}")).0
}

fn watched(actions: &[Action]) -> Vec<String> {
    watches(actions).into_iter().map(|(_, node)| node).collect()
}

fn verify(actions: &[Action]) -> (Ticket, String) {
    match actions.iter().find(|action| matches!(action, Action::Verify(..))) {
        Some(Action::Verify(ticket, node)) => (*ticket, node.as_str().to_owned()),
        _ => panic!("nothing is verified: {actions:?}"),
    }
}

fn deletes(actions: &[Action]) -> Vec<(Ticket, String)> {
    let delete = |action: &Action| match action {
        Action::Delete(ticket, node) => Some((*ticket, node.as_str().to_owned())),
        _ => None,
    };
    actions.iter().filter_map(delete).collect()
}

fn deleted(actions: &[Action]) -> Vec<String> {
    deletes(actions).into_iter().map(|(_, node)| node).collect()
}

fn grants(actions: &[Action]) -> Vec<JoinId> {
    let grant = |action: &Action| match action {
        Action::Grant(join, ..) => Some(*join),
        _ => None,
    };
    actions.iter().filter_map(grant).collect()
}

fn refusals(actions: &[Action]) -> Vec<(JoinId, Refusal)> {
    let refusal = |action: &Action| match action {
        Action::Refuse(join, refusal) => Some((*join, refusal.clone())),
        _ => None,
    };
    actions.iter().filter_map(refusal).collect()
}

#[test]
fn rule_01_a_uuid_is_kept_over_retries_within_a_session() {
    let mut desk = Desk::new(1);
    let first = desk.tell([waits(A)]);
    let (lost, unheard) = (create(&first).0, list(&first).0);
    desk.tell([Event::Disconnected]);
    desk.tell([Event::Created(lost, Outcome::Lost), Event::Listed(unheard, Outcome::Lost)]);
    let look = desk.tell([Event::Connected]);
    let again = desk.tell([listed(list(&look).0, &[])]);
    assert_eq!(create(&again).1, create(&first).1);
}

/// CURATOR-604: a waiter whose session was replaced finds its old session's node, and acquires through it.
#[test]
fn rule_01_a_uuid_never_crosses_sessions() {
    let mut desk = Desk::new(1);
    let (ghost, _) = desk.queue_up(A, 5, &[other(4)]);
    let again = desk.tell([Event::SessionLost, Event::SessionBegan(2), Event::Connected, Event::TermBegan]);
    assert!(matches!(&again[..], [Action::Create(..), Action::List { .. }]), "{again:?}");
    let (ticket, name) = create(&again);
    assert_ne!(name, ghost[..ghost.len() - 10], "the uuid of the old session");
    // The server still shows the old node: it is somebody else's, and stands before the new one.
    let new = format!("{name}0000000006");
    let actions = desk.tell([created(ticket, &new), listed(list(&again).0, [&ghost, &new])]);
    assert_eq!((grants(&actions), deleted(&actions)), (vec![], vec![]));
    assert_eq!(watched(&actions), [ghost, new]);
}

#[test]
fn rule_01_an_unknown_create_of_an_old_session_is_not_looked_for_in_the_new_one() {
    let mut desk = Desk::new(1);
    let first = desk.tell([waits(A)]);
    desk.tell([Event::Disconnected, Event::Created(create(&first).0, Outcome::Lost)]);
    let again = desk.tell([Event::SessionLost, Event::SessionBegan(2), Event::Connected, Event::TermBegan]);
    let ghost = format!("{}0000000005", create(&first).1);
    let new = format!("{}0000000006", create(&again).1);
    let actions = desk.tell([created(create(&again).0, &new), listed(list(&again).0, [&ghost, &new])]);
    assert_eq!((grants(&actions), watched(&actions)), (vec![], vec![ghost, new]));
}

#[test]
fn rule_02_every_child_that_ends_in_a_number_counts_and_others_are_reported_once() {
    let mut desk = Desk::new(1);
    let (kazoo, plain) = ("0123456789abcdef__lock__0000000001".to_owned(), "x0000000002".to_owned());
    let children = [kazoo.clone(), plain.clone(), "locks".to_owned(), "leases".to_owned()];
    let (node, actions) = desk.queue_up(A, 3, &children);
    assert_eq!(watched(&actions), [kazoo, plain, node.clone()]);
    let ignored: Vec<_> = actions.iter().filter(|action| matches!(action, Action::Ignored(_))).collect();
    assert_eq!(ignored.len(), 1);
    let look = desk.tell([Event::LookAgain]);
    let actions = desk.tell([listed(list(&look).0, children[2..].iter().chain([&node]))]);
    assert_eq!(grants(&actions), [A]);
    assert!(!actions.iter().any(|action| matches!(action, Action::Ignored(_))));
}

#[test]
fn rule_02_a_sequence_number_close_to_the_end_is_refused_and_the_node_deleted() {
    let mut desk = Desk::new(1);
    let (node, actions) = desk.place(A, i32::MAX as u32 - 9, &[]);
    assert_eq!(refusals(&actions), [(A, Refusal::SequenceExhausted)]);
    assert_eq!((grants(&actions), deleted(&actions)), (vec![], vec![node]));
}

#[test]
fn rule_02_a_counter_that_has_wrapped_is_refused_though_our_number_looks_low() {
    let mut desk = Desk::new(1);
    let wrapped = other(0).replace("0000000000", "-2147483000");
    let (node, actions) = desk.place(A, 3, &[wrapped]);
    assert_eq!(refusals(&actions), [(A, Refusal::SequenceExhausted)]);
    assert_eq!(deleted(&actions), [node]);
}

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

#[test]
fn rule_04_a_waiter_stands_behind_its_own_client() {
    let mut desk = Desk::new(1);
    let first = desk.hold(A, 0);
    let (_, actions) = desk.place(B, 1, &[first]);
    assert_eq!(actions, [], "behind our own holder: no watch is needed");
}

#[test]
fn rule_05_no_tombstones() {
    let mut desk = Desk::new(1);
    let (node, actions) = desk.queue_up(A, 5, &[other(3), other(4)]);
    desk.tell([Event::Gone(watch(&actions, &other(4)))]);
    // A server that is behind the event shows the node again: it counts, and is watched again.
    let look = desk.reconnect();
    let actions = desk.tell([listed(list(&look).0, [&other(4), &node])]);
    assert_eq!((grants(&actions), watched(&actions)), (vec![], vec![other(4)]));
    // Told the same once more, and by the node's absence this time.
    let actions = desk.tell([Event::Watched(watch(&actions, &other(4)), Outcome::NoNode)]);
    assert_eq!(grants(&actions), [A]);
}

#[test]
fn rule_05_a_listing_never_revokes_a_grant() {
    let mut desk = Desk::new(1);
    let node = desk.hold(A, 5);
    let look = desk.reconnect();
    let actions = desk.tell([listed(list(&look).0, [&other(4), &node])]);
    assert_eq!(actions, []);
}

#[test]
fn rule_05_a_change_uses_up_the_watch_which_is_set_again() {
    let mut desk = Desk::new(1);
    let (_, actions) = desk.queue_up(A, 5, &[other(4)]);
    let actions = desk.tell([Event::Changed(watch(&actions, &other(4)))]);
    assert_eq!((grants(&actions), watched(&actions)), (vec![], vec![other(4)]));
    let actions =
        desk.tell([acknowledged(watch(&actions, &other(4))), Event::Gone(watch(&actions, &other(4)))]);
    assert_eq!(grants(&actions), [A]);
}

#[test]
fn rule_06_lookahead_watches_the_two_nearest_and_the_own_node_in_one_flight() {
    let mut desk = Desk::new(1);
    let (node, actions) = desk.place(A, 5, &[other(1), other(2), other(3)]);
    assert_eq!(watched(&actions), [other(2), other(3), node]);
    assert_eq!(actions.len(), 3);
}

#[test]
fn rule_06_lookahead_grants_on_the_event() {
    let mut desk = Desk::new(1);
    let (_, actions) = desk.queue_up(A, 5, &[other(4)]);
    let actions = desk.tell([Event::Gone(watch(&actions, &other(4)))]);
    assert!(matches!(&actions[..], [Action::Grant(A, ..)]), "{actions:?}");
}

#[test]
fn rule_06_lookahead_waits_until_the_own_watch_is_acknowledged() {
    let mut desk = Desk::new(1);
    let (node, actions) = desk.place(A, 5, &[other(4)]);
    let nearest = watch(&actions, &other(4));
    assert_eq!(desk.tell([acknowledged(nearest), Event::Gone(nearest)]), []);
    assert_eq!(grants(&desk.tell([acknowledged(watch(&actions, &node))])), [A]);
}

#[test]
fn rule_06_lookahead_lists_again_when_the_second_nearest_goes() {
    let mut desk = Desk::new(1);
    let (node, actions) = desk.queue_up(A, 5, &[other(1), other(2), other(3)]);
    let look = desk.tell([Event::Gone(watch(&actions, &other(2)))]);
    assert!(matches!(&look[..], [Action::List { sync: false, .. }]), "{look:?}");
    let next = desk.tell([listed(list(&look).0, [&other(1), &other(3), &node])]);
    assert_eq!(watched(&next), [other(1)]);
    let near = desk.tell([acknowledged(watch(&next, &other(1))), Event::Gone(watch(&actions, &other(3)))]);
    assert_eq!(near, [], "the second-nearest became the nearest, and is watched");
    assert_eq!(grants(&desk.tell([Event::Gone(watch(&next, &other(1)))])), [A]);
}

#[test]
fn rule_06_the_nearest_gone_is_not_enough_while_others_are_before_it() {
    let mut desk = Desk::new(1);
    let (_, actions) = desk.queue_up(A, 5, &[other(1), other(2), other(3)]);
    let next = desk.tell([Event::Gone(watch(&actions, &other(3)))]);
    assert_eq!(grants(&next), []);
    assert!(matches!(&next[..], [Action::List { sync: false, .. }]), "{next:?}");
}

#[test]
fn rule_06_own_node_gone_joins_again() {
    let mut desk = Desk::new(1);
    let (node, actions) = desk.queue_up(A, 5, &[other(4)]);
    let again = desk.tell([Event::Gone(watch(&actions, &node)), Event::Gone(watch(&actions, &other(4)))]);
    assert_eq!(grants(&again), []);
    assert_ne!(create(&again).1, node[..node.len() - 10]);
}

#[test]
fn rule_06_one_place_that_is_certain_does_not_vouch_for_those_behind_it() {
    let mut desk = Desk::new(1);
    let (first, near) = desk.queue_up(A, 2, &[other(1)]);
    let (node, far) = desk.queue_up(B, 4, &[other(1), first, other(3)]);
    // From here nobody tells what becomes of B's node.
    let used_up = Event::Changed(watch(&far, &node));
    assert_eq!(desk.tell([used_up, Event::Gone(watch(&far, &other(3)))]), []);
    assert_eq!(grants(&desk.tell([Event::Gone(watch(&near, &other(1)))])), [A]);
    let look = desk.tell([Event::Release(A)]);
    assert_eq!(grants(&look), []);
    let again = desk.tell([listed(list(&look).0, [])]);
    assert_ne!(create(&again).1, node[..node.len() - 10]);
}

#[test]
fn rule_06_a_vanished_writer_blocks_until_a_later_listing() {
    let mut desk = Desk::new(1);
    let (node, actions) = desk.queue_up(A, 5, &[writer(4)]);
    let look = desk.tell([Event::Gone(watch(&actions, &writer(4)))]);
    assert!(matches!(&look[..], [Action::List { .. }]), "{look:?}");
    // Curator downgraded: a reader has the writer's place.
    let reader = writer(4).replace("__WRIT__", "__READ__");
    let next = desk.tell([listed(list(&look).0, [&reader, &node])]);
    assert_eq!((grants(&next), watched(&next)), (vec![], vec![reader.clone()]));
    assert_eq!(grants(&desk.tell([Event::Gone(watch(&next, &reader))])), [A]);
}

#[test]
fn rule_06_a_vanished_writer_is_not_cleared_by_a_listing_from_before() {
    let mut desk = Desk::new(1);
    let (node, actions) = desk.queue_up(A, 5, &[writer(4)]);
    let look = desk.tell([Event::LookAgain]);
    // In one batch: the listing was answered first, then the writer went.
    let next =
        desk.tell([listed(list(&look).0, [&writer(4), &node]), Event::Gone(watch(&actions, &writer(4)))]);
    assert_eq!(grants(&next), []);
    assert_eq!(grants(&desk.tell([listed(list(&next).0, [&node])])), [A]);
}

#[test]
fn rule_07_adjacent_handoff_grants_before_the_delete_is_acknowledged() {
    let mut desk = Desk::new(1);
    let first = desk.hold(A, 0);
    desk.place(B, 1, std::slice::from_ref(&first));
    let actions = desk.tell([Event::Release(A)]);
    assert_eq!((grants(&actions), deleted(&actions)), (vec![B], vec![first]));
    assert_eq!(actions.len(), 2, "a grant and a delete: {actions:?}");
}

#[test]
fn rule_07_strict_order_is_kept_where_somebody_stands_between() {
    let mut desk = Desk::new(1);
    let first = desk.hold(A, 0);
    let (_, actions) = desk.queue_up(B, 2, &[first, other(1)]);
    assert_eq!(grants(&desk.tell([Event::Release(A)])), []);
    assert_eq!(grants(&desk.tell([Event::Gone(watch(&actions, &other(1)))])), [B]);
}

/// The lost reply of a join, on a new connection: the ticket of the listing that follows the sync, and the name.
fn lost_reply(desk: &mut Desk, join: JoinId) -> (Ticket, String) {
    let sent = desk.tell([waits(join)]);
    desk.tell([Event::Disconnected]);
    let lost = [Event::Created(create(&sent).0, Outcome::Lost), Event::Listed(list(&sent).0, Outcome::Lost)];
    assert_eq!(desk.tell(lost), []);
    let look = desk.tell([Event::Connected]);
    assert!(matches!(&look[..], [Action::List { sync: true, .. }]), "{look:?}");
    (list(&look).0, create(&sent).1)
}

#[test]
fn rule_08_lost_create_reply_the_lowest_node_is_verified_before_it_is_granted() {
    let mut desk = Desk::new(1);
    let (look, name) = lost_reply(&mut desk, A);
    let (low, high) = (format!("{name}0000000003"), format!("{name}0000000004"));
    let actions = desk.tell([listed(look, [&high, &low])]);
    assert_eq!((grants(&actions), deleted(&actions)), (vec![], vec![high]));
    let (ticket, node) = verify(&actions);
    assert_eq!(node, low);
    let look = desk.tell([Event::Verified(ticket, Outcome::Done(Some(77)))]);
    let actions = desk.tell([listed(list(&look).0, [&low])]);
    assert!(matches!(&actions[..], [Action::Grant(A, _, 77)]), "{actions:?}");
}

#[test]
fn rule_08_lost_create_reply_a_node_of_another_session_is_not_ours() {
    let mut desk = Desk::new(1);
    let (look, name) = lost_reply(&mut desk, A);
    let node = format!("{name}0000000003");
    let (ticket, _) = verify(&desk.tell([listed(look, [&node])]));
    let again = desk.tell([Event::Verified(ticket, Outcome::Done(None))]);
    assert_ne!(create(&again).1, name);
}

#[test]
fn rule_08_lost_create_reply_only_a_listing_after_a_sync_concludes_that_there_is_no_node() {
    let mut desk = Desk::new(1);
    // B's listing is under way when the outcome of A's create turns out to be unknown.
    let first = desk.tell([waits(A)]);
    let look = desk.tell([Event::Created(create(&first).0, Outcome::Lost), listed(list(&first).0, &[])]);
    assert!(matches!(&look[..], [Action::List { sync: true, .. }]), "{look:?}");
    let again = desk.tell([listed(list(&look).0, &[])]);
    assert_eq!(create(&again).1, create(&first).1);
}

#[test]
fn rule_08_lost_create_reply_the_next_listing_follows_a_sync() {
    let mut desk = Desk::new(1);
    let first = desk.tell([waits(A)]);
    assert_eq!(desk.tell([Event::Created(create(&first).0, Outcome::Lost)]), []);
    let look = desk.tell([Event::Listed(list(&first).0, Outcome::Lost)]);
    assert!(matches!(&look[..], [Action::List { sync: true, .. }]), "{look:?}");
}

#[test]
fn rule_08_lost_create_reply_a_listing_from_before_the_create_concludes_nothing() {
    let mut desk = Desk::new(1);
    let (look, _) = lost_reply(&mut desk, A);
    let second = desk.tell([waits(B)]);
    desk.tell([Event::Created(create(&second).0, Outcome::Lost)]);
    let next = desk.tell([listed(look, &[])]);
    assert!(create(&next).1.ends_with("-lock-"));
    assert!(matches!(&next[..], [Action::Create(_, A, _), Action::List { sync: true, .. }]), "{next:?}");
}

#[test]
fn rule_08_lost_create_reply_the_node_appears_late() {
    let mut desk = Desk::new(1);
    let first = desk.tell([waits(A)]);
    let node = format!("{}0000000003", create(&first).1);
    let look = desk.tell([Event::Created(create(&first).0, Outcome::Lost), listed(list(&first).0, &[])]);
    let actions = desk.tell([listed(list(&look).0, [&node])]);
    assert_eq!(verify(&actions).1, node);
}

#[test]
fn rule_08_a_place_found_late_before_a_holder_waits_for_it() {
    let mut desk = Desk::new(1);
    let first = desk.tell([waits(A)]);
    let name = create(&first).1;
    let second = desk.tell([waits(B), Event::Created(create(&first).0, Outcome::Lost)]);
    let (a, b) = (format!("{name}0000000003"), format!("{}0000000004", create(&second).1));
    let look = desk.tell([created(create(&second).0, &b), listed(list(&first).0, &[])]);
    let found = desk.tell([listed(list(&look).0, [&a, &b])]);
    assert_eq!(grants(&found), [], "it may be A's turn");
    let late = desk.tell([Event::Verified(verify(&found).0, Outcome::Lost)]);
    assert_eq!(grants(&late), [B]);
    let again = desk.tell([listed(list(&late).0, [&a, &b])]);
    let look = desk.tell([Event::Verified(verify(&again).0, Outcome::Done(Some(9)))]);
    assert_eq!(grants(&desk.tell([listed(list(&look).0, [&a, &b])])), []);
    assert_eq!(grants(&desk.tell([Event::Release(B)])), [A]);
}

#[test]
fn rule_08_every_listing_finds_orphans() {
    let mut desk = Desk::new(1);
    let node = desk.hold(A, 5);
    let orphan = format!("{}0000000007", &node[..node.len() - 10]);
    let look = desk.tell([Event::LookAgain]);
    let actions = desk.tell([listed(list(&look).0, [&node, &orphan])]);
    assert_eq!(deleted(&actions), [orphan]);
}

#[test]
fn rule_08_a_create_under_way_is_no_orphan() {
    let mut desk = Desk::new(1);
    let node = desk.hold(A, 5);
    let look = desk.tell([Event::LookAgain]);
    let sent = desk.tell([waits(B)]);
    let early = format!("{}0000000006", create(&sent).1);
    let actions = desk.tell([listed(list(&look).0, [&node, &early])]);
    assert_eq!(deleted(&actions), Vec::<String>::new());
}

/// The session went back to a server that had been stopped, by a request to connect that had waited there as the create
/// had: the node stood before everybody, and nobody knew it.
#[test]
fn rule_08_a_create_that_was_given_up_may_come_late() {
    let mut desk = Desk::new(1);
    let (look, name) = lost_reply(&mut desk, A);
    desk.tell([Event::Leave(A), listed(look, &[])]);
    assert!(!desk.0.is_idle());
    let look = desk.reconnect();
    assert!(matches!(&look[..], [Action::List { sync: true, .. }]), "{look:?}");
    let late = format!("{name}0000000005");
    let actions = desk.tell([listed(list(&look).0, [&late])]);
    assert_eq!(deleted(&actions), [late]);
    desk.tell([Event::Deleted(deletes(&actions)[0].0, Outcome::Done(()))]);
    desk.outlast_doubt();
}

#[test]
fn rule_09_leaving_deletes_the_node_and_drops_the_watches() {
    let mut desk = Desk::new(1);
    let (node, set) = desk.queue_up(A, 5, &[other(3), other(4)]);
    let actions = desk.tell([Event::Leave(A)]);
    assert_eq!(deleted(&actions), [node]);
    let dropped = |node: &str| actions.contains(&Action::Unwatch(watch(&set, node)));
    assert!(dropped(&other(3)) && dropped(&other(4)), "{actions:?}");
    assert_eq!(actions.len(), 3, "its own watch goes with the node: {actions:?}");
    desk.tell([Event::Deleted(deletes(&actions)[0].0, Outcome::Done(()))]);
    assert!(desk.0.is_idle());
}

#[test]
fn rule_09_a_shared_watch_goes_with_its_last_user() {
    let mut desk = Desk::new(1);
    let (first, set) = desk.queue_up(A, 5, &[other(3), other(4)]);
    desk.queue_up(B, 6, &[other(3), other(4), first]);
    let actions = desk.tell([Event::Leave(A)]);
    assert!(!actions.iter().any(|action| matches!(action, Action::Unwatch(_))), "{actions:?}");
    let actions = desk.tell([Event::Leave(B)]);
    assert!(actions.contains(&Action::Unwatch(watch(&set, &other(4)))), "{actions:?}");
}

#[test]
fn rule_09_leaving_while_the_create_is_under_way_deletes_the_node_when_it_comes() {
    let mut desk = Desk::new(1);
    let sent = desk.tell([waits(A)]);
    assert_eq!(desk.tell([Event::Leave(A)]), []);
    let node = format!("{}0000000005", create(&sent).1);
    let actions = desk.tell([created(create(&sent).0, &node), listed(list(&sent).0, [&node])]);
    assert_eq!((grants(&actions), deleted(&actions)), (vec![], vec![node]));
}

#[test]
fn rule_09_leaving_with_an_unknown_create_looks_for_the_node_first() {
    let mut desk = Desk::new(1);
    let (look, name) = lost_reply(&mut desk, A);
    assert_eq!(desk.tell([Event::Leave(A)]), []);
    let node = format!("{name}0000000005");
    let (ticket, _) = verify(&desk.tell([listed(look, [&node])]));
    let actions = desk.tell([Event::Verified(ticket, Outcome::Done(Some(9)))]);
    assert_eq!((grants(&actions), deleted(&actions)), (vec![], vec![node]));
}

#[test]
fn rule_09_leaving_with_an_unknown_create_ends_when_there_is_no_node() {
    let mut desk = Desk::new(1);
    let (look, _) = lost_reply(&mut desk, A);
    desk.tell([Event::Leave(A)]);
    assert_eq!(desk.tell([listed(look, &[])]), []);
    desk.outlast_doubt();
}

#[test]
fn rule_09_a_grant_that_races_the_leave_is_ended_by_a_release() {
    let mut desk = Desk::new(1);
    let node = desk.hold(A, 5);
    assert_eq!(desk.tell([Event::Leave(A)]), []);
    assert_eq!(deleted(&desk.tell([Event::Release(A)])), [node]);
}

#[test]
fn rule_10_nothing_is_granted_before_a_listing_on_the_new_connection() {
    let mut desk = Desk::new(1);
    let (node, actions) = desk.queue_up(A, 5, &[other(4)]);
    // The watch, set again, fires before anything else is known.
    let look = desk.tell([Event::Disconnected, Event::Connected, Event::Gone(watch(&actions, &other(4)))]);
    assert_eq!(grants(&look), []);
    assert!(list(&look).1);
    assert_eq!(grants(&desk.tell([listed(list(&look).0, [&node])])), [A]);
}

#[test]
fn rule_10_after_a_long_silence_it_looks_again() {
    let mut desk = Desk::new(1);
    let (node, _) = desk.queue_up(A, 5, &[other(4)]);
    let look = desk.tell([Event::LookAgain]);
    assert_eq!(grants(&desk.tell([listed(list(&look).0, [&node])])), [A]);
}

#[test]
fn rule_11_session_lost_ends_holds_and_lets_waiters_join_again() {
    let mut desk = Desk::new(1);
    let node = desk.hold(A, 5);
    desk.place(B, 6, &[node]);
    assert_eq!(desk.tell([Event::SessionLost]), [Action::NodeLost(A)]);
    let again = desk.tell([Event::SessionBegan(2), Event::Connected, Event::TermBegan]);
    assert!(matches!(&again[..], [Action::Create(_, B, _), Action::List { .. }]), "{again:?}");
    // A release that comes too late is answered all the same.
    assert_eq!(desk.tell([Event::Release(A)]), [Action::Released(A)]);
}

#[test]
fn rule_11_session_lost_forgets_everything_that_was_under_way() {
    let mut desk = Desk::new(1);
    let sent = desk.tell([waits(A)]);
    let again = desk.tell([Event::SessionLost, Event::SessionBegan(2), Event::Connected, Event::TermBegan]);
    let node = format!("{}0000000005", create(&sent).1);
    let late = [created(create(&sent).0, &node), listed(list(&sent).0, [&node])];
    assert_eq!(desk.tell(late), []);
    let new = format!("{}0000000006", create(&again).1);
    assert_eq!(grants(&desk.tell([created(create(&again).0, &new), listed(list(&again).0, [&new])])), [A]);
}

#[test]
fn rule_11_session_lost_parents_are_made_again_in_the_new_one() {
    let mut desk = Desk::new(1);
    let sent = desk.tell([waits(A)]);
    desk.tell([
        Event::Created(create(&sent).0, Outcome::NoNode),
        Event::Listed(list(&sent).0, Outcome::NoNode),
    ]);
    // The parents were under way; what came of it is never heard.
    let again = desk.tell([Event::SessionLost, Event::SessionBegan(2), Event::Connected, Event::TermBegan]);
    let made = desk.tell([Event::Created(create(&again).0, Outcome::NoNode)]);
    assert!(matches!(&made[..], [Action::MakeParents(_)]), "{made:?}");
}

#[test]
fn rule_11_session_lost_ends_the_wait_of_those_that_leave() {
    let mut desk = Desk::new(1);
    desk.tell([waits(A), waits(B)]);
    desk.tell([Event::Leave(A), Event::Leave(B)]);
    assert!(!desk.0.is_idle());
    desk.tell([Event::SessionLost]);
    assert!(desk.0.is_idle());
}

#[test]
fn rule_12_a_long_hold_watches_its_node_and_a_deletion_is_a_loss() {
    let mut desk = Desk::new(1);
    let node = desk.hold(A, 5);
    let guard = desk.tell([Event::Guard(A)]);
    assert_eq!(watched(&guard), [node]);
    assert_eq!(guard.len(), 1);
    desk.tell([acknowledged(watches(&guard)[0].0)]);
    assert_eq!(desk.tell([Event::Gone(watches(&guard)[0].0)]), [Action::NodeLost(A)]);
    assert!(desk.0.is_idle());
}

#[test]
fn rule_12_a_holders_node_that_a_new_connection_does_not_show_is_a_loss() {
    let mut desk = Desk::new(1);
    desk.hold(A, 5);
    let look = desk.reconnect();
    assert_eq!(desk.tell([listed(list(&look).0, &[])]), [Action::NodeLost(A)]);
}

#[test]
fn rule_13_a_release_is_retried_until_the_node_is_gone() {
    let mut desk = Desk::new(1);
    let node = desk.hold(A, 5);
    let first = desk.tell([Event::Release(A)]);
    assert_eq!(desk.tell([Event::Disconnected]), []);
    assert_eq!(desk.tell([Event::Deleted(deletes(&first)[0].0, Outcome::Lost)]), []);
    let again = desk.tell([Event::Connected]);
    assert_eq!(deleted(&again), [node]);
    let done = desk.tell([Event::Deleted(deletes(&again)[0].0, Outcome::NoNode)]);
    assert_eq!(done, [Action::Released(A)]);
    assert!(desk.0.is_idle());
}

#[test]
fn rule_13_a_release_is_over_when_the_session_is() {
    let mut desk = Desk::new(1);
    desk.hold(A, 5);
    desk.tell([Event::Release(A)]);
    assert_eq!(desk.tell([Event::SessionLost]), [Action::Released(A)]);
    assert!(desk.0.is_idle());
}

#[test]
fn rule_13_a_refused_delete_is_answered_and_tried_again_at_the_next_look() {
    let mut desk = Desk::new(1);
    desk.hold(A, 5);
    let release = desk.tell([Event::Release(A)]);
    let (ticket, node) = deletes(&release)[0].clone();
    let refused = Outcome::Refused(Refusal::NotAuthorized);
    assert_eq!(desk.tell([Event::Deleted(ticket, refused)]), [Action::Released(A)]);
    // Not dropped: whoever joins here next must know the node for ours.
    assert!(!desk.0.is_idle());
    assert_eq!(deleted(&desk.tell([Event::LookAgain])), [node]);
}

#[test]
fn a_queue_that_follows_another_does_not_take_its_answers() {
    let mut first = Desk::new(1);
    let sent = first.tell([waits(A)]);
    let mut second = Desk(Queue::after(first.0.last_ticket()));
    second.tell([Event::SessionBegan(2), Event::Connected, Event::TermBegan]);
    let own = second.tell([waits(B)]);
    assert!(create(&own).0 > create(&sent).0);
    let late = format!("{}0000000005", create(&sent).1);
    assert_eq!(second.tell([created(create(&sent).0, &late), listed(list(&sent).0, [&late])]), []);
}

#[test]
fn rule_14_busy_try_costs_one_read_and_no_write() {
    let mut desk = Desk::new(1);
    let look = desk.tell([tries(A)]);
    assert!(matches!(&look[..], [Action::List { sync: false, .. }]), "{look:?}");
    let actions = desk.tell([listed(list(&look).0, [&other(4)])]);
    assert_eq!(actions, [Action::Refuse(A, Refusal::Busy)]);
    assert!(desk.0.is_idle());
}

#[test]
fn rule_14_busy_try_behind_the_own_client_costs_nothing() {
    let mut desk = Desk::new(1);
    desk.hold(A, 5);
    assert_eq!(desk.tell([tries(B)]), [Action::Refuse(B, Refusal::Busy)]);
}

#[test]
fn rule_14_a_try_whose_listing_was_lost_looks_again() {
    let mut desk = Desk::new(1);
    let look = desk.tell([tries(A)]);
    let again = desk.tell([Event::Listed(list(&look).0, Outcome::Lost)]);
    assert_eq!(again.len(), 1, "{again:?}");
    assert_eq!(refusals(&desk.tell([listed(list(&again).0, [&other(4)])])), [(A, Refusal::Busy)]);
}

#[test]
fn rule_14_a_try_that_loses_the_race_leaves_the_queue() {
    let mut desk = Desk::new(1);
    let look = desk.tell([tries(A)]);
    let sent = desk.tell([listed(list(&look).0, &[])]);
    let node = format!("{}0000000005", create(&sent).1);
    let actions = desk.tell([created(create(&sent).0, &node), listed(list(&sent).0, [&other(4), &node])]);
    assert_eq!(refusals(&actions), [(A, Refusal::Busy)]);
    assert_eq!((grants(&actions), deleted(&actions)), (vec![], vec![node]));
}

#[test]
fn rule_14_a_try_is_answered_by_a_listing_sent_after_it() {
    let mut desk = Desk::new(1);
    let node = desk.hold(A, 5);
    let early = desk.tell([Event::LookAgain]);
    let release = desk.tell([Event::Release(A), tries(B)]);
    assert_eq!(deleted(&release), std::slice::from_ref(&node));
    // This one may be from before the release, and shows another waiter that has left since.
    let look = desk.tell([listed(list(&early).0, [&node, &other(6)])]);
    assert_eq!(refusals(&look), []);
    let sent =
        desk.tell([Event::Deleted(deletes(&release)[0].0, Outcome::Done(())), listed(list(&look).0, &[])]);
    assert!(create(&sent).1.starts_with("_c_"));
}

// A term that runs (rule 16).

#[test]
fn rule_16_nothing_is_granted_while_no_term_runs() {
    let mut desk = Desk::new(1);
    let (_, actions) = desk.queue_up(A, 5, &[other(4)]);
    desk.tell([Event::TermEnded]);
    assert_eq!(desk.tell([Event::Gone(watch(&actions, &other(4)))]), []);
    assert_eq!(grants(&desk.tell([Event::TermBegan])), [A]);
}

#[test]
fn rule_16_a_new_session_begins_without_a_term() {
    let mut desk = Desk::new(1);
    desk.tell([Event::SessionLost, Event::SessionBegan(2), Event::Connected]);
    let (_, actions) = desk.place(A, 5, &[]);
    assert_eq!(grants(&actions), []);
    assert_eq!(grants(&desk.tell([Event::TermBegan])), [A]);
}

#[test]
fn rule_16_a_release_needs_no_term() {
    let mut desk = Desk::new(1);
    let node = desk.hold(A, 5);
    assert_eq!(deleted(&desk.tell([Event::TermEnded, Event::Release(A)])), [node]);
}

// What the heartbeat tells.

#[test]
fn rule_12_a_heartbeat_that_misses_a_holders_node_is_a_loss() {
    let mut desk = Desk::new(1);
    let node = desk.hold(A, 5);
    let name = NodeName::parse(&node).expect("a name of ours");
    assert_eq!(desk.tell([Event::Missing(name.clone())]), [Action::NodeLost(A)]);
    assert_eq!(desk.tell([Event::Missing(name)]), []);
}

#[test]
fn rule_06_a_heartbeat_that_misses_a_waiters_node_lets_it_join_again() {
    let mut desk = Desk::new(1);
    let (node, watching) = desk.queue_up(A, 5, &[other(4)]);
    let again = desk.tell([Event::Missing(NodeName::parse(&node).expect("a name of ours"))]);
    assert!(create(&again).1.starts_with("_c_"));
    assert!(again.contains(&Action::Unwatch(watch(&watching, &node))));
}

#[test]
fn those_behind_few_are_told_from_those_far_back() {
    let mut desk = Desk::new(1);
    desk.queue_up(A, 9, &[other(4), other(5), other(6)]);
    assert!(!desk.0.waits_behind(2));
    desk.tell([waits(B)]);
    assert!(desk.0.waits_behind(3));
}

// Defects that were found by the model.

/// Whoever is refused while its create is under way left a node behind for as long as the session lasted.
#[test]
fn a_refusal_deletes_a_node_whose_create_is_still_under_way() {
    let mut desk = Desk::new(1);
    let first = desk.tell([waits(A)]);
    let second = desk.tell([waits(B)]);
    let nodes = [format!("{}0000000000", create(&first).1), format!("{}0000000001", create(&second).1)];
    let refusal = Event::Listed(list(&first).0, Outcome::Refused(Refusal::NotAuthorized));
    let actions = desk.tell([created(create(&first).0, &nodes[0]), refusal]);
    assert_eq!(refusals(&actions), [(A, Refusal::NotAuthorized), (B, Refusal::NotAuthorized)]);
    assert_eq!(deleted(&actions), [nodes[0].clone()]);
    assert!(!desk.0.is_idle());
    assert_eq!(deleted(&desk.tell([created(create(&second).0, &nodes[1])])), [nodes[1].clone()]);
}

/// Whoever was refused while its node was verified kept a place in the line without a contender: a panic.
#[test]
fn a_refusal_deletes_a_node_that_is_being_verified() {
    let mut desk = Desk::new(1);
    let (look, name) = lost_reply(&mut desk, A);
    let node = format!("{name}0000000003");
    let found = desk.tell([listed(look, [&other(2), &node])]);
    let look = desk.tell([Event::LookAgain]);
    let wrapped = other(0).replace("0000000000", "-2147483000");
    let actions = desk.tell([listed(list(&look).0, [&other(2), &node, &wrapped])]);
    assert_eq!(refusals(&actions), [(A, Refusal::SequenceExhausted)]);
    let actions = desk.tell([Event::Verified(verify(&found).0, Outcome::Done(Some(9)))]);
    assert_eq!((grants(&actions), deleted(&actions)), (vec![], vec![node]));
}

/// The queue was dropped with a listing under way; the next one of the path took the answer for its own, ignored the
/// real one, and waited for ever.
#[test]
fn a_queue_is_not_idle_while_an_answer_is_still_to_come() {
    let mut desk = Desk::new(1);
    let sent = desk.tell([waits(A)]);
    desk.tell([Event::Leave(A), Event::Created(create(&sent).0, Outcome::NoNode)]);
    assert!(!desk.0.is_idle());
    desk.tell([Event::Listed(list(&sent).0, Outcome::NoNode)]);
    assert!(desk.0.is_idle());
}

/// Nor may it be dropped with a watch: its event would be taken for one of the next queue's.
#[test]
fn a_queue_is_not_idle_while_a_watch_may_still_fire() {
    let mut desk = Desk::new(1);
    let (node, set) = desk.queue_up(A, 5, &[other(4)]);
    desk.tell([Event::Gone(watch(&set, &node)), Event::Disconnected, Event::Leave(A)]);
    assert!(!desk.0.is_idle());
    let actions = desk.tell([Event::Connected]);
    assert!(actions.contains(&Action::Unwatch(watch(&set, &other(4)))), "{actions:?}");
    assert!(desk.0.is_idle());
}

/// A write lock under kazoo's names could not be told from a mutex, and a waiter was granted the lock on the event that
/// its node was gone, beside the reader that had come in its place.
#[test]
fn rule_06_a_vanished_writer_blocks_under_the_names_of_kazoo_too() {
    let mut theirs = Desk::new(2);
    let writer = create(&theirs.tell([Event::Join(A, Naming::Kazoo, Kind::Write, Intent::Wait)])).1;
    let (writer, reader) = (format!("{writer}0000000004"), "f00d__rlock__0000000004".to_owned());
    assert!(writer.contains("__lock__0000000004"), "kazoo must know it for a lock: {writer}");
    let mut desk = Desk::new(1);
    let (node, actions) = desk.queue_up(A, 5, std::slice::from_ref(&writer));
    let look = desk.tell([Event::Gone(watch(&actions, &writer))]);
    assert_eq!(grants(&look), []);
    let next = desk.tell([listed(list(&look).0, [&reader, &node])]);
    assert_eq!((grants(&next), watched(&next)), (vec![], vec![reader]));
}

/// A reader is not told of readers that go, and counted them. Was its term over while it waited, no heartbeat began
/// another one when its turn came, and it waited for ever.
#[test]
fn a_reader_is_near_whatever_readers_are_before_it() {
    let mut desk = Desk::new(1);
    let sent = desk.tell([Event::Join(A, Naming::Curator, Kind::Read, Intent::Wait)]);
    let node = format!("{}0000000009", create(&sent).1);
    let readers = [3, 4, 5, 6].map(|sequence| other(sequence).replace("-lock-", "-__READ__"));
    let children = readers.iter().chain([&node]);
    desk.tell([Event::TermEnded, created(create(&sent).0, &node), listed(list(&sent).0, children)]);
    assert!(desk.0.waits_behind(2));
    assert_eq!(grants(&desk.tell([Event::TermBegan])), [A]);
}

/// So it was with whoever waited for one of more than two permits.
#[test]
fn a_waiter_for_a_permit_is_near_however_many_are_taken() {
    let mut desk = Desk::new(1);
    let sent = desk.tell([Event::Join(A, Naming::Curator, Kind::Permit(4), Intent::Wait)]);
    let node = format!("{}0000000009", create(&sent).1);
    let leases = [3, 4, 5, 6].map(other);
    let taken = leases.iter().chain([&node]);
    let watching = desk.tell([created(create(&sent).0, &node), listed(list(&sent).0, taken)]);
    let Some(Action::ListAndWatch { ticket, .. }) = watching.first() else { panic!("{watching:?}") };
    desk.tell([Event::TermEnded, listed(*ticket, leases[1..].iter().chain([&node]))]);
    assert!(desk.0.waits_behind(2));
    assert_eq!(grants(&desk.tell([Event::TermBegan])), [A]);
}

/// A reader on its way into a writer's place when an operator deleted the writer's node came to stand before whoever
/// held by then, and waited there for ever, or was granted the lock beside it.
#[test]
fn rule_04_a_reader_in_the_place_of_a_lost_writer_begins_anew() {
    for term in [Event::TermBegan, Event::TermEnded] {
        let mut desk = Desk::new(1);
        let sent = desk.tell([Event::Join(A, Naming::Curator, Kind::Write, Intent::Wait)]);
        let writer = format!("{}0000000005", create(&sent).1);
        desk.tell([created(create(&sent).0, &writer), listed(list(&sent).0, [&writer])]);
        let sent =
            desk.tell([term.clone(), Event::Join(B, Naming::Curator, Kind::Read, Intent::Downgrade(A))]);
        let Some(Action::CreateInPlace(ticket, B, reader)) = sent.first() else { panic!("{sent:?}") };
        let missing = Event::Missing(NodeName::parse(&writer).expect("a name of ours"));
        let in_place = created(*ticket, reader);
        let events = match term {
            // Known before the reader's node is, or after it, while no term lets it hold.
            Event::TermBegan => [missing, in_place],
            _ => [in_place, missing],
        };
        let again = desk.tell(events);
        assert_eq!((grants(&again), deleted(&again)), (vec![], vec![reader.clone()]));
        assert!(create(&again).1.contains("__READ__"));
    }
}
