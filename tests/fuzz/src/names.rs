//! Fuzzes the parser of node names, and a lock's queue that receives listings with these names.

use crate::allocations::Meter;
use crate::input::Input;
use crate::queue::{Action, Event, Intent, JoinId, Kind, Naming, NodeName, Outcome, Queue, is_kazoos};

/// Number of bytes allocated for each name of a listing in addition to its text.
const NAME: usize = 1024;

/// Maximum number of copies of a name's text.
const COPIES: usize = 8;

/// Number of bytes that a queue allocates even if the listing is empty, including those for this
/// client's own nodes.
const LEAST: usize = 64 * 1024;

/// Seed of the names of this session's nodes.
const SEED: u64 = 0x0123_4567_89ab_cdef;

/// Maximum number of requests that are answered in each step.
const ANSWERS: usize = 64;

/// Fuzzes the parser and a queue. The first four bytes choose the behavior of the contenders. The
/// rest is a list of names, separated by zero bytes or slashes, because no name contains these
/// characters.
pub fn check(input: &[u8]) {
    let mut input = Input::new(input);
    let ways: [usize; 4] = std::array::from_fn(|_| input.below(256));
    let text = String::from_utf8_lossy(input.rest());
    let names: Vec<String> =
        text.split(['\0', '/']).filter(|name| !name.is_empty()).map(str::to_owned).collect();
    let nodes: Vec<NodeName> = names.iter().filter_map(|name| check_name(name)).collect();
    check_order(&nodes);
    let size = names.iter().map(|name| NAME + COPIES * name.len()).sum::<usize>();
    let mut meter = Meter::new();
    let mut contenders = Contenders::new(names, ways);
    meter.count(|| contenders.play());
    meter.assert_at_most(LEAST + size, "names of nodes");
}

/// Compares the parsed name with its text.
fn check_name(name: &str) -> Option<NodeName> {
    let digits = name.len().checked_sub(10).and_then(|at| name.get(at..));
    let number = digits.filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
    let parsed = NodeName::parse(name);
    assert_eq!(parsed.is_some(), number.is_some(), "{name:?}");
    let kazoos = is_kazoos(name);
    let node = parsed?;
    assert_eq!(node.as_str(), name);
    assert_eq!(Some(node.sequence()), number.and_then(|number| number.parse().ok()));
    let stem = &name[..name.len() - 10];
    assert_eq!(node.kind() == Kind::Read, stem.ends_with("__READ__") || stem.ends_with("__rlock__"));
    assert!(!kazoos || stem.ends_with("lock__"), "{name:?}");
    assert!(!node.is_candidate() || stem.contains("-latch-"), "{name:?}");
    Some(node)
}

/// Checks the order of each two neighboring nodes.
fn check_order(nodes: &[NodeName]) {
    for pair in nodes.windows(2) {
        let order = pair[0].cmp(&pair[1]);
        assert_eq!(order, pair[1].cmp(&pair[0]).reverse());
        assert_eq!(order.is_eq(), pair[0] == pair[1]);
        let numbers = pair[0].sequence().cmp(&pair[1].sequence());
        assert!(numbers.is_eq() || order == numbers, "{pair:?}");
    }
    let mut sorted = nodes.to_vec();
    sorted.sort();
    assert!(sorted.windows(2).all(|pair| pair[0] <= pair[1]));
}

/// A queue, with a simulated server that has these names.
struct Contenders {
    queue: Queue,
    /// The names of other clients' nodes in the directory.
    names: Vec<String>,
    ours: Vec<String>,
    ways: [usize; 4],
    counter: u64,
    answered: usize,
    held: Vec<NodeName>,
}

impl Contenders {
    fn new(names: Vec<String>, ways: [usize; 4]) -> Self {
        // Start our nodes' sequence numbers among the sequence numbers of the other nodes.
        let counter = ways[0] as u64 * 7;
        Self { queue: Queue::new(), names, ours: Vec::new(), ways, counter, answered: 0, held: Vec::new() }
    }

