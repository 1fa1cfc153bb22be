//! Tests of a directory's events, in which the test plays the server.

use std::time::Duration;

use tokio::sync::oneshot::error::TryRecvError;
use tokio::sync::{mpsc, oneshot};

use crate::config::ClientOptions;
use crate::config::lock_path::LockPath;
use crate::config::timeout::{Deadline, Timeout};
use crate::driver::directory::*;
use crate::driver::timers::{Alarm, RareAlarms};
use crate::error::Result;
use crate::lease::Lease;
use crate::lease::hold::{Grant, HoldId, HoldTable, Notice, Report};
use crate::lease::owner::Owner;
use crate::lease::request::Grace;
use crate::lease::state::LeaseState;
use crate::queue::{Access, Intent};
use crate::runtime::clock::BootInstant;
use crate::runtime::fork::ForkGuard;
use crate::session::term::Term;

const HOUR: Duration = Duration::from_secs(3600);

/// A driver that ignores all reports from holds.
struct Nobody;

impl Report for Nobody {
    fn report(&self, _: &Arc<str>, _: Notice) -> Result<()> {
        Ok(())
    }

    fn no_answer(&self) -> Error {
        Error::unanswered()
    }

    fn heard_since(&self, _: tokio::time::Instant) -> bool {
        false
    }
}

/// Returns a connection without a session. A hold on it is lost at the first check.
fn connection() -> Connection {
    let (sender, _) = mpsc::unbounded_channel();
    Connection::new(ClientOptions::new(Some("h")).unwrap(), Arc::default(), sender)
}

/// A directory in which one owner has several waiters, with the join ids 1, 2, …. The first waiter
/// has been granted the lock.
struct Granted {
    directory: Directory,
    holds: Arc<HoldTable>,
    connection: Connection,
    timers: Timers,
    node: NodeName,
    outcomes: Outcomes,
}

fn granted(joins: u64) -> Granted {
    granted_for(joins, None)
}

/// Like `granted`, for a lock with this `max_hold`.
fn granted_for(joins: u64, max_hold: Option<Duration>) -> Granted {
    granted_with(joins, max_hold, Duration::ZERO)
}

/// Like `granted_for`, with a `grace` too.
fn granted_with(joins: u64, max_hold: Option<Duration>, grace: Duration) -> Granted {
    let grace = Grace::of(grace);
    granted_as(joins, |request| AcquireRequest { max_hold, grace, ..request })
}

/// Returns a client's hold table for a path.
fn table() -> Arc<HoldTable> {
    let place = LockPath::new("", "/l", "").unwrap();
    Arc::new(HoldTable::new(place, ForkGuard::new(), Arc::default(), Arc::new(Nobody)))
}

type Outcomes = Vec<oneshot::Receiver<Result<Lease>>>;

/// Returns a directory in which one owner has `joins` waiters. The queue has requested a node for
/// the first waiter.
fn joined(
    joins: u64,
    connection: &Connection,
    of: impl Fn(AcquireRequest) -> AcquireRequest,
) -> (Directory, Arc<HoldTable>, Outcomes) {
    let holds = table();
    let path = Arc::clone(holds.place.full());
    let mut directory =
        Directory::new((DirectoryId::default(), path), Ticket::default(), connection, false, 1);
    let owner = Owner::new();
    let join = |join| {
        let (reply, outcome) = oneshot::channel();
        let claim = of(AcquireRequest::new(owner.clone(), Kind::Exclusive, None));
        let (holds, naming) = (Arc::clone(&holds), Naming::Curator);
        let (intent, data, deadline) = (Intent::Wait, Arc::default(), Deadline::after(Timeout::Forever));
        let asked = Instant::now();
        let attempt =
            AcquireAttempt { join, holds, claim, intent, asked, naming, data, deadline, reply: Some(reply) };
        directory.join(Waiter::new(attempt, RareAlarms::default()), &mut Timers::default());
        outcome
    };
    let outcomes = (1..=joins).map(JoinId).map(join).collect();
    for event in [Event::SessionBegan(1), Event::Connected, Event::TermBegan] {
        directory.on_event(event);
    }
    directory.queue.flush();
    (directory, holds, outcomes)
}

/// Like `granted`, for requests that `of` derives from a plain one.
fn granted_as(joins: u64, of: impl Fn(AcquireRequest) -> AcquireRequest) -> Granted {
    let (mut connection, mut timers) = (connection(), Timers::default());
    let (mut directory, holds, outcomes) = joined(joins, &connection, of);
    let Some(Action::Create(create, _, prefix)) = directory.queue.next_action() else { panic!("a create") };
    let Some(Action::List { ticket: listing, .. }) = directory.queue.next_action() else {
        panic!("a listing")
    };
    let node = format!("{prefix}0000000001");
    directory.on_event(Event::Created(create, Outcome::Done((node.clone(), 1))));
    directory.on_event(Event::Listed(listing, Outcome::Done(vec![node.clone()])));
    directory.flush(&mut connection, &mut timers);
    let node = NodeName::parse(&node).unwrap();
    Granted { directory, holds, connection, timers, node, outcomes }
}

