//! A model of acquires of several locks or permits (*attempts*): the layer above the queues.
//!
//! The queues below this layer are the library's real code. The crate's coordinators
//! (`lock/multi.rs`, `lock/semaphore/mod.rs`) are asynchronous functions around `Lock::request_as`,
//! which starts a driver with a thread and sockets. They cannot be run step by step here, so this
//! module models them.
//!
//! The model matches the coordinators in these respects:
//! - Between two waits, both coordinators only join queues, leave queues and release locks. Each
//!   coordinator waits in one `select!` whose arms have an order.
//! - An attempt has a stage for each `await`. [`Attempt::run`] does what the function does between
//!   that `await` and the next one, and checks the arms in the same order.
//! - The function runs when its task is polled, at any time after a wake-up. In this model, the
//!   poll is a separate event.
//! - Dropping the future drops its values, the newest first. [`Attempt::end`] does so in the same
//!   order.
//!
//! The model leaves out these features:
//! - The number of permits is fixed, and is not compared with the other clients' number.
//! - An acquire that must not wait does not check how many permits are free before it requests its
//!   turn (see below).
//! - A timeout is modeled as leaving the queue, which is possible at any moment.
//! - No owner re-enters a lock.
//!
//! A *turn* is the semaphore's internal mutex: an attempt holds it while it takes permits.

use zklock::queue::{Intent, JoinId, Kind, Naming, NodeName};

use super::client::Client;
use super::mutants::Mutant;

/// The directory of a semaphore's internal mutex (its turns). `LEASES` is the directory of its
/// permits.
pub(crate) const TURNS: usize = 0;
const LEASES: usize = 1;

/// The purpose of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Plan {
    /// The locks of these directories, in the order in which the caller names them.
    Locks(&'static [usize]),
    /// Permits of a semaphore: the number that is requested, and the number that exists.
    Permits(u32, u32),
}

/// The reply to a part that an attempt requested.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Answer {
    Lease(NodeName),
    Refused,
}

/// The event that an attempt waits for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Stage {
    /// Waits for the next of several locks.
    Member(JoinId),
    /// Waits for its turn to take permits.
    Turn(JoinId),
    /// Waits for permits while it holds its turn through this node.
    Permits(NodeName, Vec<JoinId>),
    /// The attempt has all of its locks or permits, and waits for nothing. An attempt at permits
    /// has released its turn (the semaphore's internal mutex). The field is the node of that turn.
    Held(Option<NodeName>),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Attempt {
    pub(super) plan: Plan,
    tries: bool,
    stage: Stage,
    /// The nodes of the parts taken so far, in order.
    taken: Vec<NodeName>,
}

impl Attempt {
    fn begin(plan: Plan, tries: bool, client: &mut Client) -> Self {
        let mut attempt = Self { plan, tries, stage: Stage::Held(None), taken: Vec::new() };
        attempt.reset(client);
        attempt
    }

    fn reset(&mut self, client: &mut Client) {
        self.stage = match self.plan {
            Plan::Locks(_) => Stage::Member(self.ask(client, 0)),
            Plan::Permits(..) if client.mutant == Some(Mutant::NoTurn) => {
                let nobodys = NodeName::parse("_c_nobody-lock-0000000000").expect("a sequential name");
                self.ask_for_permits(client, nobodys)
            }
            // A try waits for its turn too, but with a timeout.
            Plan::Permits(..) => Stage::Turn(client.join_part(TURNS, Kind::Exclusive, Intent::Wait)),
        };
    }

    fn order(&self, client: &Client) -> Vec<usize> {
        let Plan::Locks(named) = self.plan else { return Vec::new() };
        let mut order = named.to_vec();
        if client.mutant != Some(Mutant::UnsortedLocks) {
            order.sort_unstable();
        }
        order
    }

    fn intent(&self) -> Intent {
        if self.tries { Intent::Try } else { Intent::Wait }
    }

    fn ask(&self, client: &mut Client, place: usize) -> JoinId {
        let directory = self.order(client)[place];
        client.join_part(directory, Kind::Exclusive, self.intent())
    }

    fn ask_for_permits(&self, client: &mut Client, turn: NodeName) -> Stage {
        let Plan::Permits(count, permits) = self.plan else { unreachable!("it is for permits") };
        let ask = |_| client.join_part(LEASES, Kind::Permit(permits), self.intent());
        Stage::Permits(turn, (0..count).map(ask).collect())
    }

