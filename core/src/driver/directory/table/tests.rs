//! Tests of the `DirectoryTable`: the tickets and warnings that a new queue takes over from the
//! last queue at its path, and the listings and probes when the server is silent.

use std::time::Duration;

use tokio::sync::mpsc;

use crate::config::ClientOptions;
use crate::driver::directory::table::*;
use crate::queue::{Action, Intent, JoinId, Kind, Naming, Outcome};

struct Fixture {
    directories: DirectoryTable,
    connection: Connection,
    timers: Timers,
    path: Arc<str>,
}

impl Fixture {
    fn new() -> Self {
        let (sender, _) = mpsc::unbounded_channel();
        let connection = Connection::new(ClientOptions::new(Some("h")).unwrap(), Arc::default(), sender);
        Self {
            directories: DirectoryTable::new(Arc::default()),
            connection,
            timers: Timers::default(),
            path: "/l".into(),
        }
    }

    /// Adds a waiter. Its node has the sequence number `number` and is behind the nodes `others`.
    /// Returns the tickets of the create and of the listing.
    fn queue(&mut self, number: u64, others: &[&str]) -> (Ticket, Ticket) {
        let id = self.directories.open(&self.path, &self.connection, false);
        let directory = self.directories.get_to_flush(id).expect("a directory");
        directory.on_event(Event::Join(JoinId(number), Naming::Curator, Kind::Exclusive, Intent::Wait));
        for event in [Event::SessionBegan(1), Event::Connected] {
            directory.on_event(event);
        }
        let Some(Action::Create(create, _, prefix)) = directory.next_action() else { panic!("a create") };
        let Some(Action::List { ticket, .. }) = directory.next_action() else { panic!("a listing") };
        let name = format!("{prefix}{number:010}");
        directory.on_event(Event::Created(create, Outcome::Done((name.clone(), 1))));
        let children = others.iter().map(ToString::to_string).chain([name]).collect();
        directory.on_event(Event::Listed(ticket, Outcome::Done(children)));
        (create, ticket)
    }

    /// Returns the id of the directory at the path.
    fn id(&self) -> DirectoryId {
        self.directories.at(&self.path).expect("a queue")
    }

    fn dispatch(&mut self, event: Event) {
        let id = self.id();
        self.directories.dispatch(id, event);
    }

    fn flush(&mut self) {
        let id = self.id();
        self.directories.flush(id, &mut self.connection, &mut self.timers);
    }

    fn actions(&mut self) -> Vec<Action> {
        let id = self.id();
        let directory = self.directories.get_mut(id).expect("a queue");
        std::iter::from_fn(|| directory.next_action()).collect()
    }
}

