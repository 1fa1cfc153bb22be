//! Tests that the cost of an event hardly depends on the length of the queue. They compare the CPU
//! instructions for queues with 100 and with 10,000 contenders.
//!
//! The longer queue may need twice as many instructions, because the height of the search trees
//! grows from two to four. Only the cost of a listing is proportional to the length of the queue.
//!
//! Counting instructions takes minutes, so the default test measures time instead. This is less
//! exact, but it still detects an event that visits all contenders, because the event takes a
//! hundred times as long.
#![cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]

mod instructions;

use zklock::queue::{Action, Event, Intent, JoinId, Kind, Naming, NodeName, Outcome, Queue, Ticket};

use std::hint::black_box;
use std::time::Instant;

use self::instructions::instructions;

const FEW: u64 = 100;
const MANY: u64 = 10_000;

#[derive(Clone, Copy)]
enum Measure {
    Instructions,
    /// Nanoseconds, as the minimum of several runs.
    Time,
}

impl Measure {
    fn of(self, fixture: &QueueFixture, work: impl Fn(&mut QueueFixture)) -> u64 {
        match self {
            Self::Instructions => {
                let mut fixture = fixture.clone();
                instructions(|| work(&mut fixture))
            }
            Self::Time => (0..TIMES).map(|_| time(&mut fixture.clone(), &work)).min().unwrap_or_default(),
        }
    }

    fn most_beside_many(self, name: &str, beside_few: u64) -> u64 {
        match self {
            // For each base-128 digit of a sequence number, the queue adds at most 127 counters.
            // The number 10,000 has two such digits, and 100 has one.
            Self::Instructions if name == AHEAD => 3 * beside_few.max(5_000),
            // The minimum of 5,000 instructions keeps small differences from failing the test.
            Self::Instructions => 2 * beside_few.max(5_000),
            // Large structures miss the CPU cache, so the time can grow tenfold. It would grow a
            // hundredfold if an event visited every object.
            Self::Time => 10 * beside_few.max(25_000),
        }
    }
}

const TIMES: usize = 7;

const AHEAD: &str = "how many are ahead";

