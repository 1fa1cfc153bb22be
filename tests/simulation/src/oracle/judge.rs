//! Checks the state that leases report, at each instant at which it could become wrong.
//!
//! A lease stays held until something ends it. Two leases that exclude each other can therefore
//! overlap only if one of them is granted while the other is held, and each grant is compared with
//! all leases that are held at that moment. In addition, when a server expires a session, no lease
//! of that session may report that it is held, even if no other client waits for the lock.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use zklock::{Lease, LeaseState, LossReason};

use super::attempts::Attempts;
use super::calm::Calm;
use super::prompt::Prompt;
use super::recorder::Recorder;
use super::reference::Unchecked;
use super::requests::Requests;
use super::rows::Rows;
use super::scopes::Scopes;
use super::slots::Slots;
use super::waiters::Counts;
use crate::clock;
use crate::features::Covered;
use crate::gate::Stopped;
use crate::history::History;
use crate::locks::{ELECTION, READ_WRITE};
use crate::measured::Measured;
use crate::setting::Setting;

/// Tolerance for the end of a hold, in milliseconds, because timers are rounded up.
const SLACK: u128 = 10;

/// The mode in which a lock is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Exclusive,
    Shared,
    /// A permit of a semaphore that has the given number of permits.
    Permit(usize),
}

/// A contender's lease.
#[derive(Debug)]
pub(super) struct Hold {
    pub(super) contender: usize,
    pub(super) place: &'static str,
    pub(super) mode: Mode,
    pub(super) lease: Arc<Lease>,
    /// Absolute path of the node.
    pub(super) node: String,
    pub(super) since: u64,
    /// Maximum hold time, if there is one.
    limit: Option<Duration>,
    /// Grace period at the end of the term. The lease is lost when this period begins.
    pub(super) grace: Duration,
    /// True if a violation of this hold was already reported.
    pub(super) accused: bool,
    /// The loss reason that the lease reported first.
    lost: Option<LossReason>,
    /// Time until which the lease must report that it is held, unless it is released or lost for
    /// another reason than its term.
    pub(super) sure: Option<u64>,
    /// Index of the hold in the recorder, if the recorder contains the hold.
    record: Option<usize>,
}

impl Hold {
    /// Returns `true` if the lease can be lost before the end of its term.
    pub(super) fn is_limited(&self) -> bool {
        self.limit.is_some() || !self.grace.is_zero()
    }

    /// Returns a message if the lease contradicts its earlier state. A lost lease must stay lost,
    /// and keep the reason that it reported first.
    fn contradiction(&mut self) -> Option<String> {
        let (before, now) = (self.lost, self.lease.state());
        if let LeaseState::Lost(reason) = now {
            self.lost.get_or_insert(reason);
        }
        let reason = before.filter(|reason| now != LeaseState::Lost(*reason))?;
        Some(format!("{} was lost: {reason}, and is {now:?}", self.node))
    }
}

/// A granted lock, with its contender.
#[derive(Clone, Debug)]
pub struct Granted {
    pub contender: usize,
    pub place: &'static str,
    pub mode: Mode,
    pub lease: Arc<Lease>,
    /// Absolute path of the node.
    pub node: String,
    /// Maximum hold time, if there is one.
    pub limit: Option<Duration>,
    /// Grace period at the end of the term. The lease is lost when this period begins.
    pub grace: Duration,
}

/// The highest fencing tokens of a lock so far.
#[derive(Debug, Default)]
struct Tokens {
    exclusive: Token,
    any: Token,
}

/// A fencing token, and the number of earlier holds on the same node. Each holder has a larger pair
/// than the previous holder.
type Token = (i64, u32);

