//! Progress cases in which a lease is lost. Every listener must be notified soon after the cause of
//! the loss.

use std::cell::RefCell;
use std::future::pending;
use std::rc::Rc;
use std::time::Duration;

use zklock::{ErrorKind, Lease, LeaseState, LossReason, Mutex, simulation};

use super::locks::{KINDS, Kind, Request};
use super::stage::{BLOCKER, CaseResult, OTHER, SLACK, Stage, pause};
use crate::chance::Chance;
use crate::clock;

/// The cause of a loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    /// Packets from servers no longer arrive.
    Silence,
    /// All servers refuse connections.
    Refused,
    /// Another client deletes the holder's node, long after the grant.
    Broken,
    /// Another client deletes the holder's node, right after the grant.
    BrokenYoung,
    /// An operator ends the holder's session.
    SessionEnded,
    HeldTooLong,
    ClientClosed,
    /// The holder's process is stopped for longer than the term of its lease, and then continues.
    Stopped,
}

const CAUSES: [Cause; 8] = [
    Cause::Silence,
    Cause::Refused,
    Cause::Broken,
    Cause::BrokenYoung,
    Cause::SessionEnded,
    Cause::HeldTooLong,
    Cause::ClientClosed,
    Cause::Stopped,
];

/// Another lock, which is held in a scope.
const SCOPED: &str = "/progress-scoped";

/// Duration in milliseconds after which a client begins to watch the node of its hold.
const LONG_HOLD: u64 = 200;

/// A case.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    cause: Cause,
    kind: Kind,
    /// Additional delay after two session timeouts, in milliseconds.
    later: u64,
}