fn time(fixture: &mut QueueFixture, work: impl Fn(&mut QueueFixture)) -> u64 {
    let began = Instant::now();
    work(black_box(fixture));
    u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// A queue, with a directory that answers its requests.
#[derive(Clone, Default)]
struct QueueFixture {
    queue: Queue,
    /// The nodes of other clients.
    others: Vec<String>,
    ours: Vec<String>,
    sequence: u64,
    joins: u64,
}

impl QueueFixture {
    fn new() -> Self {
        let mut fixture = Self::default();
        fixture.tell([Event::SessionBegan(1), Event::Connected, Event::TermBegan]);
        fixture
    }

    fn tell(&mut self, events: impl IntoIterator<Item = Event>) -> Vec<Action> {
        events.into_iter().for_each(|event| self.queue.handle(event));
        self.queue.flush();
        std::iter::from_fn(|| self.queue.next_action()).collect()
    }

    fn sequence(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }

    /// Adds a contender of another client.
    fn enter(&mut self, kind: &str) {
        let sequence = self.sequence();
        self.others.push(format!("_c_0f0f0f0f-0f0f-4f0f-8f0f-0f0f0f0f0f0f-{kind}{sequence:010}"));
    }

    /// Adds a contender of our client.
    fn join(&mut self, kind: Kind) -> Vec<Action> {
        self.joins += 1;
        self.tell([Event::Join(JoinId(self.joins), Naming::Curator, kind, Intent::Wait)])
    }

    /// Answers these actions, and all further actions that the queue requests in return.
    fn serve(&mut self, mut actions: Vec<Action>) {
        while !actions.is_empty() {
            let mut events = Vec::new();
            for action in actions {
                events.extend(self.answer(action));
            }
            actions = if events.is_empty() { Vec::new() } else { self.tell(events) };
        }
    }

    fn answer(&mut self, action: Action) -> Option<Event> {
        match action {
            Action::Create(ticket, _, prefix) => {
                let sequence = self.sequence();
                let node = format!("{prefix}{sequence:010}");
                self.ours.push(node.clone());
                Some(Event::Created(ticket, Outcome::Done((node, i64::try_from(sequence).ok()?))))
            }
            Action::List { ticket, .. } => Some(self.listed(ticket)),
            Action::Watch(ticket, _) => Some(Event::Watched(ticket, Outcome::Done(()))),
            _ => None,
        }
    }

    fn answer_or_delete(&mut self, action: Action) -> Option<Event> {
        match action {
            Action::Delete(ticket, node) => {
                self.ours.retain(|ours| ours != node.as_str());
                Some(Event::Deleted(ticket, Outcome::Done(())))
            }
            action => self.answer(action),
        }
    }

    fn listed(&self, ticket: Ticket) -> Event {
        Event::Listed(ticket, Outcome::Done([&self.others[..], &self.ours[..]].concat()))
    }

    /// Adds `count` contenders of our client. Their requests are in flight at the same time.
    fn join_all(&mut self, kind: Kind, count: u64) {
        let ids = self.joins + 1..=self.joins + count;
        self.joins += count;
        let joins: Vec<_> =
            ids.map(|id| Event::Join(JoinId(id), Naming::Curator, kind, Intent::Wait)).collect();
        let actions = self.tell(joins);
        self.serve(actions);
    }

    fn node(&self, of_ours: usize) -> NodeName {
        NodeName::parse(&self.ours[of_ours]).expect("a sequential name")
    }
}

/// The costs of one contender's events, from its join to its release.
struct EventCosts {
    measure: Measure,
    costs: Vec<(&'static str, u64)>,
}

impl EventCosts {
    fn event(&mut self, name: &'static str, fixture: &mut QueueFixture, event: &Event) -> Vec<Action> {
        let cost = self.measure.of(fixture, |fixture| drop(fixture.tell([event.clone()])));
        self.costs.push((name, cost));
        fixture.tell([event.clone()])
    }

    fn question(
        &mut self,
        name: &'static str,
        fixture: &QueueFixture,
        ask: impl Fn(&Queue) -> Option<usize>,
    ) {
        let cost =
            self.measure.of(fixture, |fixture| assert_ne!(black_box(ask(&fixture.queue)), Some(usize::MAX)));
        self.costs.push((name, cost));
    }
}

fn live(measure: Measure, fixture: &mut QueueFixture, kind: Kind) -> Vec<(&'static str, u64)> {
    let mut life = EventCosts { measure, costs: Vec::new() };
    fixture.joins += 1;
    let join = JoinId(fixture.joins);
    let sent = life.event("join", fixture, &Event::Join(join, Naming::Curator, kind, Intent::Wait));
    let mut answers: Vec<_> = sent.into_iter().filter_map(|action| fixture.answer(action)).collect();
    let listed = answers.pop().expect("a listing");
    for created in answers {
        life.event("created", fixture, &created);
    }
    let watches = fixture.tell([listed]);
    fixture.serve(watches);
    let node = fixture.node(fixture.ours.len() - 1);
    life.question(AHEAD, fixture, |queue| queue.ahead_of(join));
    life.question("whether it is near", fixture, |queue| queue.is_near().then_some(1));
    life.event("watch the hold", fixture, &Event::WatchHold(node.clone()));
    let mut deletes = life.event("leave", fixture, &Event::Leave(join));
    deletes.extend(life.event("release", fixture, &Event::Release(node.clone())));
    let delete = deletes.into_iter().find_map(|action| match action {
        Action::Delete(ticket, doomed) if doomed == node => Some(ticket),
        _ => None,
    });
    life.event("deleted", fixture, &Event::Deleted(delete.expect("it is deleted"), Outcome::Done(())));
    life.event("the term ends", fixture, &Event::TermEnded);
    life.event("the term begins", fixture, &Event::TermBegan);
    life.costs
}

#[allow(clippy::print_stdout, reason = "tells the figures")]
fn compare(measure: Measure, what: &str, scene: impl Fn(u64) -> QueueFixture, kind: Kind) {
    let (few, many) = (live(measure, &mut scene(FEW), kind), live(measure, &mut scene(MANY), kind));
    for ((name, beside_few), (same, beside_many)) in few.into_iter().zip(many) {
        assert_eq!(name, same);
        println!("{what}: {name}: {beside_few} beside {FEW}, {beside_many} beside {MANY}");
        assert!(
            beside_many <= measure.most_beside_many(name, beside_few),
            "{what}: {name} takes {beside_few} beside {FEW}, and {beside_many} beside {MANY}"
        );
    }
}

fn held(count: u64) -> QueueFixture {
    let mut fixture = QueueFixture::new();
    fixture.join_all(Kind::Read, count);
    fixture
}

fn watched(count: u64) -> QueueFixture {
    let mut fixture = held(count);
    let watched: Vec<_> = (0..fixture.ours.len()).map(|at| Event::WatchHold(fixture.node(at))).collect();
    let actions = fixture.tell(watched);
    fixture.serve(actions);
    fixture
}

fn waiting(kind: Kind, count: u64) -> QueueFixture {
    let mut fixture = QueueFixture::new();
    fixture.enter("__WRIT__");
    fixture.join_all(kind, count);
    fixture
}

fn behind_others(others: &str, kind: Kind, count: u64) -> QueueFixture {
    let mut fixture = QueueFixture::new();
    (0..count).for_each(|_| fixture.enter(others));
    fixture.join_all(kind, 1);
    fixture
}

/// Creates a queue in which our contenders and foreign ones alternate.
fn in_turns(count: u64) -> QueueFixture {
    let mut fixture = QueueFixture::new();
    let mut lists = Vec::new();
    for _ in 0..count / 2 {
        fixture.enter("lock-");
        let (creates, rest): (Vec<_>, Vec<_>) = fixture
            .join(Kind::Exclusive)
            .into_iter()
            .partition(|action| matches!(action, Action::Create(..)));
        fixture.serve(creates);
        lists.extend(rest);
    }
    fixture.serve(lists);
    fixture
}

fn compare_all(measure: Measure) {
    let (alone, read) = (Kind::Exclusive, Kind::Read);
    compare(measure, "held", held, read);
    compare(measure, "held and watched", watched, read);
    compare(measure, "waiting readers", |count| waiting(read, count), read);
    compare(measure, "waiting", |count| waiting(alone, count), alone);
    compare(measure, "others' writers", |count| behind_others("__WRIT__", read, count), read);
    compare(measure, "others' readers", |count| behind_others("__READ__", read, count), read);
    compare(measure, "others", |count| behind_others("lock-", alone, count), alone);
    compare(measure, "in turns", in_turns, alone);
}

#[test]
fn an_event_takes_about_the_same_time_beside_many() {
    compare_all(Measure::Time);
}

#[test]
#[ignore = "takes 16 s optimized, as it steps through each instruction: `make worlds` runs it so, as part of `make test-all`, which continuous integration runs"]
fn an_event_takes_at_most_twice_the_instructions_beside_many() {
    compare_all(Measure::Instructions);
}

/// Adds one reader to `count` readers that hold the lock. Returns the cost of the new reader's
/// listing, and the total cost of its other events from join to release.
fn one_more_reader(count: u64, measure_listing: bool) -> (u64, u64) {
    let mut fixture = held(count);
    fixture.joins += 1;
    let mut events = vec![Event::Join(JoinId(fixture.joins), Naming::Curator, Kind::Read, Intent::Wait)];
    let (mut listing, mut rest, mut released) = (0, 0, false);
    loop {
        let mut actions = Vec::new();
        for event in events {
            let is_listing = matches!(event, Event::Listed(..));
            if !is_listing || measure_listing {
                let cost = Measure::Instructions.of(&fixture, |fixture| drop(fixture.tell([event.clone()])));
                *(if is_listing { &mut listing } else { &mut rest }) += cost;
            }
            actions.extend(fixture.tell([event]));
        }
        events = actions.into_iter().filter_map(|action| fixture.answer_or_delete(action)).collect();
        if events.is_empty() {
            if released {
                return (listing, rest);
            }
            released = true;
            events.push(Event::Release(fixture.node(fixture.ours.len() - 1)));
        }
    }
}

#[test]
#[allow(clippy::print_stdout, reason = "tells the figures")]
fn one_more_reader_costs_a_listing_and_little_else() {
    // Counting instructions is slow: a listing with as many names as in the other tests would take
    // minutes.
    let (names, tenfold) = (3, 30);
    let (short, beside_few) = one_more_reader(names, true);
    let (long, _) = one_more_reader(tenfold, true);
    let (_, beside_many) = one_more_reader(2_000, false);
    println!("listing: {short} with {names} names, {long} with {tenfold}");
    println!("the rest: {beside_few} beside {names}, {beside_many} beside 2000");
    assert!(long <= 10 * short, "every name is read once: {short} for {names} names, {long} for {tenfold}");
    // A tree of 2,000 entries is higher than a tree of three.
    assert!(beside_many <= 3 * beside_few, "{beside_few} beside {names}, {beside_many} beside 2000");
}