    fn is_woken(&self, client: &Client) -> bool {
        let answered = |join: &JoinId| client.answers.contains_key(join);
        let lost = |node: &NodeName| !client.holds.contains_key(node);
        match &self.stage {
            Stage::Member(join) if client.mutant == Some(Mutant::LaterKept) => answered(join),
            Stage::Member(join) => answered(join) || self.taken.iter().any(lost),
            Stage::Turn(join) => answered(join),
            Stage::Permits(turn, requests) => {
                let needless = matches!(client.mutant, Some(Mutant::NoTurn | Mutant::TurnForgotten));
                received(client, requests).is_some() || (!needless && lost(turn))
            }
            Stage::Held(_) => false,
        }
    }

    /// Runs the attempt's task until it waits again. Returns `true` if the attempt continues.
    fn run(&mut self, client: &mut Client) -> bool {
        while self.is_woken(client) {
            let goes_on = match self.stage.clone() {
                Stage::Member(join) => self.take_member(client, join),
                Stage::Turn(join) => self.take_turn(client, join),
                Stage::Permits(turn, requests) => self.take_permits(client, turn, &requests),
                Stage::Held(_) => true,
            };
            if !goes_on {
                return false;
            }
        }
        true
    }

    /// Models `MultiLock::acquire_once` and the loop around it.
    fn take_member(&mut self, client: &mut Client, join: JoinId) -> bool {
        match client.answers.remove(&join) {
            Some(Answer::Lease(node)) => self.taken.push(node),
            Some(Answer::Refused) => {
                if client.mutant != Some(Mutant::MembersKept) {
                    self.give_back(client);
                }
                return false;
            }
            // The client lost a lock that the attempt had.
            None => {
                client.leave_part(join);
                self.give_back(client);
                return !self.tries && self.again(client);
            }
        }
        match self.next(client) {
            Some(next) => {
                self.stage = Stage::Member(self.ask(client, next));
                true
            }
            None => self.finish(client, None),
        }
    }

    /// Returns the index of the lock to take next.
    fn next(&mut self, client: &Client) -> Option<usize> {
        let order = self.order(client);
        if client.mutant == Some(Mutant::LaterKept) {
            self.taken.retain(|node| client.holds.contains_key(node));
            let has = |at: &usize| self.taken.iter().any(|node| client.holds[node].directory == *at);
            return order.iter().position(|at| !has(at));
        }
        Some(self.taken.len()).filter(|next| *next < order.len())
    }

    /// Models `Semaphore::acquire_all` after the turn is granted.
    fn take_turn(&mut self, client: &mut Client, join: JoinId) -> bool {
        match client.answers.remove(&join) {
            Some(Answer::Lease(turn)) => {
                self.stage = self.ask_for_permits(client, turn);
                true
            }
            _ => false,
        }
    }

    /// Models `Semaphore::request` and the `select!` around it. The `select!` checks first whether
    /// the permits were granted, and then whether the turn (the internal mutex) was lost.
    fn take_permits(&mut self, client: &mut Client, turn: NodeName, requests: &[JoinId]) -> bool {
        match received(client, requests) {
            Some(Some(leases)) => {
                for join in requests {
                    drop(client.answers.remove(join));
                }
                self.taken = leases;
                if self.is_held(client) {
                    return self.finish(client, Some(turn));
                }
                self.give_back(client);
                if self.tries {
                    client.release(turn);
                    return false;
                }
                self.stage = self.ask_for_permits(client, turn);
                true
            }
            outcome => {
                Self::leave_permits(client, requests);
                client.release(turn);
                // The permits were refused, or the turn was lost.
                outcome.is_none() && self.again(client)
            }
        }
    }

    fn leave_permits(client: &mut Client, requests: &[JoinId]) {
        let kept = usize::from(client.mutant == Some(Mutant::PartKept));
        for join in &requests[kept..] {
            client.leave_part(*join);
        }
    }

    fn is_held(&self, client: &Client) -> bool {
        self.taken.iter().all(|node| client.believed().any(|hold| hold.node == *node))
    }

    /// Completes the attempt, unless one of its leases was lost in the meantime.
    fn finish(&mut self, client: &mut Client, turn: Option<NodeName>) -> bool {
        if !self.is_held(client) && client.mutant != Some(Mutant::LossUnchecked) {
            self.give_back(client);
            return !self.tries && self.again(client);
        }
        if client.mutant != Some(Mutant::TurnKept) {
            if let Some(turn) = &turn {
                client.release(turn.clone());
            }
        }
        self.stage = Stage::Held(turn);
        true
    }