    fn play(&mut self) {
        let kinds = [Kind::Exclusive, Kind::Read, Kind::Write, Kind::Permit(2), Kind::Lead];
        let kind = kinds[self.ways[1] % kinds.len()];
        for event in [Event::SessionBegan(SEED), Event::Connected, Event::TermBegan] {
            self.tell(event);
        }
        for join in 0..=self.ways[2] as u64 % 3 {
            let naming = if self.ways[3] & 1 == 0 { Naming::Curator } else { Naming::Kazoo };
            let intent = if self.ways[3] & 2 == 0 { Intent::Wait } else { Intent::Try };
            self.tell(Event::Join(JoinId(join), naming, kind, intent));
        }
        self.answer();
        self.tell(Event::Resync);
        self.answer();
        if self.ways[3] & 4 != 0 {
            self.tell(Event::Disconnected);
            self.tell(Event::Connected);
            self.answer();
        }
        for held in std::mem::take(&mut self.held) {
            self.tell(Event::Release(held));
        }
        for join in 0..3 {
            self.tell(Event::Leave(JoinId(join)));
        }
        self.answer();
    }

    fn tell(&mut self, event: Event) {
        self.queue.handle(event);
        self.queue.flush();
    }

    /// Executes a limited number of the queue's actions.
    fn answer(&mut self) {
        self.answered = 0;
        while self.answered < ANSWERS {
            let Some(action) = self.queue.next_action() else { return };
            self.answered += 1;
            if let Some(event) = self.outcome(action) {
                self.tell(event);
            }
        }
        // Discard the remaining actions. The loop ends, because the queue adds no actions without
        // replies.
        while self.queue.next_action().is_some() {}
    }

    fn outcome(&mut self, action: Action) -> Option<Event> {
        Some(match action {
            Action::Create(ticket, _, prefix) => {
                self.counter += 1;
                let name = format!("{prefix}{:010}", self.counter);
                self.ours.push(name.clone());
                Event::Created(ticket, Outcome::Done((name, 7)))
            }
            Action::CreateInPlace(ticket, ..) => Event::Created(ticket, Outcome::NoNode),
            Action::MakeParents(ticket) => Event::ParentsMade(ticket, Outcome::Done(())),
            Action::List { ticket, .. } | Action::ListAndWatch { ticket, .. } => {
                Event::Listed(ticket, Outcome::Done([&self.names[..], &self.ours].concat()))
            }
            // Nodes of other clients are not removed.
            Action::Probe(ticket, _) => Event::Probed(ticket, Outcome::Done(Vec::new())),
            Action::Verify(ticket, node) => {
                let is_ours = self.ours.iter().any(|name| name == node.as_str());
                Event::Verified(ticket, Outcome::Done(is_ours.then_some(7)))
            }
            Action::Watch(ticket, node) => {
                let there = self.names.iter().chain(&self.ours).any(|name| name == node.as_str());
                Event::Watched(ticket, if there { Outcome::Done(()) } else { Outcome::NoNode })
            }
            Action::Delete(ticket, node) => {
                self.ours.retain(|name| name != node.as_str());
                Event::Deleted(ticket, Outcome::Done(()))
            }
            Action::Grant(_, node, _) => {
                self.judge(&node);
                self.held.push(node);
                return None;
            }
            Action::Refuse(..)
            | Action::NodeLost(_)
            | Action::Released(_)
            | Action::Ignored(_)
            | Action::Unwatch(_) => return None,
        })
    }

    /// Checks that no other client's conflicting node is ahead of a node that was granted the lock.
    fn judge(&self, node: &NodeName) {
        if node.as_str().contains("-lease-") {
            return;
        }
        let conflicts = |other: &NodeName| node.kind() != Kind::Read || other.kind() != Kind::Read;
        // A node whose name has this session's uuid belongs to our client and will be deleted.
        let is_others = |other: &NodeName| !other.as_str().to_ascii_lowercase().contains("01234567");
        let mut others = self.names.iter().filter_map(|name| NodeName::parse(name));
        let before = others.find(|other| other < node && conflicts(other) && is_others(other));
        assert!(before.is_none(), "{node:?} was granted behind {before:?}");
    }
}