/// The state of all checks, with the history.
#[derive(Debug)]
pub struct Oracle {
    pub history: History,
    /// Records holds, if other checkers will read the history.
    pub recorder: Option<Recorder>,
    pub violations: Vec<String>,
    /// The measurements of a progress case.
    pub measured: Vec<Measured>,
    pub grants: u64,
    /// The combinations of features that attempts have had.
    pub covered: Covered,
    /// Number of contenders in scopes of the shared object.
    pub sharing: usize,
    pub(super) unchecked: Vec<Unchecked>,
    pub(super) holds: Vec<Hold>,
    tokens: BTreeMap<&'static str, Tokens>,
    /// Sessions that operators ended. Their leases may still report that they are held.
    killed: BTreeSet<i64>,
    /// Sessions that contenders have closed by closing their client.
    closed: BTreeSet<i64>,
    pub(super) attempts: Attempts,
    /// Time at which each node was first seen in a queue.
    pub(super) seen: BTreeMap<String, u64>,
    pub requests: Requests,
    pub calm: Calm,
    pub prompt: Prompt,
    /// Consecutive holds on one node.
    pub(super) rows: Rows,
    pub scopes: Scopes,
    pub slots: Slots,
    /// The numbers of nodes, if attempts limit the number of waiters.
    pub counts: Counts,
    /// Number of clients, and which of them are stopped.
    pub(super) clients: usize,
    pub(super) stopped: Stopped,
    /// True once the shared number of permits was set.
    pub number_known: bool,
    /// The nodes of strangers (contenders that are not zklock clients), by directory. They count in
    /// the queue like any other node.
    strangers: BTreeMap<&'static str, String>,
    /// Nodes of waiters that disappeared while the node directly ahead in the queue belonged to
    /// another client. By rule 6, such a waiter lists the queue again, so it must notice that its
    /// node is missing. It must not be granted the lock through that node.
    gone: BTreeSet<String>,
}

/// Returns `true` if any method of a lease reports that it is held.
pub(super) fn says_held(lease: &Lease) -> bool {
    // Call all three, in this order, because a call can end a lease whose term has ended.
    let remains = !lease.remaining().is_zero();
    let passes = lease.check().is_ok();
    let held = matches!(lease.state(), LeaseState::Held | LeaseState::Suspended);
    held || passes || remains
}

/// Returns the sequence number of a node, which orders a directory.
fn number(node: &str) -> &str {
    &node[node.len().saturating_sub(10)..]
}

impl Oracle {
    /// Creates an oracle that has checked nothing.
    pub fn new(setting: &Setting, stopped: Stopped) -> Self {
        Self {
            history: History::default(),
            recorder: None,
            violations: Vec::new(),
            measured: Vec::new(),
            grants: 0,
            covered: Covered::default(),
            sharing: 0,
            unchecked: Vec::new(),
            holds: Vec::new(),
            tokens: BTreeMap::new(),
            killed: BTreeSet::new(),
            closed: BTreeSet::new(),
            attempts: Attempts::default(),
            seen: BTreeMap::new(),
            requests: Requests::default(),
            calm: Calm::new(setting),
            prompt: Prompt::new(setting),
            rows: Rows::default(),
            scopes: Scopes::default(),
            slots: Slots::default(),
            counts: Counts::default(),
            clients: setting.clients,
            stopped,
            number_known: false,
            strangers: BTreeMap::new(),
            gone: BTreeSet::new(),
        }
    }

    /// Reports a violation.
    pub fn violation(&mut self, what: impl Into<String>) {
        let what = format!("at {} ms: {}", clock::now(), what.into());
        self.history.note(&format!("VIOLATION {what}"));
        self.violations.push(what);
    }

    /// Reports a violation of exclusion, of the order of tokens or of a hold limit. Also records it
    /// for the checkers outside the simulation, which must find the same violation.
    fn breach(&mut self, what: String) {
        if let Some(recorder) = &mut self.recorder {
            recorder.breach(&what);
        }
        self.violation(what);
    }

    /// Records which of these holds are certain now.
    fn record_certain(&mut self, these: impl Fn(&Hold) -> bool) {
        let Some(mut recorder) = self.recorder.take() else { return };
        let certain = self.holds.iter().filter(|hold| these(hold) && self.is_certain(hold));
        recorder.certain(certain.filter_map(|hold| hold.record));
        self.recorder = Some(recorder);
    }