#[tokio::test]
async fn the_tickets_of_a_queue_follow_those_of_the_one_before_it() {
    let mut fixture = Fixture::new();
    let (_, first) = fixture.queue(1, &[]);
    fixture.dispatch(Event::Leave(JoinId(1)));
    let deletes = fixture.actions().into_iter().find_map(|action| match action {
        Action::Delete(ticket, _) => Some(ticket),
        _ => None,
    });
    let last = deletes.expect("a delete");
    assert!(last > first);
    fixture.dispatch(Event::Deleted(last, Outcome::Done(())));
    fixture.flush();
    assert!(fixture.directories.at("/l").is_none(), "nobody is there");
    let (create, listing) = fixture.queue(2, &[]);
    assert!(create > last && listing > last, "{create:?} and {listing:?} after {last:?}");
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_hears_nothing_for_twenty_seconds_looks_again() {
    let mut fixture = Fixture::new();
    fixture.queue(2, &["_c_x-lock-0000000001"]);
    assert!(!fixture.actions().is_empty(), "it watches");
    fixture.directories.take_to_flush();
    tokio::time::advance(Duration::from_secs(19)).await;
    fixture.directories.resync_silent();
    assert!(fixture.directories.take_to_flush().is_empty() && fixture.actions().is_empty());
    tokio::time::advance(Duration::from_secs(1)).await;
    fixture.directories.resync_silent();
    assert_eq!(fixture.directories.take_to_flush().iter().count(), 1);
    assert!(matches!(fixture.actions()[..], [Action::Probe(..)]), "it looks");
}

/// Maximum number of bytes in the request and reply of one look.
const MOST_BYTES: usize = 1_536;
const MINUTES: usize = 30;

/// Returns the size in bytes of a request that reads these nodes, plus its reply
/// (`docs/protocol.md`, rule 10).
fn probe_bytes(path: &str, nodes: &[NodeName]) -> usize {
    const REQUEST: usize = 4 + 8 + 9;
    const REPLY: usize = 4 + 16 + 9;
    let node = |node: &NodeName| 9 + 4 + path.len() + 1 + node.as_str().len() + 1 + 9 + 4;
    REQUEST + REPLY + nodes.iter().map(node).sum::<usize>()
}

/// Adds a waiter behind `others` other nodes, and sets all its watches.
fn idle(fixture: &mut Fixture, others: u64) {
    let others: Vec<_> = (0..others).map(|number| format!("{:038}-lock-{number:010}", 7)).collect();
    let number = others.len() as u64;
    fixture.queue(number, &others.iter().map(String::as_str).collect::<Vec<_>>());
    let watching = fixture.actions();
    assert_eq!(watching.len(), 3, "{watching:?}");
    for action in watching {
        let Action::Watch(ticket, _) = action else { panic!("{action:?}") };
        fixture.dispatch(Event::Watched(ticket, Outcome::Done(())));
    }
    fixture.directories.take_to_flush();
}

/// Advances the clock and returns the queue's requests. Answers each probe: all nodes exist.
async fn pass(fixture: &mut Fixture, minutes: usize) -> Vec<Action> {
    let mut asked = Vec::new();
    for _ in 0..minutes * 60 / 5 {
        tokio::time::advance(Duration::from_secs(5)).await;
        fixture.directories.resync_silent();
        for action in fixture.actions() {
            if let Action::Probe(ticket, _) = &action {
                fixture.dispatch(Event::Probed(*ticket, Outcome::Done(Vec::new())));
            }
            asked.push(action);
        }
    }
    asked
}

#[tokio::test(start_paused = true)]
async fn a_far_waiter_looks_at_a_few_nodes_once_a_minute_however_many_wait() {
    let mut all = Vec::new();
    for others in [40, 400] {
        let mut fixture = Fixture::new();
        idle(&mut fixture, others);
        let looks = pass(&mut fixture, MINUTES).await;
        let bytes = |action: &Action| match action {
            Action::Probe(_, nodes) => probe_bytes(&fixture.path, nodes),
            other => panic!("an idle waiter asks for {other:?}"),
        };
        let bytes: Vec<_> = looks.iter().map(bytes).collect();
        assert!(bytes.iter().all(|bytes| *bytes <= MOST_BYTES), "{bytes:?}");
        assert!((MINUTES * 60 / 75..=MINUTES).contains(&looks.len()), "{} looks", looks.len());
        all.push(bytes[0]);
    }
    assert_eq!(all[0], all[1], "they depend on how many wait");
}

/// A server older than 3.6 also closes the connection on which it receives a check request.
#[tokio::test(start_paused = true)]
async fn a_server_that_refuses_one_check_is_asked_for_no_other_one() {
    let mut fixture = Fixture::new();
    idle(&mut fixture, 40);
    let first = fixture.id();
    fixture.path = "/before".into();
    idle(&mut fixture, 4);
    let asked = |fixture: &mut Fixture, path: &str| {
        let id = fixture.directories.at(path).expect("a queue");
        let directory = fixture.directories.get_mut(id).expect("a queue");
        directory.on_event(Event::Resync);
        directory.next_action()
    };
    let Some(Action::Probe(ticket, _)) = asked(&mut fixture, "/l") else { panic!("it checks") };
    let refusal = crate::queue::Refusal::Server("Unimplemented".to_owned());
    fixture.directories.dispatch(first, Event::Probed(ticket, Outcome::Refused(refusal)));
    assert!(matches!(asked(&mut fixture, "/before"), Some(Action::List { .. })));
    fixture.path = "/after".into();
    idle(&mut fixture, 4);
    assert!(matches!(asked(&mut fixture, "/after"), Some(Action::List { .. })));
}

#[tokio::test(start_paused = true)]
async fn a_far_waiter_that_is_connected_again_looks_once_and_lists_nothing() {
    let mut fixture = Fixture::new();
    idle(&mut fixture, 40);
    for _ in 0..3 {
        fixture.directories.send_to_all(&Event::Disconnected);
        assert_eq!(fixture.actions(), []);
        fixture.directories.send_to_all(&Event::Connected);
        assert_eq!(fixture.actions(), [], "not at once");
        assert!(!fixture.directories.get(fixture.id()).expect("a queue").is_vital(), "it needs no heartbeat");
        let looks = pass(&mut fixture, 1).await;
        assert!(matches!(looks[..], [Action::Probe(..)]), "{looks:?}");
    }
}

#[tokio::test]
async fn a_child_that_does_not_count_is_reported_once_however_many_queues_there_are() {
    let mut fixture = Fixture::new();
    let ignored = |actions: &[Action]| actions.iter().any(|action| matches!(action, Action::Ignored(_)));
    for reported in [true, false] {
        fixture.queue(1, &["readme"]);
        let mut actions = fixture.actions();
        fixture.dispatch(Event::Leave(JoinId(1)));
        actions.extend(fixture.actions());
        assert_eq!(ignored(&actions), reported, "{actions:?}");
        let Some(Action::Delete(ticket, _)) = actions.pop() else { panic!("{actions:?}") };
        fixture.dispatch(Event::Deleted(ticket, Outcome::Done(())));
        fixture.flush();
        assert!(fixture.directories.at("/l").is_none(), "nobody is there");
    }
}

/// Joins and leaves the queue at each of these paths, where a child has no sequence number. Returns
/// the number of logged warnings.
fn use_paths(fixture: &mut Fixture, paths: std::ops::Range<usize>) -> usize {
    let mut reported = 0;
    for number in paths {
        fixture.path = format!("/locks/{number}").into();
        let path = Arc::clone(&fixture.path);
        fixture.queue(1, &["readme"]);
        fixture.dispatch(Event::Leave(JoinId(1)));
        let actions = fixture.actions();
        reported += actions.iter().filter(|action| matches!(action, Action::Ignored(_))).count();
        let Some(Action::Delete(ticket, _)) = actions.last() else { panic!("{actions:?}") };
        fixture.dispatch(Event::Deleted(*ticket, Outcome::Done(())));
        fixture.flush();
        assert!(fixture.directories.at(&path).is_none(), "nobody is there");
    }
    reported
}

#[tokio::test]
async fn however_many_paths_a_client_uses_it_remembers_a_thousand_reports_and_makes_no_more() {
    let mut fixture = Fixture::new();
    assert_eq!(use_paths(&mut fixture, 0..10_000), MOST_REPORTED);
    assert_eq!(fixture.directories.warned.0.len(), MOST_REPORTED);
    assert_eq!(use_paths(&mut fixture, 0..10), 0);
    assert_eq!(use_paths(&mut fixture, 9_990..10_000), 0);
}
