//! Progress cases in which a waiter must be granted a lock soon after its blocker (the holder that
//! it waits for) is gone. The cases differ in the way in which the blocker stops blocking, and in
//! the events before that.

use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::timeout;
use zklock::{Error, Lease, Timeout, simulation};

use super::locks::{KINDS, Kind, Request};
use super::stage::{BLOCKER, CaseResult, OTHER, PATIENCE, SLACK, Stage, WAITER, pause};
use crate::chance::Chance;
use crate::clock;

/// The way in which a blocker stops blocking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BlockerExit {
    Released,
    ReleasedInBackground,
    Dropped,
    HeldTooLong,
    /// Another client breaks the lock.
    Broken,
    ClientClosed,
    ClientDrained,
    /// An operator ends the blocker's session.
    SessionEnded,
    /// The blocker's process is stopped until its session has expired.
    SessionExpired,
    /// A writer that waits ahead of the reader times out.
    WaiterTimesOut,
    /// A writer that waits ahead of the reader is canceled.
    WaiterCancelled,
    /// A writer downgrades to the read lock.
    Downgraded,
}

const BLOCKER_EXITS: [BlockerExit; 12] = [
    BlockerExit::Released,
    BlockerExit::ReleasedInBackground,
    BlockerExit::Dropped,
    BlockerExit::HeldTooLong,
    BlockerExit::Broken,
    BlockerExit::ClientClosed,
    BlockerExit::ClientDrained,
    BlockerExit::SessionEnded,
    BlockerExit::SessionExpired,
    BlockerExit::WaiterTimesOut,
    BlockerExit::WaiterCancelled,
    BlockerExit::Downgraded,
];

/// The waiter's history before its blocker stops blocking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WaiterHistory {
    Nothing,
    /// The waiter has waited so long that it rarely polls the queue.
    LongWait,
    /// The waiter has reconnected.
    Reconnected,
    /// The waiter reconnects while the blocker stops blocking.
    Reconnecting,
}

const HISTORIES: [WaiterHistory; 4] = [
    WaiterHistory::Nothing,
    WaiterHistory::LongWait,
    WaiterHistory::Reconnected,
    WaiterHistory::Reconnecting,
];

/// Duration of a long wait, in milliseconds. A waiter far from the head of the queue lists the
/// queue once a minute.
const LONG: u64 = 150_000;

/// A case.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    kind: Kind,
    going: BlockerExit,
    before: WaiterHistory,
    /// True if blocker and waiter use the same client.
    shared: bool,
}

type Waiting = JoinHandle<(Result<Vec<Lease>, Error>, u64)>;

impl Case {
    pub fn of(turn: u64, chance: &mut Chance) -> Self {
        let turn = usize::try_from(turn).unwrap_or(0);
        let going = BLOCKER_EXITS[turn % BLOCKER_EXITS.len()];
        let kind = match going {
            BlockerExit::WaiterTimesOut | BlockerExit::WaiterCancelled | BlockerExit::Downgraded => {
                Kind::ReadBehindWrite
            }
            // A leader has no hold limit.
            BlockerExit::HeldTooLong => KINDS[turn / BLOCKER_EXITS.len() % KINDS.len()].limited(),
            _ => KINDS[turn / BLOCKER_EXITS.len() % KINDS.len()],
        };
        let before = chance.pick(&HISTORIES);
        let of_client = matches!(
            going,
            BlockerExit::ClientClosed
                | BlockerExit::ClientDrained
                | BlockerExit::SessionEnded
                | BlockerExit::SessionExpired
        );
        let shared = !of_client && before != WaiterHistory::Reconnecting && chance.percent(30);
        Self { kind, going, before, shared }
    }

    pub fn duration(self) -> u64 {
        if self.before == WaiterHistory::LongWait { LONG } else { 0 }
    }

    pub async fn run(self, stage: &std::rc::Rc<Stage>) -> CaseResult {
        let waiter = if self.shared { BLOCKER } else { WAITER };
        let mut blocking = Request::new(self.kind, true, BLOCKER);
        let hold = stage.setting.timeout * 3 / 2 + self.duration();
        if self.going == BlockerExit::HeldTooLong {
            blocking.limit = Some(Duration::from_millis(hold + stage.setting.timeout));
        }
        let front = matches!(self.going, BlockerExit::WaiterTimesOut | BlockerExit::WaiterCancelled);
        if front {
            // In this case, the waiter's blocker is a writer that waits for this reader.
            let reading = Request::new(Kind::WriteBehindRead, true, OTHER);
            let read_hold = simulation::of_client(OTHER, reading.take(stage)).await;
            let read_hold = read_hold.map_err(|error| error.to_string())?;
            let wanted = Request {
                timeout: Timeout::For(Duration::from_millis(hold + stage.setting.timeout)),
                ..Request::new(Kind::WriteBehindRead, false, BLOCKER)
            };
            let writer = Stage::spawn(BLOCKER, wanted.take(stage));
            self.queued(stage, 2).await?;
            let nodes = vec![self.youngest(stage)];
            let waiting = self.wait(stage, waiter);
            self.queued(stage, 3).await?;
            self.prepare(stage, waiter, hold).await;
            if self.going == BlockerExit::WaiterCancelled {
                writer.abort();
            }
            let end = self.expect(stage, &nodes, waiting).await;
            drop(read_hold);
            return end;
        }
        let taken = simulation::of_client(BLOCKER, blocking.clone().take(stage)).await;
        let leases = taken.map_err(|error| error.to_string())?;
        let nodes: Vec<_> = leases.iter().map(Lease::node).collect();
        let before = stage.names(self.kind.directory()).len();
        let waiting = self.wait(stage, waiter);
        self.queued(stage, before + 1).await?;
        self.prepare(stage, waiter, hold).await;
        let kept = self.go(stage, blocking, leases).await?;
        let end = self.expect(stage, &nodes, waiting).await;
        drop(kept);
        stage.stopped.go_on(BLOCKER);
        end
    }

