//! Tests what an event at one lock, or a query about one hold, costs in a client with many waiters
//! or holds.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot::{self, Receiver};
use tokio::time::Instant;

use crate::config::ClientOptions;
use crate::config::lock_path::LockPath;
use crate::config::timeout::{Deadline, Timeout};
use crate::driver::event_loop::Driver;
use crate::driver::event_loop::bounds::comparison::{Costs, compare};
use crate::driver::mailbox::{AcquireAttempt, Command, DirectoryId, Inbox, Input, Mailbox};
use crate::error::Result;
use crate::error::loss_reason::LossReason;
use crate::lease::hold::{Grant, HoldTable, Notice};
use crate::lease::owner::Owner;
use crate::lease::release::Release;
use crate::lease::request::AcquireRequest;
use crate::lease::{EnterOutcome, Lease};
use crate::queue::{Action, Event, Intent, JoinId, Kind, Naming, NodeName, Outcome};
use crate::runtime::clock::BootInstant;
use crate::runtime::fork::ForkGuard;
use crate::session::term::Term;

/// A driver without a session, with the state of its callers.
pub(in crate::driver) struct Desk {
    pub(in crate::driver) driver: Driver,
    mailbox: Arc<Mailbox>,
    answers: Vec<Receiver<Result<Lease>>>,
    joins: u64,
}

impl Desk {
    pub(in crate::driver) fn new() -> Self {
        let (mailbox, Inbox { status, sender, .. }) = Mailbox::new();
        let driver = Driver::new(ClientOptions::new(Some("h")).expect("a host"), status, sender);
        Self { driver, mailbox: Arc::new(mailbox), answers: Vec::new(), joins: 0 }
    }

    /// Returns a client that waits for this number of locks.
    fn waiting(count: u64) -> Self {
        let mut desk = Self::new();
        for number in 0..count {
            let join = desk.join(&path(number));
            deliver(&mut desk.driver, join);
        }
        desk
    }

    /// Returns a client that holds this number of locks.
    pub(in crate::driver) fn holding(count: u64) -> Self {
        let mut desk = Self::waiting(count);
        desk.driver.was_connected = true;
        for number in 0..count {
            let (path, node) = (Arc::<str>::from(path(number)), node());
            let id = desk.at(&path);
            for event in desk.grant(&path, &node) {
                deliver(&mut desk.driver, queue(id, event));
            }
        }
        desk
    }

    pub(in crate::driver) fn join(&mut self, path: &str) -> Input {
        self.joins += 1;
        let (reply, answer) = oneshot::channel();
        self.answers.push(answer);
        let recorder = Arc::clone(&self.mailbox.status.recorder);
        let place = LockPath::new("", path, "").expect("a path");
        Input::Command(Command::Join(AcquireAttempt {
            join: JoinId(self.joins),
            holds: Arc::new(HoldTable::new(place, ForkGuard::new(), recorder, self.mailbox.clone())),
            claim: AcquireRequest::new(Owner::new(), Kind::Exclusive, None),
            intent: Intent::Wait,
            asked: Instant::now(),
            naming: Naming::Curator,
            data: [b'x'; 150].into(),
            deadline: Deadline::after(Timeout::For(Duration::ZERO)),
            reply: Some(reply),
        }))
    }

    /// Returns the replies with which a server grants the lock at a path.
    fn grant(&mut self, path: &Arc<str>, node: &NodeName) -> [Event; 2] {
        let id = self.at(path);
        let directory = self.driver.directories.get_to_flush(id).expect("somebody waits there");
        for event in [Event::SessionBegan(1), Event::Connected, Event::TermBegan] {
            directory.on_event(event);
        }
        let Some(Action::Create(create, ..)) = directory.next_action() else { panic!("a create") };
        let Some(Action::List { ticket, .. }) = directory.next_action() else { panic!("a listing") };
        let name = node.as_str().to_owned();
        let listed = Event::Listed(ticket, Outcome::Done(vec![name.clone()]));
        [Event::Created(create, Outcome::Done((name, 1))), listed]
    }

    /// Delivers an input to a forked copy of this process, where its instructions are counted, and
    /// then to this process.
    fn happens(&mut self, costs: &mut Costs, name: &'static str, input: impl Fn(&mut Self) -> Input) {
        let copy = input(self);
        let driver = &mut self.driver;
        costs.note(name, || deliver(driver, copy));
        let input = input(self);
        deliver(&mut self.driver, input);
    }

    fn joins(&mut self, costs: &mut Costs, path: &str) {
        self.happens(costs, "join", |desk| desk.join(path));
    }

    fn is_at(&self, path: &str) -> bool {
        self.driver.directories.at(path).is_some()
    }

    /// Returns the id of the directory at a path.
    pub(in crate::driver) fn at(&self, path: &str) -> DirectoryId {
        self.driver.directories.at(path).expect("somebody is there")
    }
}

pub(in crate::driver) fn path(number: u64) -> String {
    format!("/locks/{number:05}")
}

/// Returns a path that is sorted into the middle of the other `count` paths.
fn path_amidst(count: u64) -> Arc<str> {
    format!("{}-and-one", path(count / 2)).into()
}

