//! Explores every order of events in a small world.
//!
//! The search is breadth first, so a counterexample is as short as possible. A 64-bit hash
//! identifies a state. Among a million states, the probability that two have the same hash is one
//! in thirty million. The property tests draw events at random. The explorer instead tries all of
//! them, so each scene has a budget that limits the number of joins, leaves, cuts, losses and so
//! on.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};

use zklock::queue::{Kind, Naming};

use super::attempt::Plan;
use super::client::{Client, FAR_BEYOND, Guard, Notification};
use super::local::{Local, LocalOptions};
use super::mutants::Mutant;
use super::session::Session;
use super::step::Step;
use super::world::World;

const ALL: usize = usize::MAX;

/// The explorer examines one state in `SAMPLE` more closely: it ends all faults and checks that
/// each contender can then acquire and release the lock.
const SAMPLE: u64 = 8;

/// The number of events of each kind that may still happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Budget {
    pub(crate) joins: u8,
    pub(crate) tries: u8,
    /// Number of owners that request the read lock and the write lock of one path at the same time.
    pub(crate) both_halves: u8,
    /// Number of owners of a write lock that also request the read lock.
    pub(crate) own_downgrades: u8,
    /// Number of owners of a write lock that also request the read lock without waiting.
    pub(crate) downgrade_tries: u8,
    pub(crate) leaves: u8,
    /// Number of acquires of several locks or permits.
    pub(crate) acquires: u8,
    /// Number of acquires of several locks or permits that do not wait (tries).
    pub(crate) tries_all: u8,
    /// Number of acquires of several locks or permits that are cancelled while they wait.
    pub(crate) cancels: u8,
    /// Limit for the total of the next nine fields.
    pub(crate) faults: u8,
    pub(crate) cuts: u8,
    /// Number of servers that are cut off from the majority while a client is connected. When the
    /// connection to such a server later breaks, that costs no budget.
    pub(crate) deposals: u8,
    pub(crate) expiries: u8,
    /// Number of pauses after which a client can no longer rely on its session.
    pub(crate) pauses: u8,
    /// Number of sessions that a server replaces with another session. The driver learns of this
    /// immediately.
    pub(crate) replacements: u8,
    /// Number of sessions that a server replaces with another session. The driver learns of this
    /// only later.
    pub(crate) adoptions: u8,
    /// Number of processes that die: clients of this crate and foreign contenders.
    pub(crate) crashes: u8,
    /// Number of requests that the server refuses because it is too busy.
    pub(crate) throttles: u8,
    /// Number of lost requests whose loss the driver reports to the queue with a delay.
    pub(crate) put_offs: u8,
    /// Number of watch events that do not arrive.
    pub(crate) misses: u8,
    /// Number of extra listings that a waiter sends without a reason.
    pub(crate) looks: u8,
    /// Number of time steps. In scenes with time steps, the crate's own code computes for how long
    /// a session is certain to exist. The server ends a session that sends no message for the
    /// session timeout.
    pub(crate) ticks: u8,
    /// Number of holds that last so long that the client watches their nodes.
    pub(crate) guards: u8,
    /// Number of kept nodes whose keeping time ends.
    pub(crate) keepings: u8,
    /// Number of owners that are asked to give up the lock.
    pub(crate) revocations: u8,
    /// Number of foreign contenders that join the queue.
    pub(crate) enters: u8,
    /// Number of steps of downgrades by foreign contenders. Each downgrade takes two steps.
    pub(crate) downgrades: u8,
    pub(crate) deletions: u8,
    pub(crate) changes: u8,
    pub(crate) reaps: u8,
}

pub(crate) const NOTHING: Budget = Budget {
    joins: 0,
    tries: 0,
    both_halves: 0,
    own_downgrades: 0,
    downgrade_tries: 0,
    leaves: 0,
    acquires: 0,
    tries_all: 0,
    cancels: 0,
    faults: u8::MAX,
    cuts: 0,
    deposals: 0,
    expiries: 0,
    pauses: 0,
    replacements: 0,
    adoptions: 0,
    crashes: 0,
    throttles: 0,
    put_offs: 0,
    misses: 0,
    looks: 0,
    ticks: 0,
    guards: 0,
    keepings: 0,
    revocations: 0,
    enters: 0,
    downgrades: 0,
    deletions: 0,
    changes: 0,
    reaps: 0,
};