/// The listeners that were notified, and when.
type Notified = Rc<RefCell<Vec<(&'static str, u64)>>>;

impl Case {
    pub fn of(turn: u64, chance: &mut Chance) -> Self {
        let turn = usize::try_from(turn).unwrap_or(0);
        let cause = CAUSES[turn % CAUSES.len()];
        let kind = KINDS[turn / CAUSES.len() % KINDS.len()];
        let kind = if cause == Cause::HeldTooLong && kind == Kind::Leader { Kind::Mutex } else { kind };
        Self { cause, kind, later: chance.number(0..=2000) }
    }

    pub async fn run(self, stage: &Rc<Stage>) -> CaseResult {
        let most = 2 * stage.setting.timeout + self.later;
        let limit = (self.cause == Cause::HeldTooLong).then(|| Duration::from_millis(most));
        let request = Request { limit, ..Request::new(self.kind, false, BLOCKER) };
        let told = Notified::default();
        self.enter_scope(stage, limit, &told).await?;
        let leases = simulation::of_client(BLOCKER, request.take(stage)).await;
        let leases: Vec<Rc<Lease>> =
            leases.map_err(|error| error.to_string())?.into_iter().map(Rc::new).collect();
        let began = clock::now();
        for lease in &leases {
            Self::listen(lease, &told);
        }
        let young = matches!(self.cause, Cause::BrokenYoung);
        if !young {
            pause(if limit.is_some() { 0 } else { most }).await;
        }
        let nodes: Vec<_> = leases.iter().map(|lease| lease.node()).collect();
        let cause = self.happen(stage, &nodes, began + most).await?;
        // The scope counts as a listener. Its end is the notification.
        let listeners = 1 + 2 * leases.len();
        let all = || told.borrow().len() >= listeners;
        Stage::until("everybody is told", 3 * stage.setting.timeout, all).await?;
        let earliest = leases.iter().map(|lease| milliseconds(lease.remaining())).max().unwrap_or(0);
        if earliest > 0 || leases.iter().any(|lease| !matches!(lease.state(), LeaseState::Lost(_))) {
            return Err("a lease is told to be lost, and is not".to_owned());
        }
        let bound = self.bound(stage) + SLACK;
        for (who, at) in told.borrow().iter() {
            let promise = format!("told of a loss, {:?}, {who}", self.cause);
            stage.judge(&promise, at.saturating_sub(cause), bound);
        }
        Ok(())
    }

    /// Holds another lock in a scope that ends with its loss.
    async fn enter_scope(self, stage: &Stage, limit: Option<Duration>, told: &Notified) -> CaseResult {
        let options = zklock::LockOptions::default();
        let options = limit.map_or(options.clone(), |limit| options.max_hold(limit));
        let lock = Mutex::with_options(stage.client(BLOCKER), SCOPED, options);
        let lock = lock.map_err(|error| error.to_string())?;
        let (told, entered) = (Rc::clone(told), Rc::new(RefCell::new(false)));
        let inside = Rc::clone(&entered);
        drop(Stage::spawn(BLOCKER, async move {
            let end = lock
                .hold(|_| {
                    *inside.borrow_mut() = true;
                    pending::<()>()
                })
                .await;
            if end.is_err_and(|error| error.kind() == ErrorKind::LockLost) {
                told.borrow_mut().push(("by the end of a scope", clock::now()));
            }
        }));
        Stage::until("the scope is entered", stage.setting.timeout, || *entered.borrow()).await.map(drop)
    }

    fn listen(lease: &Rc<Lease>, told: &Notified) {
        let (lost, ended) = (lease.lost(), lease.ended());
        let (first, second) = (Rc::clone(told), Rc::clone(told));
        drop(Stage::spawn(BLOCKER, async move {
            let reason: LossReason = lost.await;
            first.borrow_mut().push(("by the loss", clock::now()));
            reason
        }));
        drop(Stage::spawn(BLOCKER, async move {
            if ended.await.is_some() {
                second.borrow_mut().push(("by the end", clock::now()));
            }
        }));
    }

    /// Causes the loss. Returns the earliest time at which the client can notice it.
    async fn happen(self, stage: &Stage, nodes: &[String], limit: u64) -> Result<u64, String> {
        let client = stage.client(BLOCKER);
        stage.note(&format!("a lease is to be lost: {:?}", self.cause));
        match self.cause {
            Cause::Silence => stage.silence(BLOCKER),
            Cause::Refused => stage.refuse(BLOCKER, true),
            Cause::Broken | Cause::BrokenYoung => {
                let scoped = stage.names(SCOPED).into_iter().map(|name| format!("{SCOPED}/{name}"));
                let all: Vec<_> = nodes.iter().cloned().chain(scoped).collect();
                for node in &all {
                    let broken = stage.client(OTHER).break_lock(node).await;
                    broken.map_err(|error| error.to_string())?;
                }
            }
            Cause::SessionEnded => {
                stage.ensemble.borrow_mut().expire(client.session_id());
                let gone = || nodes.iter().all(|node| !stage.exists(node));
                Stage::until("the session ends", stage.setting.timeout, gone).await?;
            }
            Cause::ClientClosed => drop(Stage::spawn(BLOCKER, client.close())),
            Cause::Stopped => {
                stage.stopped.stop(BLOCKER);
                pause(stage.setting.timeout * 2 / 3).await;
                stage.stopped.go_on(BLOCKER);
            }
            Cause::HeldTooLong => return Ok(limit),
        }
        Ok(clock::now())
    }

    fn bound(self, stage: &Stage) -> u64 {
        let timeout = stage.setting.timeout;
        match self.cause {
            // No term is longer than half of the timeout.
            Cause::Silence | Cause::Refused => timeout / 2,
            // The watch fires, and the client reads the node.
            Cause::Broken => stage.told() + stage.read(),
            // The client sets a watch on the node only when the hold has lasted for `LONG_HOLD`. It
            // can learn of the loss earlier, from a heartbeat.
            Cause::BrokenYoung => LONG_HOLD + stage.told() + 2 * stage.read() + stage.write(),
            // The client's server closes the connection. The client reconnects, and the next server
            // replies that the session has ended.
            Cause::SessionEnded => stage.told() + 3 * stage.read(),
            // The client notices these causes without a reply.
            Cause::HeldTooLong | Cause::ClientClosed | Cause::Stopped => 0,
        }
    }
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