pub(in crate::driver) fn node() -> NodeName {
    NodeName::parse("_c_0f0f0f0f-0f0f-4f0f-8f0f-0f0f0f0f0f0f-lock-0000000001").expect("a node's name")
}

pub(in crate::driver) fn queue(directory: DirectoryId, event: Event) -> Input {
    Input::Queue { directory, connection_number: 0, event }
}

fn notice(path: &Arc<str>, notice: Notice) -> Input {
    Input::Command(Command::Hold { path: Arc::clone(path), notice })
}

pub(in crate::driver) fn deliver(driver: &mut Driver, input: Input) {
    assert!(driver.drain_inbox(std::iter::once(input)).is_continue());
    driver.flush();
}

fn time_passes(driver: &mut Driver) {
    driver.run_due_alarms();
    driver.flush();
}

#[tokio::test(flavor = "current_thread")]
async fn one_more_waiter_costs_at_most_twice_as_much_beside_many_paths() {
    compare("waiting elsewhere", |count, costs| {
        let mut desk = Desk::waiting(count);
        // The deadlines of the other waiters have not passed.
        desk.driver.timers = crate::driver::event_loop::Timers::default();
        let path = path_amidst(count);
        desk.joins(costs, &path);
        assert!(desk.is_at(&path));
        let driver = &mut desk.driver;
        costs.note("its time is up", || time_passes(driver));
        time_passes(driver);
        assert!(!desk.is_at(&path));
        desk.joins(costs, &path);
        let join = JoinId(desk.joins);
        desk.happens(costs, "leave", |_| Input::Command(Command::Leave { path: Arc::clone(&path), join }));
        assert!(!desk.is_at(&path));
    });
}

#[tokio::test(flavor = "current_thread")]
async fn one_more_hold_costs_at_most_twice_as_much_beside_many_paths() {
    compare("holding elsewhere", |count, costs| {
        let mut desk = Desk::holding(count);
        let (path, node) = (path_amidst(count), node());
        desk.joins(costs, &path);
        let id = desk.at(&path);
        let [created, listed] = desk.grant(&path, &node);
        desk.happens(costs, "created", |_| queue(id, created.clone()));
        desk.happens(costs, "granted", |_| queue(id, listed.clone()));
        let granted = desk.answers.last_mut().and_then(|answer| answer.try_recv().ok());
        assert!(matches!(granted, Some(Ok(_))), "it is held");
        desk.happens(costs, "watched", |_| notice(&path, Notice::WatchNode { node: node.clone() }));
        desk.happens(costs, "revoked", |_| Input::Revoked { directory: id, node: node.clone(), version: 0 });
        for name in ["checked", "checked behind the last"] {
            let Driver { heartbeat, connection, directories, .. } = &mut desk.driver;
            costs.note(name, || heartbeat.send_heartbeat(connection, directories, 4));
            heartbeat.send_heartbeat(
                connection,
                directories,
                usize::try_from(count / 2).unwrap_or(usize::MAX),
            );
        }
        let release = || Release { waiter: None, reporter: None };
        desk.happens(costs, "released", |_| {
            notice(&path, Notice::Released { node: node.clone(), release: release() })
        });
        assert!(!desk.driver.directories.get(id).expect("its node is deleted").is_vital());
    });
}

#[test]
fn a_look_at_one_hold_costs_at_most_twice_as_much_beside_many() {
    compare("holds", |count, costs| {
        let (mailbox, _inbox) = Mailbox::new();
        let place = LockPath::new("", "/l", "").expect("a path");
        let holds = Arc::new(HoldTable::new(place, ForkGuard::new(), Arc::default(), Arc::new(mailbox)));
        let term = Arc::new(Term::new(Duration::from_secs(3_600), 1));
        term.prove(BootInstant::now(), 1);
        let node = |number| NodeName::parse(&format!("lock-{number:010}")).expect("a node's name");
        let grant = |owner, number| {
            let (node, term) = (node(number), Arc::clone(&term));
            let grant = Grant { node, fencing_token: 1, session_id: 1, term };
            holds.grant(AcquireRequest::new(owner, Kind::Read, None), grant)
        };
        let (one, newcomer) = (Owner::new(), Owner::new());
        let owner = |number| if number == count / 2 { one.clone() } else { Owner::new() };
        let _leases: Vec<_> = (0..count).map(|number| grant(owner(number), number)).collect();
        let enter = |owner: &Owner| holds.enter(owner.id(), Kind::Read, Intent::Wait);
        costs.note("grant", || grant(newcomer.clone(), count));
        costs.note("enter", || assert!(matches!(enter(&newcomer), Ok(EnterOutcome::Queues(_)))));
        costs.note("re-enter", || assert!(matches!(enter(&one), Ok(EnterOutcome::Reentered(_)))));
        let node = node(count / 2);
        costs.note("suspend", || holds.suspend(&node, true));
        costs.note("revoke", || assert!(holds.revoke(&node)));
        costs.note("lose", || assert!(holds.lose(&node, LossReason::NodeDeleted)));
        costs.note("take", || assert!(holds.all().take(&node).is_some()));
    });
}