impl Budget {
    /// Returns the number of events of each kind, with the name of the kind. `faults` is not
    /// included, because it limits the total of several kinds.
    fn items(&self) -> [(&'static str, u8); 29] {
        [
            ("joins", self.joins),
            ("tries", self.tries),
            ("both_halves", self.both_halves),
            ("own_downgrades", self.own_downgrades),
            ("downgrade_tries", self.downgrade_tries),
            ("leaves", self.leaves),
            ("acquires", self.acquires),
            ("tries_all", self.tries_all),
            ("cancels", self.cancels),
            ("cuts", self.cuts),
            ("deposals", self.deposals),
            ("expiries", self.expiries),
            ("pauses", self.pauses),
            ("replacements", self.replacements),
            ("adoptions", self.adoptions),
            ("crashes", self.crashes),
            ("throttles", self.throttles),
            ("put_offs", self.put_offs),
            ("misses", self.misses),
            ("looks", self.looks),
            ("ticks", self.ticks),
            ("guards", self.guards),
            ("keepings", self.keepings),
            ("revocations", self.revocations),
            ("enters", self.enters),
            ("downgrades", self.downgrades),
            ("deletions", self.deletions),
            ("changes", self.changes),
            ("reaps", self.reaps),
        ]
    }
}

/// The granularity of the network's steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Grain {
    /// Serving a request and reading the reply are separate steps.
    Fine,
    /// One step serves a request and reads its reply, unless the connection breaks in between.
    /// Watch events still arrive in a separate step.
    Coarse,
}

/// A small world and its budget.
#[derive(Clone, Copy)]
pub(crate) struct Scene {
    pub(crate) clients: u64,
    /// `true` if clients may join only in the order of their numbers. The clients differ only in
    /// their numbers, so another order would repeat the same history with other numbers.
    pub(crate) interchangeable: bool,
    pub(crate) foreign: u64,
    pub(crate) directory: bool,
    pub(crate) next_sequence: u32,
    /// Number of foreign contenders that wait for the lock or hold it from the beginning, in the
    /// order of their numbers. They take no steps. Only an operator removes their nodes, in any
    /// order.
    pub(crate) queued: usize,
    pub(crate) naming: Naming,
    /// The lock kinds that our contenders may request.
    pub(crate) kinds: &'static [Kind],
    /// The plans of our clients' acquires of several locks or permits.
    pub(crate) plans: &'static [Plan],
    /// Number of lock directories. Foreign contenders use only the first.
    pub(crate) directories: usize,
    /// The lock kinds that foreign contenders may request.
    pub(crate) foreign_kinds: &'static [Kind],
    pub(crate) grain: Grain,
    /// A contender is far from the front (rule 10) if more than this many contenders are ahead of
    /// it.
    pub(crate) far_beyond: u8,
    /// The hand-off and keeping options of our locks.
    pub(crate) local: LocalOptions,
    /// The bug planted in the clients' queues.
    pub(crate) mutant: Option<Mutant>,
    pub(crate) budget: Budget,
}

pub(crate) const MUTEX: &[Kind] = &[Kind::Exclusive];
pub(crate) const READ_WRITE: &[Kind] = &[Kind::Read, Kind::Write];

impl Scene {
    /// Creates a scene in which clients of this crate want a mutex, and contenders of other
    /// libraries want an exclusive lock in the same directory.
    pub(crate) const fn new(clients: u64, foreign: u64, budget: Budget) -> Self {
        Self {
            clients,
            interchangeable: false,
            foreign,
            directory: true,
            next_sequence: 0,
            queued: 0,
            naming: Naming::Curator,
            kinds: MUTEX,
            plans: &[],
            directories: 1,
            foreign_kinds: &[Kind::Exclusive, Kind::Write],
            grain: Grain::Fine,
            far_beyond: FAR_BEYOND,
            local: LocalOptions { cohort: 0, linger: false },
            mutant: None,
            budget,
        }
    }

    pub(crate) const fn read_write(clients: u64, foreign: u64, budget: Budget) -> Self {
        Self { kinds: READ_WRITE, foreign_kinds: READ_WRITE, ..Self::new(clients, foreign, budget) }
    }

    /// Creates a scene in which clients want several locks together, or several permits of a
    /// semaphore. A client acquires the semaphore's internal mutex (its *turn*) before the permits.
    pub(crate) const fn several(
        clients: u64,
        directories: usize,
        plans: &'static [Plan],
        budget: Budget,
    ) -> Self {
        Self { plans, directories, kinds: &[], grain: Grain::Coarse, ..Self::new(clients, 0, budget) }
    }