    /// Checks a grant.
    pub fn granted(&mut self, granted: &Granted) {
        self.grants += 1;
        let Granted { contender, place, mode, lease, node, limit, grace } = granted;
        let token = lease.fencing_token();
        self.history.note(&format!(
            "contender {contender} has {node} {mode:?}, token {token}, {:?}",
            lease.remaining()
        ));
        self.is_as_asked(granted);
        self.unchecked.push(Unchecked::new(node, *mode));
        self.rows.begins(node, lease.handoffs());
        if self.gone.contains(node) {
            self.violation(format!("{node} is granted although it was gone before"));
        }
        let mut hold = Hold {
            contender: *contender,
            place,
            mode: *mode,
            lease: Arc::clone(lease),
            node: node.clone(),
            since: clock::now(),
            limit: *limit,
            grace: *grace,
            accused: false,
            lost: None,
            sure: None,
            record: None,
        };
        // The lease can already be lost if its client was stopped.
        if self.is_certain(&hold) {
            self.record_certain(|other| other.place == hold.place);
            hold.record = self.recorder.as_mut().and_then(|recorder| recorder.granted(granted));
            self.compare(&hold);
            self.follow(*contender, place, *mode, (token, lease.handoffs()));
        }
        self.holds.push(hold);
    }

    /// Checks that the node is in the right directory and of the right kind.
    fn is_as_asked(&mut self, Granted { contender, place, mode, node, .. }: &Granted) {
        let kind = match mode {
            Mode::Shared => "-__READ__",
            Mode::Exclusive if *place == READ_WRITE => "-__WRIT__",
            Mode::Exclusive if *place == ELECTION => "-latch-",
            Mode::Exclusive => "-lock-",
            Mode::Permit(_) => "-lease-",
        };
        let kazoos = if *mode == Mode::Shared { "__rlock__" } else { "__lock__" };
        if !(node.starts_with(place) && (node.contains(kind) || node.contains(kazoos))) {
            self.violation(format!("contender {contender} wants {place} {mode:?}, and gets {node}"));
        }
    }

    fn compare(&mut self, new: &Hold) {
        let others = self.holds.iter().filter(|hold| {
            hold.place == new.place && hold.contender != new.contender && self.is_certain(hold)
        });
        let (mut found, mut permits) = (Vec::new(), 0);
        for other in others {
            match (new.mode, other.mode) {
                (Mode::Shared, Mode::Shared) => {}
                (Mode::Permit(_), Mode::Permit(_)) => permits += 1,
                _ => found.push(other.node.clone()),
            }
        }
        let own = |hold: &&Hold| {
            hold.place == new.place && hold.contender == new.contender && says_held(&hold.lease)
        };
        permits += self.holds.iter().filter(own).count();
        if let Mode::Permit(most) = new.mode
            && permits + 1 > most
        {
            self.breach(format!("{} of {most} permits of {} are held", permits + 1, new.place));
        }
        for other in found {
            self.breach(format!("{} is granted while {other} is held", new.node));
        }
        if let Some(stranger) = self.strangers.get(new.place)
            && new.mode == Mode::Exclusive
            && number(stranger) < number(&new.node)
            && !self.requests.is_broken(stranger)
        {
            self.violation(format!("{} is granted while {stranger} is held", new.node));
        }
    }

    /// Records that a stranger joins the queue of a directory.
    pub fn stranger_queues(&mut self, directory: &'static str, node: &str) {
        self.strangers.insert(directory, format!("{directory}/{node}"));
    }

    /// Records that the stranger is about to leave.
    pub fn stranger_leaves(&mut self, directory: &str) {
        self.strangers.remove(directory);
    }

    /// Checks that each holder has a larger token than the previous one, and that their nodes were
    /// created in the same order.
    fn follow(&mut self, contender: usize, place: &'static str, mode: Mode, token: Token) {
        let downgrade = self.holds.iter().any(|hold| {
            hold.contender == contender && hold.place == place && hold.lease.fencing_token() == token.0
        });
        let tokens = self.tokens.entry(place).or_default();
        let before = match mode {
            Mode::Exclusive => std::mem::replace(&mut tokens.exclusive, token).max(tokens.any),
            Mode::Shared => tokens.exclusive,
            Mode::Permit(_) => return,
        };
        tokens.any = tokens.any.max(token);
        if token <= before && !downgrade {
            self.breach(format!("{place} is granted with token {token:?} after {before:?}"));
        }
    }

