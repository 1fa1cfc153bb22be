//! Runs the lock queue without I/O. A simulated server executes its requests immediately.

use zklock::queue::{Action, Event, Intent, JoinId, Kind, Naming, NodeName, Outcome, Queue};

/// The queue of one client for one directory.
pub(crate) struct SimulatedQueue {
    queue: Queue,
    nodes: Vec<String>,
    sequence: u64,
    joins: u64,
    held: Vec<NodeName>,
}

impl SimulatedQueue {
    /// Creates a queue with this many contenders. The first one holds the lock.
    pub(crate) fn new(contenders: usize) -> Self {
        let (queue, nodes, held) = (Queue::default(), Vec::new(), Vec::new());
        let mut fixture = Self { queue, nodes, sequence: 0, joins: 0, held };
        for event in [Event::SessionBegan(1), Event::Connected, Event::TermBegan] {
            fixture.tell(event);
        }
        for _ in 0..contenders {
            fixture.join();
        }
        fixture
    }

    /// Lets one more contender join, and the holder release.
    pub(crate) fn join_and_release(&mut self) {
        self.join();
        let holder = self.held.pop().expect("a holder");
        self.tell(Event::Release(holder));
    }

    fn join(&mut self) {
        self.joins += 1;
        self.tell(Event::Join(JoinId(self.joins), Naming::Curator, Kind::Exclusive, Intent::Wait));
    }

    /// Sends the queue an event, and executes all resulting actions.
    fn tell(&mut self, event: Event) {
        let mut events = vec![event];
        while !events.is_empty() {
            for event in events.drain(..) {
                self.queue.handle(event);
            }
            self.queue.flush();
            while let Some(action) = self.queue.next_action() {
                events.extend(self.answer(action));
            }
        }
    }

    fn answer(&mut self, action: Action) -> Option<Event> {
        match action {
            Action::Create(ticket, _, prefix) => {
                self.sequence += 1;
                let node = format!("{prefix}{:010}", self.sequence);
                self.nodes.push(node.clone());
                let zxid = i64::try_from(self.sequence).expect("few nodes");
                Some(Event::Created(ticket, Outcome::Done((node, zxid))))
            }
            Action::List { ticket, .. } => Some(Event::Listed(ticket, Outcome::Done(self.nodes.clone()))),
            Action::Watch(ticket, _) => Some(Event::Watched(ticket, Outcome::Done(()))),
            Action::Delete(ticket, node) => {
                self.nodes.retain(|one| one != node.as_str());
                Some(Event::Deleted(ticket, Outcome::Done(())))
            }
            Action::Grant(_, node, _) => {
                self.held.push(node);
                None
            }
            _ => None,
        }
    }
}