    fn first(&self) -> State {
        let mut world = World::of(self.directories, self.clients, self.foreign, self.directory);
        world.server.directories[0].next_sequence = self.next_sequence;
        for client in &mut world.clients {
            client.mutant = self.mutant;
            client.far_beyond = self.far_beyond;
            let shares = self.local != LocalOptions::default();
            client.local = shares.then(|| Box::new(Local::new(self.local)));
        }
        if self.budget.ticks > 0 {
            world.start_clock(self.mutant);
        }
        for number in 0..self.queued {
            for step in [Step::Enter(number, Kind::Exclusive), Step::Look(number)] {
                world.step(step).expect("the queued contenders are alone");
            }
        }
        State { world, budget: self.budget }
    }

    /// Visits every reachable state.
    pub(crate) fn explore(&self) -> Result<Explored, Counterexample> {
        let first = self.first();
        let mut least = self.budget.items();
        let mut grants = 0;
        // For each state, its predecessor and the index of the move that led to it.
        let mut parents: HashMap<u64, (u64, u32)> = HashMap::from([(first.fingerprint(), (0, 0))]);
        let mut queue = VecDeque::from([first]);
        while let Some(state) = queue.pop_front() {
            let from = state.fingerprint();
            let moves = state.moves(self);
            if from % SAMPLE == 0 || moves.is_empty() {
                let end = state.world.clone().finish();
                end.map_err(|problem| self.counterexample(problem, &parents, from, Vec::new()))?;
            }
            for (number, (steps, left)) in (0..).zip(moves) {
                match state.apply(&steps, left) {
                    Ok((next, granted)) => {
                        grants += granted;
                        for ((_, least), (_, left)) in least.iter_mut().zip(next.budget.items()) {
                            *least = left.min(*least);
                        }
                        if let Entry::Vacant(entry) = parents.entry(next.fingerprint()) {
                            entry.insert((from, number));
                            queue.push_back(next);
                        }
                    }
                    Err(problem) => return Err(self.counterexample(problem, &parents, from, steps)),
                }
            }
        }
        let unspent = least.into_iter().filter(|(_, left)| *left > 0).map(|(item, _)| item).collect();
        Ok(Explored { states: parents.len(), grants, unspent })
    }

    /// Builds the counterexample for a state: the moves that lead to it, and the wrong move. If the
    /// final check of the state failed, there is no wrong move.
    fn counterexample(
        &self,
        problem: String,
        parents: &HashMap<u64, (u64, u32)>,
        mut to: u64,
        last: Vec<Step>,
    ) -> Counterexample {
        let mut state = self.first();
        let mut numbers = Vec::new();
        while to != state.fingerprint() {
            let (from, number) = parents[&to];
            numbers.push(number as usize);
            to = from;
        }
        let follow = |number: usize| {
            let (steps, left) = state.moves(self).swap_remove(number);
            (state, _) = state.apply(&steps, left).expect("it was done before");
            steps
        };
        let mut moves: Vec<_> = numbers.into_iter().rev().map(follow).collect();
        moves.extend(Some(last).filter(|last| !last.is_empty()));
        Counterexample { problem, moves, seen: parents.len() }
    }
}

/// The result of a scene without an error.
#[derive(Debug)]
pub(crate) struct Explored {
    pub(crate) states: usize,
    pub(crate) grants: usize,
    /// The events that never happened as often as the budget allows.
    pub(crate) unspent: Vec<&'static str>,
}

/// A shortest sequence of moves that violates a rule.
pub(crate) struct Counterexample {
    pub(crate) problem: String,
    pub(crate) moves: Vec<Vec<Step>>,
    /// Number of states seen before the violation.
    pub(crate) seen: usize,
}

impl fmt::Debug for Counterexample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { problem, moves, seen } = self;
        write!(f, "{problem}, after {moves:#?}, the first of {seen} states")
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    world: World,
    budget: Budget,
}

/// A move, and the budget that is left after it. The explorer executes the steps of a move
/// together, because another step between them would make no difference.
type Move = (Vec<Step>, Budget);