    fn again(&mut self, client: &mut Client) -> bool {
        self.reset(client);
        true
    }

    /// Releases the taken leases, the newest first.
    fn give_back(&mut self, client: &mut Client) {
        while let Some(newest) = self.taken.pop() {
            client.release(newest);
        }
    }

    /// Models dropping the future, or releasing all leases.
    fn end(mut self, client: &mut Client) {
        match self.stage.clone() {
            Stage::Member(join) | Stage::Turn(join) => client.leave_part(join),
            Stage::Permits(turn, requests) => {
                Self::leave_permits(client, &requests);
                client.release(turn);
            }
            Stage::Held(_) => {}
        }
        if client.mutant != Some(Mutant::MembersKept) {
            self.give_back(client);
        }
    }

    pub(crate) fn is_held_by_application(&self) -> bool {
        matches!(self.stage, Stage::Held(_))
    }

    /// Returns `true` if the attempt has the lease on this node, or waits for the reply to this
    /// request.
    pub(super) fn keeps(&self, node: &NodeName, join: JoinId) -> bool {
        let has_turn = matches!(&self.stage, Stage::Permits(turn, _) if turn == node);
        has_turn || self.taken.contains(node) || self.awaits(join)
    }

    pub(super) fn awaits(&self, join: JoinId) -> bool {
        match &self.stage {
            Stage::Member(asked) | Stage::Turn(asked) => *asked == join,
            Stage::Permits(_, requests) => requests.contains(&join),
            Stage::Held(_) => false,
        }
    }

    /// Returns the leases of a complete attempt, and the node of its turn (the semaphore's internal
    /// mutex), if any.
    pub(super) fn complete(&self) -> Option<(&[NodeName], Option<&NodeName>)> {
        let Stage::Held(turn) = &self.stage else { return None };
        Some((&self.taken, turn.as_ref()))
    }

    pub(super) fn size(&self) -> usize {
        match self.plan {
            Plan::Locks(named) => named.len(),
            Plan::Permits(count, _) => count as usize,
        }
    }
}

impl Client {
    pub(super) fn join_part(&mut self, directory: usize, kind: Kind, intent: Intent) -> JoinId {
        let join = self.join_at(directory, Naming::Curator, kind, intent);
        self.waiting.entry(join).and_modify(|request| request.part = true);
        join
    }

    fn leave_part(&mut self, join: JoinId) {
        match self.answers.remove(&join) {
            Some(Answer::Lease(node)) => self.release(node),
            Some(Answer::Refused) => {}
            None => self.leave(join),
        }
    }

    pub(crate) fn acquire(&mut self, plan: Plan, tries: bool) {
        let attempt = Attempt::begin(plan, tries, self);
        self.attempts.push(attempt);
    }

    pub(crate) fn is_woken(&self, which: usize) -> bool {
        self.attempts.get(which).is_some_and(|attempt| attempt.is_woken(self))
    }

    /// Runs the task of an attempt. Returns the attempt if it is now complete.
    pub(super) fn run(&mut self, which: usize) -> Option<Attempt> {
        if !self.is_woken(which) {
            return None;
        }
        let mut attempt = self.attempts.remove(which);
        if attempt.run(self) {
            self.attempts.insert(which, attempt.clone());
            return Some(attempt).filter(Attempt::is_held_by_application);
        }
        None
    }

    /// Cancels an attempt, or releases its leases.
    pub(crate) fn end(&mut self, which: usize) {
        if which < self.attempts.len() {
            self.attempts.remove(which).end(self);
        }
    }
}

/// Returns the result of several requests. Replies are awaited in order. The result is `None` while
/// a reply is pending, and `Some(None)` if a request was refused and all earlier ones were granted.
#[allow(clippy::option_option, reason = "awaited, refused and granted")]
fn received(client: &Client, requests: &[JoinId]) -> Option<Option<Vec<NodeName>>> {
    let mut leases = Vec::new();
    for join in requests {
        match client.answers.get(join)? {
            Answer::Lease(node) => leases.push(node.clone()),
            Answer::Refused => return Some(None),
        }
    }
    Some(Some(leases))
}
