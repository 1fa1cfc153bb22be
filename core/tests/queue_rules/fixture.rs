//! A queue for tests, and helpers to write events and actions concisely.

use zklock::queue::{Action, Event, Intent, JoinId, Kind, Naming, NodeName, Outcome, Queue, Refusal, Ticket};

pub(crate) const A: JoinId = JoinId(1);
pub(crate) const B: JoinId = JoinId(2);

/// A queue that returns the requested actions after each batch of events.
pub(crate) struct QueueFixture(pub(crate) Queue);

impl QueueFixture {
    /// Creates a connected queue in a session with this seed.
    pub(crate) fn new(seed: u64) -> Self {
        let mut fixture = Self(Queue::new());
        fixture.tell([Event::SessionBegan(seed), Event::Connected, Event::TermBegan]);
        fixture
    }

    pub(crate) fn tell(&mut self, events: impl IntoIterator<Item = Event>) -> Vec<Action> {
        events.into_iter().for_each(|event| self.0.handle(event));
        self.0.flush();
        std::iter::from_fn(|| self.0.next_action()).collect()
    }

    /// Queues a contender behind these children and acknowledges its watches. Returns its node and
    /// the actions.
    pub(crate) fn queue_up(
        &mut self,
        join: JoinId,
        sequence: u32,
        others: &[String],
    ) -> (String, Vec<Action>) {
        let (node, actions) = self.place(join, sequence, others);
        let acks: Vec<_> = watches(&actions).into_iter().map(|(ticket, _)| acknowledged(ticket)).collect();
        assert_eq!(self.tell(acks), []);
        (node, actions)
    }

    /// Adds a contender whose listing shows these children and its own node. Returns its node and
    /// the actions that follow.
    pub(crate) fn place(&mut self, join: JoinId, sequence: u32, others: &[String]) -> (String, Vec<Action>) {
        self.place_as(waits(join), sequence, others)
    }

    /// Like [`QueueFixture::place`], for a contender of any kind.
    pub(crate) fn place_as(
        &mut self,
        join: Event,
        sequence: u32,
        others: &[String],
    ) -> (String, Vec<Action>) {
        let sent = self.tell([join]);
        let node = format!("{}{sequence:010}", create(&sent).1);
        let listed = listed(list(&sent).0, others.iter().chain([&node]));
        let actions = self.tell([created(create(&sent).0, &node), listed]);
        (node, actions)
    }

    /// Makes a contender hold the lock, and returns its node.
    pub(crate) fn hold(&mut self, join: JoinId, sequence: u32) -> String {
        let (node, actions) = self.place(join, sequence, &[]);
        assert_eq!(grants(&actions), [join]);
        node
    }

    /// Checks that the queue still expects a node after a hundred listings without it. Then tells
    /// the queue that the server can no longer execute the create.
    pub(crate) fn rule_out_late_creates(&mut self) {
        for _ in 0..100 {
            let look = self.tell([Event::Resync]);
            assert_eq!(self.tell([listed(list(&look).0, &[])]), []);
        }
        let doubt = self.0.doubt().expect("it doubts");
        let look = self.tell([Event::Certain(doubt)]);
        assert_eq!(self.tell([listed(list(&look).0, &[])]), []);
        assert!(self.0.is_idle());
    }

    pub(crate) fn reconnect(&mut self) -> Vec<Action> {
        self.tell([Event::Disconnected, Event::Connected])
    }
}

pub(crate) fn waits(join: JoinId) -> Event {
    Event::Join(join, Naming::Curator, Kind::Exclusive, Intent::Wait)
}

pub(crate) fn tries(join: JoinId) -> Event {
    Event::Join(join, Naming::Curator, Kind::Exclusive, Intent::Try)
}

/// Returns the join event of a contender that waits only if fewer than `waiters` other contenders
/// wait.
pub(crate) fn waits_behind_fewer(join: JoinId, kind: Kind, waiters: u32) -> Event {
    Event::Join(join, Naming::Curator, kind, Intent::WaitIfFewer(waiters))
}

/// Returns the join event of a candidate in an election.
pub(crate) fn campaigns(join: JoinId) -> Event {
    Event::Join(join, Naming::Curator, Kind::Lead, Intent::Wait)
}

pub(crate) fn release(node: &str) -> Event {
    Event::Release(name(node))
}

pub(crate) fn released(node: &str) -> Action {
    Action::Released(name(node))
}

pub(crate) fn lost(node: &str) -> Action {
    Action::NodeLost(name(node))
}

pub(crate) fn name(node: &str) -> NodeName {
    NodeName::parse(node).expect("a sequential name")
}

pub(crate) fn created(ticket: Ticket, node: &str) -> Event {
    Event::Created(ticket, Outcome::Done((node.to_owned(), czxid(node))))
}