    /// Records the end of a hold: its contender is about to release it, or has learned of its loss.
    pub fn ends(&mut self, lease: &Arc<Lease>, how: &str) {
        if let Some(place) = self.holds.iter().position(|hold| Arc::ptr_eq(&hold.lease, lease)) {
            self.record_certain(|hold| Arc::ptr_eq(&hold.lease, lease));
            let mut hold = self.holds.swap_remove(place);
            if let Some(wrong) = hold.contradiction() {
                self.violation(wrong);
            }
            if let Some((directory, _)) = hold.node.rsplit_once('/') {
                self.prompt.is_left(directory);
            }
            self.history.note(&format!("contender {} {how} {}", hold.contender, hold.node));
        }
    }

    /// Checks that no lease is held when servers expire its session.
    pub fn expired(&mut self, session: i64) {
        self.history.note(&format!("session {session:#x} is over"));
        let of_session = |hold: &&Hold| hold.lease.session_id() == session && self.is_certain(hold);
        let wrong: Vec<_> = self.holds.iter().filter(of_session).map(|hold| hold.node.clone()).collect();
        if let Some(recorder) = &mut self.recorder {
            let of_session = self.holds.iter().filter(|hold| hold.lease.session_id() == session);
            recorder.over(of_session.filter_map(|hold| hold.record));
        }
        self.record_certain(|hold| hold.lease.session_id() == session);
        for node in wrong {
            self.breach(format!("{node} is held when its session is over"));
        }
    }

    /// Records that a waiter's node disappeared while the node directly ahead in the queue belonged
    /// to another client.
    pub fn gone(&mut self, node: String) {
        self.gone.insert(node);
    }

    /// Records that a contender closes the client of a session.
    pub fn closed(&mut self, session: i64) {
        self.closed.insert(session);
    }

    pub fn is_closed(&self, session: i64) -> bool {
        self.closed.contains(&session)
    }

    /// Records that an operator ends a session.
    pub fn killed(&mut self, session: i64) {
        self.killed.insert(session);
    }

    /// Returns the leases of a session that are certainly held.
    pub fn held_by(&self, session: i64) -> Vec<Arc<Lease>> {
        let held =
            self.holds.iter().filter(|hold| hold.lease.session_id() == session && self.is_certain(hold));
        held.map(|hold| Arc::clone(&hold.lease)).collect()
    }

    /// Returns `true` if there is no further hold through this node.
    pub fn is_last(&self, node: &str) -> bool {
        !self.holds.iter().any(|hold| hold.node == node)
    }

    /// Checks that no lease reports that it is held for longer than its hold limit, even if its
    /// client is stopped.
    pub fn judge_limits(&mut self) {
        let is_over = |hold: &Hold, limit: Duration| {
            let over = u128::from(clock::now() - hold.since) > limit.as_millis() + SLACK;
            over && says_held(&hold.lease)
        };
        let late = self.holds.iter().filter(|hold| hold.limit.is_some_and(|limit| is_over(hold, limit)));
        let late: Vec<_> = late.map(|hold| (hold.node.clone(), hold.limit)).collect();
        let wrong: Vec<_> = self.holds.iter_mut().filter_map(Hold::contradiction).collect();
        for wrong in wrong {
            self.violation(wrong);
        }
        for (node, limit) in late {
            self.violation(format!("{node} is held for longer than {limit:?}"));
        }
    }

    /// Returns `true` if a lease reports that it is held, and no operator has deleted its node or
    /// ended its session. The library guarantees that such a lease is really held.
    pub(super) fn is_certain(&self, hold: &Hold) -> bool {
        let taken = self.requests.is_broken(&hold.node) || self.killed.contains(&hold.lease.session_id());
        !taken && says_held(&hold.lease)
    }
}