impl State {
    fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        hasher.finish()
    }

    fn moves(&self, scene: &Scene) -> Vec<Move> {
        let mut moves = Vec::new();
        for (number, client) in self.world.clients.iter().enumerate() {
            self.add_lock_requests(scene, number, client, &mut moves);
            self.add_attempts(scene, number, client, &mut moves);
            if let Some(session) = &client.session {
                self.add_traffic(scene, number, session, &mut moves);
                self.add_faults(scene, number, client, session, &mut moves);
            } else {
                moves.push((vec![Step::Establish(number), Step::Drive(number, ALL)], self.budget));
            }
            self.add_time(number, client, &mut moves);
        }
        for number in 0..self.world.foreign.len() {
            self.add_foreign(scene, number, &mut moves);
        }
        self.add_operator(&mut moves);
        if self.budget.ticks > 0 {
            moves.push((vec![Step::Tick], Budget { ticks: self.budget.ticks - 1, ..self.budget }));
        }
        moves
    }

    fn add_lock_requests(&self, scene: &Scene, number: usize, client: &Client, moves: &mut Vec<Move>) {
        let (budget, naming) = (self.budget, scene.naming);
        let mut add = |step: Step, left: Budget| moves.push((vec![step, Step::Drive(number, ALL)], left));
        let is_next = || self.world.clients[..number].iter().all(|client| client.has_joined());
        for kind in scene.kinds {
            if budget.joins > 0 && (!scene.interchangeable || is_next()) {
                let left = Budget { joins: budget.joins - 1, ..budget };
                add(Step::Join(number, naming, *kind), left);
            }
            if budget.tries > 0 {
                let left = Budget { tries: budget.tries - 1, ..budget };
                add(Step::Try(number, naming, *kind), left);
            }
        }
        if budget.both_halves > 0 {
            add(Step::JoinBoth(number, naming), Budget { both_halves: budget.both_halves - 1, ..budget });
        }
        for which in 0..client.separate_locks().len() {
            add(Step::Release(number, which), budget);
        }
        for (which, hold) in client.holds.values().enumerate() {
            if budget.own_downgrades > 0 && hold.kind == Kind::Write {
                let left = Budget { own_downgrades: budget.own_downgrades - 1, ..budget };
                add(Step::RequestReadLock(number, naming, which), left);
            }
            if budget.downgrade_tries > 0 && hold.kind == Kind::Write {
                let left = Budget { downgrade_tries: budget.downgrade_tries - 1, ..budget };
                add(Step::TryReadLock(number, naming, which), left);
            }
        }
        if budget.leaves > 0 {
            for which in 0..client.waiting.len() {
                add(Step::Leave(number, which), Budget { leaves: budget.leaves - 1, ..budget });
            }
        }
    }

    fn add_attempts(&self, scene: &Scene, number: usize, client: &Client, moves: &mut Vec<Move>) {
        let budget = self.budget;
        let mut add = |step: Step, left: Budget| moves.push((vec![step, Step::Drive(number, ALL)], left));
        for plan in scene.plans {
            if budget.acquires > 0 {
                let left = Budget { acquires: budget.acquires - 1, ..budget };
                add(Step::Acquire(number, *plan, false), left);
            }
            if budget.tries_all > 0 {
                let left = Budget { tries_all: budget.tries_all - 1, ..budget };
                add(Step::Acquire(number, *plan, true), left);
            }
        }
        for (which, attempt) in client.attempts.iter().enumerate() {
            if client.is_woken(which) {
                add(Step::Run(number, which), budget);
            }
            if attempt.is_held_by_application() {
                add(Step::End(number, which), budget);
            } else if budget.cancels > 0 {
                add(Step::End(number, which), Budget { cancels: budget.cancels - 1, ..budget });
            }
        }
    }

    /// Adds the moves of the network and the servers.
    fn add_traffic(&self, scene: &Scene, number: usize, session: &Session, moves: &mut Vec<Move>) {
        let drive = Step::Drive(number, ALL);
        let (flush, receive) = (Step::Flush(number, 1), [Step::ReceiveAll(number), drive]);
        let requests = session.has_unserved() || (session.is_up() && session.has_unwritten());
        let mut handle = |step: Step, left: Budget| {
            let mut steps = Vec::new();
            if scene.grain == Grain::Coarse || !session.has_unserved() {
                steps.push(flush);
            }
            steps.push(step);
            if scene.grain == Grain::Coarse {
                steps.extend(receive);
            }
            moves.push((steps, left));
        };
        if requests {
            handle(Step::Serve(number), self.budget);
        }
        if self.budget.throttles > 0 && session.may_throttle() {
            let left = Budget { throttles: self.budget.throttles - 1, ..self.budget };
            handle(Step::Throttle(number), left);
        }
        let mut add = |steps: &[Step]| moves.push((steps.to_vec(), self.budget));
        if session.lags(&self.world.server) {
            add(&[Step::Advance(number)]);
        }
        if session.has_unread() {
            add(&[Step::Receive(number), drive]);
        }
        if session.has_ghosts() {
            add(&[Step::ServeGhost(number)]);
        }
    }

    /// Adds the moves that only take time.
    fn add_time(&self, number: usize, client: &Client, moves: &mut Vec<Move>) {
        let (budget, drive) = (self.budget, Step::Drive(number, ALL));
        let mut add = |steps: &[Step], left: Budget| moves.push((steps.to_vec(), left));
        if self.world.server.clock.is_some() && client.has_news() {
            add(&[drive], budget);
        }
        if client.session.as_ref().is_some_and(|session| self.world.server.may_expire(session.id)) {
            add(&[Step::Expire(number)], budget);
        }
        if client.is_pausing() {
            add(&[Step::EndPause(number), drive], budget);
        }
        if client.remains.as_ref().is_some_and(Session::has_ghosts) {
            add(&[Step::ServeGhost(number)], budget);
        }
        if !client.old_sessions.is_empty() {
            add(&[Step::ExpireOldSessions(number)], budget);
        }
        if budget.looks > 0 && !client.queues.is_empty() {
            add(&[Step::LookAgain(number), drive], Budget { looks: budget.looks - 1, ..budget });
        }
        if budget.keepings > 0 {
            for which in 0..client.lingering().len() {
                let left = Budget { keepings: budget.keepings - 1, ..budget };
                add(&[Step::EndKeeping(number, which), drive], left);
            }
        }
        if budget.revocations > 0 && client.local.is_some() {
            for which in 0..client.shared_nodes().len() {
                let left = Budget { revocations: budget.revocations - 1, ..budget };
                add(&[Step::Revoke(number, which), drive], left);
            }
        }
        for (which, hold) in client.holds.values().enumerate() {
            if budget.guards > 0 && hold.guard == Guard::None {
                let left = Budget { guards: budget.guards - 1, ..budget };
                add(&[Step::WatchHold(number, which), drive], left);
            }
        }
    }

    /// Adds the faults and their consequences.
    fn add_faults(
        &self,
        scene: &Scene,
        number: usize,
        client: &Client,
        session: &Session,
        moves: &mut Vec<Move>,
    ) {
        let (budget, up, drive) = (self.budget, session.is_up(), Step::Drive(number, ALL));
        let mut add = |steps: &[Step], left: Budget| moves.push((steps.to_vec(), left));
        if !up && client.needs_session() {
            add(&[Step::Establish(number), drive], budget);
        } else if !up {
            for lag in [0, 1, 2] {
                add(&[Step::Reconnect(number, lag), drive], budget);
            }
        }
        let fewer = Budget { faults: budget.faults.saturating_sub(1), ..budget };
        // A cut of the connection to a deposed server costs no budget, because such a server steps
        // down sooner or later and closes the connection.
        let cut = if session.is_deposed() {
            Some(budget)
        } else {
            let may = budget.faults > 0 && budget.cuts > 0;
            may.then(|| Budget { cuts: budget.cuts - 1, ..fewer })
        };
        // A flush or receipt of messages is in the same move as the cut, because these steps make a
        // difference only together.
        if let Some(left) = cut.filter(|_| up) {
            add(&[Step::Cut(number), drive], left);
            if left.put_offs > 0 {
                let left = Budget { put_offs: left.put_offs - 1, ..left };
                add(&[Step::Cut(number), Step::PutOff(number), drive], left);
            }
            // The application acts before the driver notices the cut.
            if client.local.is_some() {
                for which in 0..client.separate_locks().len() {
                    add(&[Step::Cut(number), Step::Release(number, which), drive], left);
                }
                for kind in scene.kinds.iter().filter(|_| left.joins > 0) {
                    let left = Budget { joins: left.joins - 1, ..left };
                    add(&[Step::Cut(number), Step::Join(number, scene.naming, *kind), drive], left);
                }
            }
            if session.has_unread() {
                add(&[Step::Receive(number), Step::Cut(number), drive], left);
            }
            if session.has_unwritten() {
                add(&[Step::Flush(number, ALL), Step::Cut(number), drive], left);
                if left.put_offs > 0 {
                    let left = Budget { put_offs: left.put_offs - 1, ..left };
                    add(&[Step::Flush(number, ALL), Step::Cut(number), Step::PutOff(number), drive], left);
                }
                add(&[Step::Flush(number, 1), Step::Cut(number), drive], left);
            }
        }
        if budget.faults == 0 {
            return;
        }
        let budget = fewer;
        if up && budget.deposals > 0 && !session.is_deposed() {
            add(&[Step::Depose(number)], Budget { deposals: budget.deposals - 1, ..budget });
        }
        if budget.pauses > 0 && session.term_runs() {
            let left = Budget { pauses: budget.pauses - 1, ..budget };
            add(&[Step::EndTerm(number)], left);
            add(&[Step::EndTerm(number), drive], left);
        }
        if budget.replacements > 0 && !up && !client.needs_session() {
            let left = Budget { replacements: budget.replacements - 1, ..budget };
            add(&[Step::Replace(number), drive], left);
        }
        if budget.adoptions > 0 && !up && !client.needs_session() && !session.is_replaced() {
            let left = Budget { adoptions: budget.adoptions - 1, ..budget };
            for lag in [0, 1, 2] {
                add(&[Step::Adopt(number, lag), drive], left);
            }
        }
        if budget.crashes > 0 && !client.needs_session() && !client.queues.is_empty() {
            add(&[Step::Kill(number)], Budget { crashes: budget.crashes - 1, ..budget });
        }
        if budget.misses > 0 && session.has_event() {
            add(&[Step::Miss(number)], Budget { misses: budget.misses - 1, ..budget });
        }
        if budget.expiries > 0 {
            let left = Budget { expiries: budget.expiries - 1, ..budget };
            add(&[Step::Expire(number)], left);
            if !up && !client.needs_session() {
                add(&[Step::GiveUp(number), drive], left);
            }
        }
    }

    fn add_foreign(&self, scene: &Scene, number: usize, moves: &mut Vec<Move>) {
        if number < scene.queued {
            return;
        }
        let (budget, foreign) = (self.budget, &self.world.foreign[number]);
        let mut add = |step: Step, left: Budget| moves.push((vec![step], left));
        if budget.enters > 0 && foreign.is_away() {
            for kind in scene.foreign_kinds {
                add(Step::Enter(number, *kind), Budget { enters: budget.enters - 1, ..budget });
            }
        }
        if budget.crashes > 0 && !foreign.is_away() {
            add(Step::Crash(number), Budget { crashes: budget.crashes - 1, ..budget });
        }
        if foreign.is_dead() {
            add(Step::ExpireForeign(number), budget);
        }
        if foreign.is_queued() {
            add(Step::Look(number), budget);
        }
        if let Some(node) = foreign.held() {
            add(Step::Exit(number), budget);
            if budget.downgrades > 0 && node.kind() == Kind::Write {
                add(Step::Downgrade(number), Budget { downgrades: budget.downgrades - 1, ..budget });
            }
        }
    }

    /// Adds the moves of an operator and of the server's reaper.
    fn add_operator(&self, moves: &mut Vec<Move>) {
        let (budget, server) = (self.budget, &self.world.server);
        let mut add = |step: Step, left: Budget| moves.push((vec![step], left));
        let children = server.all_children().len();
        for which in 0..children {
            if budget.deletions > 0 {
                add(Step::Delete(which), Budget { deletions: budget.deletions - 1, ..budget });
            }
            if budget.changes > 0 {
                add(Step::Change(which), Budget { changes: budget.changes - 1, ..budget });
            }
        }
        if budget.reaps > 0 && children == 0 {
            add(Step::Reap, Budget { reaps: budget.reaps - 1, ..budget });
        }
    }

    /// Returns the state after some steps, and the number of contenders that were granted the lock.
    fn apply(&self, steps: &[Step], budget: Budget) -> Result<(Self, usize), String> {
        let mut world = self.world.clone();
        let mut grants = 0;
        for step in steps {
            let told = world.step(*step)?;
            grants += told.iter().filter(|(_, told)| matches!(told, Notification::Granted(_))).count();
        }
        world.forget_costs();
        Ok((Self { world, budget }, grants))
    }
}