#[tokio::test(flavor = "current_thread")]
async fn the_alarm_of_a_hold_goes_with_it() {
    let Granted { mut directory, mut timers, node, .. } = granted(1);
    assert_eq!(timers.len(), 1);
    directory.release(&node, Release { waiter: None, reporter: None }, &mut timers);
    assert_eq!(timers.len(), 0);
    let Granted { mut directory, mut connection, mut timers, node, .. } = granted(1);
    directory.on_event(Event::Missing(node));
    directory.flush(&mut connection, &mut timers);
    assert_eq!(timers.len(), 0);
}

#[tokio::test(flavor = "current_thread")]
async fn the_limit_of_a_hold_goes_with_it() {
    let limit = Some(Duration::from_secs(3600));
    let Granted { mut directory, mut timers, node, .. } = granted_for(1, limit);
    assert_eq!(timers.len(), 2);
    directory.release(&node, Release { waiter: None, reporter: None }, &mut timers);
    assert_eq!(timers.len(), 0);
    let Granted { mut directory, mut connection, mut timers, node, .. } = granted_for(1, limit);
    directory.on_event(Event::Missing(node));
    directory.flush(&mut connection, &mut timers);
    assert_eq!(timers.len(), 0);
}

#[tokio::test(flavor = "current_thread")]
async fn what_is_held_too_long_is_lost_before_its_node_is_deleted() {
    let limit = Some(Duration::from_millis(1));
    let Granted { mut directory, mut timers, node, .. } = granted_for(1, limit);
    timers.next().await;
    let Some(Alarm::HeldTooLong(_, late)) = timers.due() else { panic!("no alarm") };
    assert_eq!(late, HoldId { node: node.clone(), handoffs: 0 });
    directory.expire(&late, LossReason::HeldTooLong, Duration::ZERO, &mut timers);
    assert!(matches!(directory.next_action(), Some(Action::Delete(_, name)) if name == node));
    assert!(!directory.holders.contains(&node));
}

#[tokio::test(flavor = "current_thread")]
async fn the_node_of_a_hold_that_is_lost_within_its_grace_goes_with_its_release() {
    let (grace, left) = (Duration::from_secs(3600), Duration::from_secs(1800));
    let expired = || {
        let Granted { mut directory, mut timers, node, .. } = granted_with(1, None, grace);
        directory.expire(
            &HoldId { node: node.clone(), handoffs: 0 },
            LossReason::TermEnded,
            left,
            &mut timers,
        );
        assert!(!directory.has_hold_on(&node));
        assert!(directory.next_action().is_none(), "its node is kept");
        (directory, timers, node)
    };
    let (mut directory, mut timers, node) = expired();
    directory.release(&node, Release { waiter: None, reporter: None }, &mut timers);
    assert!(matches!(directory.next_action(), Some(Action::Delete(_, name)) if name == node));
    assert_eq!(timers.len(), 0);
    // The kept node is also forgotten at the end of the term, when it is deleted, and when the
    // session ends.
    let (mut directory, mut timers, node) = expired();
    directory.end_term(&mut timers);
    assert!(matches!(directory.next_action(), Some(Action::Delete(_, name)) if name == node));
    let (mut directory, mut timers, node) = expired();
    directory.on_event(Event::Missing(node));
    directory.flush(&mut connection(), &mut timers);
    assert_eq!(timers.len(), 0);
    let (mut directory, mut timers, _) = expired();
    directory.end_session(&mut timers);
    assert_eq!(timers.len(), 0);
}

#[tokio::test(flavor = "current_thread")]
async fn an_owner_s_other_waiters_go_on_waiting_when_the_term_ends_before_they_re_enter() {
    let Granted { directory, mut outcomes, .. } = granted(2);
    let (mut other, mut first) = (outcomes.remove(1), outcomes.remove(0));
    assert!(first.try_recv().is_ok(), "it was granted the lock");
    assert_eq!(other.try_recv().err(), Some(TryRecvError::Empty), "it was told something");
    assert!(directory.is_waiting(JoinId(2)), "its turn comes when the first hold is released");
}

