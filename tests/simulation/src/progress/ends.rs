//! Progress cases in which a call must return in time, even if no server replies. If the contender
//! has a node, the client must also delete it in time.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::timeout;
use zklock::{Election, Lease, Lock, Mutex, Timeout, simulation};

use super::locks::{KINDS, Kind, Request};
use super::stage::{BLOCKER, CaseResult, PATIENCE, SLACK, Stage, WAITER, pause};
use crate::clients::CONNECT_TIMEOUT;
use crate::clock;

/// The call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    /// A wait that times out or is canceled. Its node must be deleted.
    TimesOut,
    Cancelled,
    Released,
    Closed,
    Drained,
    /// A try for a lock that is taken or free.
    Taken,
    Free,
    /// Calls that need no lock of this client, such as queries and requests to other contenders.
    Lists,
    Looks,
    Reads,
    Asks,
    Breaks,
    Counts,
    Leader,
    Ready,
}

const CALLS: [Call; 15] = [
    Call::TimesOut,
    Call::Cancelled,
    Call::Released,
    Call::Closed,
    Call::Drained,
    Call::Taken,
    Call::Free,
    Call::Lists,
    Call::Looks,
    Call::Reads,
    Call::Asks,
    Call::Breaks,
    Call::Counts,
    Call::Leader,
    Call::Ready,
];

/// The state of the servers during the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Servers {
    Answer,
    Refuse,
    AreSilent,
    /// The servers refuse the client for a while and then serve it again.
    ComeBack,
}

const ALL: [Servers; 4] = [Servers::Answer, Servers::Refuse, Servers::AreSilent, Servers::ComeBack];

/// Maximum time in milliseconds that a closing client waits until the server confirms the end of
/// the session.
const CLOSE_LIMIT: u64 = 2000;

/// Timeout of a drain, in milliseconds.
const WAIT: u64 = 700;

/// A case.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    call: Call,
    servers: Servers,
    kind: Kind,
}

impl Case {
    pub fn of(turn: u64) -> Self {
        let turn = usize::try_from(turn).unwrap_or(0);
        let (call, rest) = (CALLS[turn % CALLS.len()], turn / CALLS.len());
        Self { call, servers: ALL[rest % ALL.len()], kind: KINDS[rest / ALL.len() % KINDS.len()] }
    }

    pub async fn run(self, stage: &Rc<Stage>) -> CaseResult {
        let taken = self.call != Call::Free;
        let blocking = Request::new(self.kind, true, BLOCKER);
        let mut held = Vec::new();
        if taken {
            held = simulation::of_client(BLOCKER, blocking.take(stage))
                .await
                .map_err(|error| error.to_string())?;
        }
        // Let the client hold another lock, so that it has a session and sends heartbeats.
        let own = self.own(stage).await?;
        let waits = matches!(self.call, Call::TimesOut | Call::Cancelled);
        let mut wait = if waits { Some(self.wait(stage).await?) } else { None };
        self.befall(stage);
        let remaining = milliseconds(own.remaining());
        let own_node = own.node();
        let began = clock::now();
        let took = if let (Call::TimesOut, Some(Wait { waiting, until, .. })) = (self.call, &mut wait) {
            let at = timeout(PATIENCE, waiting).await;
            let Ok(Ok(at)) = at else { return Err("the wait does not end".to_owned()) };
            at.saturating_sub(*until)
        } else if let (Call::Cancelled, Some(wait)) = (self.call, &wait) {
            wait.waiting.abort();
            0
        } else {
            let calling = Stage::spawn(WAITER, self.calling(stage, own));
            let done = timeout(PATIENCE, calling).await;
            if !matches!(done, Ok(Ok(()))) {
                return Err("the call does not return".to_owned());
            }
            clock::now() - began
        };
        let promise = format!("returned, {:?}, servers {:?}", self.call, self.servers);
        stage.judge(&promise, took, self.bound(stage, remaining) + SLACK);
        let ended = clock::now();
        let mut served = ended;
        if self.servers == Servers::ComeBack {
            stage.refuse(WAITER, false);
            served = clock::now();
        }
        let left = match (self.call, wait) {
            (Call::TimesOut | Call::Cancelled, Some(wait)) => Some(wait.node),
            (Call::Released | Call::Closed | Call::Drained, _) => Some(own_node),
            _ => None,
        };
        if let Some(node) = left.filter(|_| matches!(self.servers, Servers::Answer | Servers::ComeBack)) {
            self.expect_gone(stage, &node, ended.max(served)).await?;
        }
        drop(held);
        Ok(())
    }

    async fn own(self, stage: &Stage) -> Result<Lease, String> {
        let lock = Mutex::new(stage.client(WAITER), "/progress-own").map_err(|error| error.to_string())?;
        let own = simulation::of_client(WAITER, Box::pin(async move { lock.acquire().await })).await;
        pause(stage.setting.timeout / 2).await;
        own.map_err(|error| error.to_string())
    }