    /// Starts the waiter.
    fn wait(self, stage: &std::rc::Rc<Stage>, client: usize) -> Waiting {
        let taking = Request::new(self.kind, false, client).take(stage);
        Stage::spawn(client, async move { (taking.await, clock::now()) })
    }

    async fn queued(self, stage: &Stage, count: usize) -> Result<u64, String> {
        let directory = self.kind.directory();
        Stage::until("all are queued", stage.setting.timeout, || stage.names(directory).len() >= count).await
    }

    fn youngest(self, stage: &Stage) -> String {
        let directory = self.kind.directory();
        let names = stage.names(directory);
        let youngest = names.iter().max_by_key(|name| name[name.len().saturating_sub(10)..].to_owned());
        format!("{directory}/{}", youngest.map_or("", String::as_str))
    }

    /// Performs the events of the waiter's history.
    async fn prepare(self, stage: &Stage, waiter: usize, hold: u64) {
        if self.before == WaiterHistory::Reconnected {
            pause(stage.setting.timeout / 3).await;
            stage.cut(waiter);
        }
        pause(hold).await;
        if self.before == WaiterHistory::Reconnecting {
            stage.cut(waiter);
        }
    }

    /// Makes the blocker stop blocking the waiter. The returned leases must be kept until the
    /// waiter has the lock.
    async fn go(self, stage: &Stage, request: Request, leases: Vec<Lease>) -> Result<Vec<Lease>, String> {
        stage.note(&format!("the blocker goes: {:?}", self.going));
        let client = stage.client(BLOCKER);
        match self.going {
            BlockerExit::Released => {
                for lease in &leases {
                    drop(Stage::spawn(BLOCKER, lease.release()));
                }
            }
            BlockerExit::ReleasedInBackground => {
                for lease in &leases {
                    lease.release_in_background().map_err(|error| error.to_string())?;
                }
            }
            BlockerExit::Dropped => return Ok(Vec::new()),
            BlockerExit::Broken => {
                for lease in &leases {
                    stage.client(OTHER).break_lock(&lease.node()).await.map_err(|error| error.to_string())?;
                }
            }
            BlockerExit::ClientClosed => drop(Stage::spawn(BLOCKER, client.close())),
            BlockerExit::ClientDrained => {
                drop(Stage::spawn(BLOCKER, client.drain(Duration::from_millis(500))));
            }
            BlockerExit::SessionEnded => stage.ensemble.borrow_mut().expire(client.session_id()),
            BlockerExit::SessionExpired => stage.stopped.stop(BLOCKER),
            BlockerExit::Downgraded => {
                let reading = request.downgrade(stage).await.map_err(|error| error.to_string())?;
                for lease in &leases {
                    lease.release_in_background().map_err(|error| error.to_string())?;
                }
                return Ok(reading);
            }
            BlockerExit::HeldTooLong | BlockerExit::WaiterTimesOut | BlockerExit::WaiterCancelled => {}
        }
        Ok(leases)
    }

    async fn expect(self, stage: &Stage, nodes: &[String], waiting: Waiting) -> CaseResult {
        let longest = 3 * stage.setting.timeout;
        let gone = Stage::until("the blocker goes", longest, || !nodes.iter().any(|node| stage.exists(node)));
        let gone = gone.await?;
        let Ok(Ok((granted, at))) = timeout(PATIENCE, waiting).await else {
            return Err(format!("the waiter has nothing, two minutes after {nodes:?} were gone"));
        };
        granted.map_err(|error| format!("the waiter is refused: {error}"))?;
        stage.judge(&format!("granted, {:?}", self.before), at.saturating_sub(gone), self.bound(stage));
        Ok(())
    }

    fn bound(self, stage: &Stage) -> u64 {
        // The waiter receives a watch event and lists the queue.
        let usual = stage.told() + stage.read();
        let anew = match self.before {
            // After a reconnection, the waiter's listing of the queue might be outdated, so it
            // sends a `sync` and lists the queue again.
            WaiterHistory::Reconnecting => stage.reconnected() + stage.write() + stage.read(),
            _ => 0,
        };
        usual + anew + SLACK
    }
}

impl Kind {
    fn limited(self) -> Self {
        if self == Self::Leader { Self::Mutex } else { self }
    }
}