#[tokio::test(flavor = "current_thread")]
async fn a_waiter_whose_nodes_vanish_gets_them_less_often_until_the_session_ends() {
    let Granted { mut directory, .. } = granted(2);
    let rest = |waiters: &mut Waiters| waiters.pacing(JoinId(2)).map_or(Duration::ZERO, Pacing::pause);
    let first = [(); 2].map(|()| rest(&mut directory.waiters));
    assert_eq!(first, [Duration::ZERO; 2], "one node may be gone at once");
    assert!(rest(&mut directory.waiters) > Duration::ZERO, "two were");
    // A node's lifetime starts after its pause, however long that is.
    let pauses = [(); 60].map(|()| rest(&mut directory.waiters));
    assert!(pauses.iter().all(|pause| !pause.is_zero()), "{pauses:?}");
    directory.waiters.end_session();
    assert_eq!(rest(&mut directory.waiters), Duration::ZERO, "a session's end takes all nodes");
}

#[tokio::test(flavor = "current_thread")]
async fn a_create_in_a_new_directory_has_no_pause_but_the_next_new_directory_has() {
    let (mut directory, _holds, _outcomes) = joined(1, &connection(), |request| request);
    let mut pauses = Vec::new();
    for _ in 0..9 {
        let create = loop {
            match directory.queue.next_action() {
                Some(Action::Create(ticket, join, _)) => break (ticket, join),
                Some(_) => {}
                None => panic!("a create"),
            }
        };
        assert_eq!(directory.pause_before_create(create.1), Duration::ZERO);
        directory.on_event(Event::Created(create.0, Outcome::NoNode));
        directory.queue.flush();
        let make = loop {
            match directory.queue.next_action() {
                Some(Action::MakeParents(ticket)) => break ticket,
                Some(_) => {}
                None => panic!("a new directory"),
            }
        };
        pauses.push(directory.parents.get_or_insert_default().pause());
        directory.on_event(Event::ParentsMade(make, Outcome::Done(())));
        directory.queue.flush();
    }
    assert_eq!(pauses[..2], [Duration::ZERO; 2]);
    assert!(pauses[2..].iter().all(|pause| !pause.is_zero()), "{pauses:?}");
}

#[tokio::test(flavor = "current_thread")]
async fn a_contender_on_kazoo_is_told_from_those_that_see_ours() {
    let Granted { directory, node, .. } = granted(1);
    let listed = |names: &[&str]| {
        let names = names.iter().map(ToString::to_string).collect();
        Event::Listed(Ticket::default(), Outcome::Done(names))
    };
    let kazoos = "6cf7b2c1a3d04a5f8f5c1f4e6f2a9b10__lock__0000000002";
    assert_eq!(directory.find_blind_kazoo(&listed(&[node.as_str()])), None);
    assert_eq!(directory.find_blind_kazoo(&listed(&[node.as_str(), kazoos])), Some(kazoos));
    assert_eq!(directory.find_blind_kazoo(&Event::Connected), None);
    let other =
        Directory::new((DirectoryId::default(), "/l".into()), Ticket::default(), &connection(), false, 1);
    assert_eq!(other.find_blind_kazoo(&listed(&[kazoos])), None);
}

#[tokio::test(flavor = "current_thread")]
async fn a_node_that_is_kept_after_keeping_has_ended_is_deleted() {
    let Granted { mut directory, mut timers, node, outcomes, .. } = granted(1);
    // The hold is over, and all lock objects are gone.
    drop(outcomes);
    directory.node_kept(&node, HOUR, &mut timers);
    assert!(matches!(directory.next_action(), Some(Action::Delete(_, name)) if name == node));
    assert_eq!(timers.len(), 0);
}

#[tokio::test(flavor = "current_thread")]
async fn all_alarms_of_a_hold_go_with_it_when_its_time_or_its_session_is_over() {
    let claim = |request| AcquireRequest {
        max_hold: Some(HOUR),
        grace: Grace::of(HOUR),
        linger: 3_600_000,
        ..request
    };
    let all_set = || {
        let Granted { mut directory, holds, mut timers, node, outcomes, .. } = granted_as(1, claim);
        let request = claim(AcquireRequest::new(Owner::new(), Kind::Exclusive, None));
        directory.begin_keeping(&holds, &request, &mut timers);
        // The node was kept and then reused.
        directory.node_kept(&node, HOUR, &mut timers);
        assert_eq!(timers.len(), 4, "of its length, its limit, its grace, and the end of keeping");
        (directory, timers, node, outcomes)
    };
    let (mut directory, mut timers, ..) = all_set();
    directory.end_session(&mut timers);
    assert_eq!(timers.len(), 0);
    let (mut directory, mut timers, node, _outcomes) = all_set();
    let hold = HoldId { node, handoffs: 0 };
    directory.expire(&hold, LossReason::HeldTooLong, HOUR, &mut timers);
    assert_eq!(timers.len(), 0);
}