/// Returns the transaction that created a node: 1000 plus its sequence number.
pub(crate) fn czxid(node: &str) -> i64 {
    1000 + node[node.len() - 10..].parse::<i64>().expect("ten digits")
}

pub(crate) fn listed<'a>(ticket: Ticket, children: impl IntoIterator<Item = &'a String>) -> Event {
    Event::Listed(ticket, Outcome::Done(children.into_iter().cloned().collect()))
}

pub(crate) fn acknowledged(ticket: Ticket) -> Event {
    Event::Watched(ticket, Outcome::Done(()))
}

pub(crate) fn other(sequence: u32) -> String {
    format!("_c_0f0f0f0f-0f0f-4f0f-8f0f-0f0f0f0f0f0f-lock-{sequence:010}")
}

pub(crate) fn writer(sequence: u32) -> String {
    other(sequence).replace("-lock-", "-__WRIT__")
}

pub(crate) fn create(actions: &[Action]) -> (Ticket, String) {
    let mut creates = actions.iter().filter_map(|action| match action {
        Action::Create(ticket, _, name) => Some((*ticket, name.clone())),
        _ => None,
    });
    match (creates.next(), creates.next()) {
        (Some(create), None) => create,
        _ => panic!("not one create: {actions:?}"),
    }
}

/// Returns the number of listings among the actions.
pub(crate) fn lists(actions: &[Action]) -> usize {
    actions.iter().filter(|action| matches!(action, Action::List { .. })).count()
}

/// Returns the ticket of the only listing, and `true` if the listing follows a sync.
pub(crate) fn list(actions: &[Action]) -> (Ticket, bool) {
    let mut lists = actions.iter().filter_map(|action| match action {
        Action::List { ticket, sync } => Some((*ticket, *sync)),
        _ => None,
    });
    match (lists.next(), lists.next()) {
        (Some(list), None) => list,
        _ => panic!("not one listing: {actions:?}"),
    }
}

pub(crate) fn watches(actions: &[Action]) -> Vec<(Ticket, String)> {
    let watch = |action: &Action| match action {
        Action::Watch(ticket, node) => Some((*ticket, node.as_str().to_owned())),
        _ => None,
    };
    actions.iter().filter_map(watch).collect()
}

pub(crate) fn watch(actions: &[Action], node: &str) -> Ticket {
    let found = watches(actions).into_iter().find(|(_, on)| on == node);
    found.unwrap_or_else(|| panic!("no watch on {node}: {actions:?}")).0
}

pub(crate) fn watched(actions: &[Action]) -> Vec<String> {
    watches(actions).into_iter().map(|(_, node)| node).collect()
}

pub(crate) fn verify(actions: &[Action]) -> (Ticket, String) {
    match actions.iter().find(|action| matches!(action, Action::Verify(..))) {
        Some(Action::Verify(ticket, node)) => (*ticket, node.as_str().to_owned()),
        _ => panic!("nothing is verified: {actions:?}"),
    }
}

pub(crate) fn deletes(actions: &[Action]) -> Vec<(Ticket, String)> {
    let delete = |action: &Action| match action {
        Action::Delete(ticket, node) => Some((*ticket, node.as_str().to_owned())),
        _ => None,
    };
    actions.iter().filter_map(delete).collect()
}

pub(crate) fn deleted(actions: &[Action]) -> Vec<String> {
    deletes(actions).into_iter().map(|(_, node)| node).collect()
}

pub(crate) fn grants(actions: &[Action]) -> Vec<JoinId> {
    let grant = |action: &Action| match action {
        Action::Grant(join, ..) => Some(*join),
        _ => None,
    };
    actions.iter().filter_map(grant).collect()
}

pub(crate) fn refusals(actions: &[Action]) -> Vec<(JoinId, Refusal)> {
    let refusal = |action: &Action| match action {
        Action::Refuse(join, refusal) => Some((*join, refusal.clone())),
        _ => None,
    };
    actions.iter().filter_map(refusal).collect()
}

/// Loses the reply to a join and reconnects. Returns the ticket of the listing after the sync, and
/// the name prefix of the node.
pub(crate) fn lost_reply(fixture: &mut QueueFixture, join: JoinId) -> (Ticket, String) {
    let sent = fixture.tell([waits(join)]);
    fixture.tell([Event::Disconnected]);
    let lost = [Event::Created(create(&sent).0, Outcome::Lost), Event::Listed(list(&sent).0, Outcome::Lost)];
    assert_eq!(fixture.tell(lost), []);
    let look = fixture.tell([Event::Connected]);
    assert!(matches!(&look[..], [Action::List { sync: true, .. }]), "{look:?}");
    (list(&look).0, create(&sent).1)
}
