//! Tests of permits in the queue: only their number matters, not their order (rules 4 and 17).

use std::collections::BTreeMap;

use zklock::queue::{Action, Event, Intent, JoinId, Kind, Naming, NodeName, Outcome, Queue, Ticket};

/// A queue and its directory on the server.
struct Directory {
    queue: Queue,
    children: Vec<String>,
    next: i32,
    granted: Vec<JoinId>,
    /// The nodes of the holders.
    held: BTreeMap<JoinId, NodeName>,
    refused: Vec<JoinId>,
    /// The watch on the children.
    watch: Option<Ticket>,
    requests: usize,
}

impl Directory {
    fn new() -> Self {
        let mut queue = Queue::new();
        for event in [Event::SessionBegan(1), Event::Connected, Event::TermBegan] {
            queue.handle(event);
        }
        let (children, granted, held, refused) = Default::default();
        Self { queue, children, next: 0, granted, held, refused, watch: None, requests: 0 }
    }

    /// Adds another client's node and returns its name.
    fn enter(&mut self) -> String {
        self.next += 1;
        let name = format!("_c_00000000-0000-0000-0000-{:012}-lease-{:010}", self.next, self.next);
        self.children.push(name.clone());
        self.changed();
        name
    }

    fn exit(&mut self, name: &str) {
        self.children.retain(|child| child != name);
        self.changed();
    }

    fn changed(&mut self) {
        if let Some(ticket) = self.watch.take() {
            self.queue.handle(Event::Changed(ticket));
        }
    }

    fn join(&mut self, id: u64, permits: u32, intent: Intent) {
        self.queue.handle(Event::Join(JoinId(id), Naming::Curator, Kind::Permit(permits), intent));
    }

    fn release(&mut self, id: u64) {
        let node = self.held.remove(&JoinId(id)).expect("it holds");
        self.queue.handle(Event::Release(node));
    }

    /// Replies to requests until there are no more. Returns the contenders that were granted a
    /// permit.
    fn run(&mut self) -> Vec<JoinId> {
        self.queue.flush();
        while let Some(action) = self.queue.next_action() {
            self.carry_out(action);
            self.queue.flush();
        }
        std::mem::take(&mut self.granted)
    }

    fn carry_out(&mut self, action: Action) {
        match action {
            Action::Create(ticket, _, prefix) => {
                self.next += 1;
                let name = format!("{prefix}{:010}", self.next);
                self.children.push(name.clone());
                self.changed();
                let czxid = i64::from(self.next);
                self.answer(Event::Created(ticket, Outcome::Done((name, czxid))));
            }
            Action::List { ticket, .. } => {
                let children = self.children.clone();
                self.answer(Event::Listed(ticket, Outcome::Done(children)));
            }
            Action::ListAndWatch { ticket, .. } => {
                self.watch = Some(ticket);
                let children = self.children.clone();
                self.answer(Event::Listed(ticket, Outcome::Done(children)));
            }
            Action::Delete(ticket, name) => {
                self.exit(name.as_str());
                self.answer(Event::Deleted(ticket, Outcome::Done(())));
            }
            Action::Unwatch(ticket) => {
                self.watch.take_if(|watch| *watch == ticket);
            }
            Action::Grant(join, node, _) => {
                self.held.insert(join, node);
                self.granted.push(join);
            }
            Action::Refuse(join, _) => self.refused.push(join),
            Action::Released(_) => {}
            other => panic!("not expected: {other:?}"),
        }
    }

    fn answer(&mut self, event: Event) {
        self.requests += 1;
        self.queue.handle(event);
    }
}

#[test]
fn a_free_permit_costs_a_create_and_a_listing() {
    let mut directory = Directory::new();
    directory.enter();
    directory.join(1, 2, Intent::Wait);
    assert_eq!(directory.run(), [JoinId(1)]);
    assert_eq!((directory.requests, directory.watch), (2, None));
}

#[test]
fn a_waiter_for_permits_watches_the_children_and_gets_a_free_permit() {
    let mut directory = Directory::new();
    let others = [directory.enter(), directory.enter()];
    directory.join(1, 2, Intent::Wait);
    assert_eq!(directory.run(), []);
    assert!(directory.watch.is_some());
    assert!(directory.queue.awaits_permits());
    // Any of the other nodes may be removed, because permits have no order.
    directory.exit(&others[1]);
    assert_eq!(directory.run(), [JoinId(1)]);
    assert!(!directory.queue.awaits_permits());
    assert_eq!(directory.watch, None);
}

#[test]
fn several_are_granted_together_or_not_at_all() {
    let mut directory = Directory::new();
    let other = directory.enter();
    directory.join(1, 2, Intent::Wait);
    directory.join(2, 2, Intent::Wait);
    assert_eq!(directory.run(), []);
    directory.exit(&other);
    assert_eq!(directory.run(), [JoinId(1), JoinId(2)]);
}

#[test]
fn a_try_that_finds_too_few_leaves_nothing() {
    let mut directory = Directory::new();
    directory.enter();
    directory.enter();
    directory.join(1, 2, Intent::Try);
    assert_eq!(directory.run(), []);
    assert_eq!((directory.refused.as_slice(), directory.requests), ([JoinId(1)].as_slice(), 1));
    assert!(directory.queue.is_idle());
}

#[test]
fn the_number_is_that_of_those_who_wait() {
    let mut directory = Directory::new();
    directory.join(1, 1, Intent::Wait);
    assert_eq!(directory.run(), [JoinId(1)]);
    // Later contenders may state a larger number of permits.
    directory.join(2, 3, Intent::Wait);
    directory.join(3, 3, Intent::Wait);
    assert_eq!(directory.run(), [JoinId(2), JoinId(3)]);
    // Later contenders may also state a smaller number.
    directory.join(4, 2, Intent::Wait);
    assert_eq!(directory.run(), []);
    directory.release(2);
    assert_eq!(directory.run(), []);
    directory.release(3);
    assert_eq!(directory.run(), [JoinId(4)]);
}

#[test]
fn no_permits_are_waited_for() {
    let mut directory = Directory::new();
    directory.join(1, 0, Intent::Wait);
    assert_eq!(directory.run(), []);
    directory.queue.handle(Event::Leave(JoinId(1)));
    assert_eq!(directory.run(), []);
    assert!(directory.children.is_empty());
    assert!(directory.queue.is_idle());
}