/// A directory with one kept node, in a term of 30 s.
struct Kept {
    directory: Directory,
    holds: Arc<HoldTable>,
    timers: Timers,
    node: NodeName,
    /// The claim of the previous hold.
    claim: AcquireRequest,
}

/// Returns a directory with a kept node. `grace` is the grace of the hold that was released.
fn kept(grace: Duration) -> Kept {
    let (holds, mut timers) = (table(), Timers::default());
    let path = Arc::clone(holds.place.full());
    let mut directory =
        Directory::new((DirectoryId::default(), path), Ticket::default(), &connection(), false, 1);
    let term = Term::new(Duration::from_secs(60), 1);
    term.prove(BootInstant::now(), 1);
    let left = term.remaining();
    let node = NodeName::parse("lock-0000000001").unwrap();
    let request = AcquireRequest::new(Owner::new(), Kind::Exclusive, None);
    let claim = AcquireRequest { grace: Grace::of(grace), linger: 3_600_000, ..request };
    let grant = Grant { node: node.clone(), fencing_token: 1, session_id: 1, term: Arc::new(term) };
    let lease = holds.grant(claim.clone(), grant);
    directory.holders.add(&lease.hold_id(), &holds, &claim, Arc::default(), directory.id, &mut timers);
    directory.await_grace(&node, grace, left, &mut timers);
    directory.begin_keeping(&holds, &claim, &mut timers);
    drop(lease);
    directory.node_kept(&node, HOUR, &mut timers);
    assert!(holds.keeps_any());
    Kept { directory, holds, timers, node, claim }
}

#[tokio::test(flavor = "current_thread")]
async fn a_hold_that_takes_a_node_again_is_lost_by_its_own_grace_before_the_driver_hears_of_it() {
    let before = Duration::from_secs(10);
    for own in [Duration::ZERO, Duration::from_secs(1)] {
        let Kept { mut directory, holds, mut timers, node, claim } = kept(before);
        let claim = AcquireRequest { grace: Grace::of(own), ..claim };
        let lease = holds.take_again(&claim, Naming::Curator, Access::Driver).expect("it is kept");
        directory.check_grace(&node, before, &mut timers);
        assert_eq!(lease.state(), LeaseState::Held);
        directory.check_grace(&node, own, &mut timers);
        assert_eq!(lease.state(), LeaseState::Lost(LossReason::TermEnded));
    }
}

#[tokio::test(flavor = "current_thread")]
async fn nothing_is_kept_or_watched_once_the_session_is_over() {
    let Kept { mut directory, holds, mut timers, claim, .. } = kept(Duration::ZERO);
    directory.end_session(&mut timers);
    assert!(!holds.keeps_any());
    assert!(holds.take_again(&claim, Naming::Curator, Access::Driver).is_none());
    assert_eq!(timers.len(), 0);
    assert!(!has_children_watched(&mut directory));
}

/// Returns `true` if this directory, which has no contenders, watches its children in a new
/// session.
fn has_children_watched(directory: &mut Directory) -> bool {
    for event in [Event::SessionBegan(2), Event::Connected, Event::TermBegan] {
        directory.on_event(event);
    }
    std::iter::from_fn(|| directory.next_action()).any(|action| matches!(action, Action::ListAndWatch { .. }))
}

#[tokio::test(flavor = "current_thread")]
async fn the_children_are_watched_while_keeping_goes_on() {
    for goes_on in [true, false] {
        let Kept { mut directory, mut timers, .. } = kept(Duration::ZERO);
        if !goes_on {
            directory.end_keeping(&mut timers);
        }
        assert_eq!(has_children_watched(&mut directory), goes_on);
    }
}

#[tokio::test(flavor = "current_thread")]
async fn a_node_that_is_given_up_is_taken_by_nobody() {
    let Kept { mut directory, holds, mut timers, node, claim } = kept(Duration::ZERO);
    assert!(directory.stop_keeping(&node, &mut timers));
    assert!(holds.take_again(&claim, Naming::Curator, Access::Driver).is_none());
    assert!(!directory.has_hold_on(&node));
}

#[tokio::test(flavor = "current_thread")]
async fn nodes_that_were_kept_by_lock_objects_that_are_gone_are_given_up() {
    let Kept { mut directory, holds, mut timers, node, .. } = kept(Duration::ZERO);
    drop(holds);
    directory.end_keeping(&mut timers);
    assert!(!directory.has_hold_on(&node), "a waiter of the same client would wait for it");
    assert_eq!(timers.len(), 0);
}