    /// Starts a wait and returns it with its node.
    async fn wait(self, stage: &Stage) -> Result<Wait, String> {
        let time = stage.setting.timeout / 3;
        let timeout = match self.call {
            Call::TimesOut => Timeout::For(Duration::from_millis(time)),
            _ => Timeout::Forever,
        };
        let taking = Request { timeout, ..Request::new(self.kind, false, WAITER) }.take(stage);
        let directory = if self.kind == Kind::Several { "/a-first" } else { self.kind.directory() };
        let before = stage.names(directory);
        let until = clock::now() + time;
        let waiting = Stage::spawn(WAITER, async move {
            drop(taking.await);
            clock::now()
        });
        let new = || stage.names(directory).into_iter().find(|name| !before.contains(name));
        Stage::until("it is queued", time, || new().is_some()).await?;
        pause(time / 3).await;
        let node = format!("{directory}/{}", new().unwrap_or_default());
        Ok(Wait { waiting, until, node })
    }

    fn befall(self, stage: &Stage) {
        match self.servers {
            Servers::Answer => {}
            Servers::Refuse | Servers::ComeBack => stage.refuse(WAITER, true),
            Servers::AreSilent => stage.silence(WAITER),
        }
    }

    fn calling(self, stage: &Stage, own: Lease) -> Pin<Box<dyn Future<Output = ()>>> {
        let client = stage.client(WAITER);
        let trying = Request { timeout: Timeout::Try, ..Request::new(self.kind, false, WAITER) }.take(stage);
        let node = stage.names("/progress-own").pop().map(|name| format!("/progress-own/{name}"));
        let node = node.unwrap_or_default();
        Box::pin(async move {
            let lock = || Mutex::new(&client, "/progress").map(Lock::from);
            match self.call {
                Call::Released => return own.release().await.unwrap_or_default(),
                Call::Closed => return client.close().await.unwrap_or_default(),
                Call::Drained => {
                    return client.drain(Duration::from_millis(WAIT)).await.unwrap_or_default();
                }
                Call::Taken | Call::Free => drop(trying.await),
                Call::Lists => drop(async { lock()?.contenders().await }.await),
                Call::Looks => drop(async { lock()?.locked().await }.await),
                Call::Reads => drop(client.get("/progress").await),
                Call::Asks => drop(client.revoke(&node).await),
                Call::Breaks => drop(client.break_lock(&node).await),
                Call::Counts => drop(client.set_shared_count("/progress-count", 3).await),
                Call::Leader => drop(async { Election::new(&client, "/progress")?.leader().await }.await),
                Call::Ready => drop(client.ready().await),
                Call::TimesOut | Call::Cancelled => {}
            }
            // Hold the other lock until here.
            own.release_in_background().unwrap_or_default();
        })
    }

    /// Returns the maximum duration of the call after its own timeout, if it has one.
    fn bound(self, stage: &Stage, remaining: u64) -> u64 {
        let connect = u64::try_from(CONNECT_TIMEOUT.as_millis()).unwrap_or(u64::MAX);
        let answers = self.servers == Servers::Answer;
        let (read, write) = (stage.read(), stage.write());
        match self.call {
            Call::TimesOut | Call::Cancelled => 0,
            Call::Released | Call::Closed if answers => write,
            Call::Released => remaining,
            Call::Closed => CLOSE_LIMIT,
            Call::Drained if answers => WAIT + write,
            Call::Drained => WAIT + CLOSE_LIMIT,
            Call::Ready if answers => 0,
            Call::Taken | Call::Free if answers => self.tried(stage),
            // The client lists the nodes, reads them, and reads changed nodes again.
            Call::Lists | Call::Looks | Call::Reads | Call::Leader if answers => 3 * read,
            Call::Asks | Call::Breaks | Call::Counts if answers => 2 * write + read,
            _ => connect,
        }
    }

    /// Returns the maximum duration of a try.
    fn tried(self, stage: &Stage) -> u64 {
        let (read, write) = (stage.read(), stage.write());
        match (self.kind, self.call) {
            // To get a permit, the client first acquires the semaphore's mutex. For several locks,
            // the client acquires one after another. If one of them is taken, it releases the
            // earlier ones.
            (Kind::Permit | Kind::Several, Call::Taken) => 2 * write + 2 * read,
            (Kind::Permit | Kind::Several, _) => 2 * (3 * write + 2 * read),
            (_, Call::Taken) => read,
            // The client lists the queue and tries to create its node. The directory is missing, so
            // it creates the directory and then the node. At the end, it lists the queue again.
            _ => read + 3 * write + read,
        }
    }

    /// Checks that the contender's node is deleted in time. If no server replies, the client
    /// deletes it after it has reconnected.
    async fn expect_gone(self, stage: &Stage, node: &str, since: u64) -> CaseResult {
        let gone =
            Stage::until("the node is left", 3 * stage.setting.timeout, || !stage.exists(node)).await?;
        let bound = match self.servers {
            Servers::Answer => stage.write(),
            // A client that was closed while no server replied does not reconnect. Its node is
            // deleted when its session expires.
            _ if matches!(self.call, Call::Closed | Call::Drained) => {
                stage.setting.timeout + 2 * stage.setting.tick
            }
            // Clients that neither hold a lock nor wait for one can take more time to reconnect.
            _ => stage.reconnected_at_leisure() + stage.write(),
        };
        let promise = format!("nothing left, {:?}, servers {:?}", self.call, self.servers);
        stage.judge(&promise, gone.saturating_sub(since), bound + SLACK);
        Ok(())
    }
}

/// A wait with its node and the time at which it must end.
struct Wait {
    waiting: JoinHandle<u64>,
    until: u64,
    node: String,
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
