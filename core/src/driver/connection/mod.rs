//! The driver's connection to ZooKeeper: the session, its connection state, and the tasks that run
//! on it.

mod counted_client;
mod heartbeat_request;
mod lifecycle;
pub(super) mod request_size;
pub(super) mod requests;
#[cfg(test)]
mod tests;
mod unanswered;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use zklock_transport::{Settings, Urgency};
use zookeeper_client as zk;

use self::counted_client::CountedClient;
use self::heartbeat_request::heartbeat;
use self::requests::{AccessLists, DirectoryClient, SessionContext};
use self::unanswered::Unanswered;
use crate::config::ClientOptions;
use crate::driver::mailbox::{Checked, DirectoryId, Input, OwnNode, SessionEvent};
use crate::error::Error;
use crate::error::server_report::{ServerReport, Servers};
use crate::metrics::recorder::Recorder;
use crate::queue::Event;
use crate::runtime;
use crate::runtime::backoff::RestartBackoff;
use crate::runtime::clock::BootInstant;
use crate::runtime::supervise::caught;
use crate::runtime::{Part, random};
use crate::session::certificates::Certificates;
use crate::session::outage_log::Outages;
use crate::session::term::Term;
use crate::session::watch_budget::WatchBudget;
use crate::session::{ConnectRefusal, Session, reply};

/// The driver's reaction to a session event.
pub(super) enum ConnectionEvent {
    None,
    /// A heartbeat checked some of our nodes.
    Checked(Checked),
    /// A session began and has a connection.
    Began {
        session_id: i64,
        timeout: Duration,
    },
    Disconnected,
    Reconnected,
    /// The session is over, and the search for a new one has started.
    Lost,
    /// The server rejected the client for good, so there will be no session.
    Refused(ConnectRefusal),
}

/// Progress toward a session.
enum SessionStage {
    Idle,
    Searching(AbortHandle),
    Live(Live),
}

struct Live {
    session: Session,
    /// State that all requests on the session share.
    session_context: Arc<SessionContext>,
    since: BootInstant,
    term: Arc<Term>,
    connected: bool,
    /// `true` once the driver has been notified of the session.
    began: bool,
    /// The task that renews the certificates while there is no connection.
    renewing: Option<AbortHandle>,
    /// The task that logs the state of the servers while there is no connection.
    outage_logger: Option<AbortHandle>,
}

pub(super) struct Connection {
    options: ClientOptions,
    /// Settings shared by all connections.
    settings: Settings,
    /// The TLS certificates, if the connections are encrypted.
    certificates: Option<Certificates>,
    recorder: Arc<Recorder>,
    sender: mpsc::UnboundedSender<Input>,
    lists: AccessLists,
    stage: SessionStage,
    /// Requests on the session that have no reply yet.
    unanswered: Unanswered,
    /// The pauses before the search for the next session.
    restart_backoff: RestartBackoff,
    /// The log's record of unusable servers.
    outages: Outages,
    /// How urgently a connection is needed.
    urgency: Urgency,
    /// The session's number.
    epoch: u64,
    /// The connection's number. It increases when the connection is lost, so that replies from
    /// earlier connections can be recognized.
    number: u64,
    room: WatchBudget,
    /// All tasks that run on the session.
    tasks: JoinSet<()>,
}

impl Connection {
    pub(super) fn new(
        options: ClientOptions,
        recorder: Arc<Recorder>,
        sender: mpsc::UnboundedSender<Input>,
    ) -> Self {
        let settings = Settings::new(options.limits(), random::fraction, || BootInstant::now().0);
        settings.set_servers(options.hosts.servers.split(',').count());
        Self {
            lists: AccessLists::of(&options),
            certificates: options.tls.as_deref().map(|tls| Certificates::new(tls, &settings)),
            options,
            settings,
            recorder,
            sender,
            stage: SessionStage::Idle,
            unanswered: Unanswered::default(),
            restart_backoff: RestartBackoff::default(),
            outages: Outages::default(),
            urgency: Urgency::default(),
            epoch: 0,
            number: 0,
            room: WatchBudget::default(),
            tasks: JoinSet::new(),
        }
    }

    pub(super) fn settings(&self) -> Settings {
        self.settings.clone()
    }

    pub(super) fn server(&self) -> Option<String> {
        server(&self.settings)
    }

    pub(super) fn servers(&self) -> Servers {
        ServerReport::all(&self.options.hosts.servers, &self.settings.entries()).into()
    }

    pub(super) fn set_urgency(&mut self, urgency: Urgency) {
        if std::mem::replace(&mut self.urgency, urgency) != urgency {
            self.settings.set_urgency(urgency);
        }
    }

    #[cfg(test)]
    pub(super) fn urgency(&self) -> Urgency {
        self.urgency
    }

    /// Returns the path without the chroot, as the program wrote it.
    pub(super) fn below_chroot<'a>(&self, path: &'a str) -> &'a str {
        self.options.hosts.below_chroot(path)
    }

    pub(super) fn is_connected(&self) -> bool {
        matches!(self.stage, SessionStage::Live(Live { connected: true, .. }))
    }

    pub(super) fn is_live(&self) -> bool {
        matches!(self.stage, SessionStage::Live(_))
    }

    /// Returns the session's id, or 0 without a session.
    pub(super) fn session_id(&self) -> i64 {
        match &self.stage {
            SessionStage::Live(live) => live.session.client.session_id().0,
            _ => 0,
        }
    }

    /// Returns the session's term.
    pub(super) fn term(&self) -> Option<&Arc<Term>> {
        match &self.stage {
            SessionStage::Live(live) => Some(&live.term),
            _ => None,
        }
    }

    /// Returns the time left in the session's term.
    pub(super) fn term_left(&self) -> Duration {
        self.term().map(|term| term.remaining()).unwrap_or_default()
    }

    /// Checks the value of a lock's option `grace` against the session timeout. Accepts any value
    /// if there is no session.
    ///
    /// # Errors
    /// [`BadArgument`](crate::ErrorKind::BadArgument) if the grace is longer than a sixth of the
    /// session timeout.
    pub(super) fn check_grace(&self, grace: Duration) -> Result<(), Error> {
        let longest = self.term().map(|term| term.interval());
        match longest.filter(|longest| grace > *longest) {
            Some(longest) => Err(Error::bad_argument(
                "grace",
                format!(
                    "must be at most {longest:?}, a sixth of the session timeout that the server granted, but is \
                     {grace:?}"
                ),
            )),
            None => Ok(()),
        }
    }

    /// Returns `true` if a recent reply on the current connection proved that the session is alive.
    pub(super) fn is_fresh_at(&self, now: BootInstant) -> bool {
        match &self.stage {
            SessionStage::Live(Live { term, connected: true, .. }) => term.is_fresh_at(now, self.number),
            _ => false,
        }
    }

    pub(super) fn spawn_proof_request(&mut self, task: impl Future<Output = ()> + Send + 'static) {
        self.note_proof_request();
        let unanswered = self.unanswered.proof_token();
        self.run(task, Some(unanswered));
    }

    /// Runs a task that sends a request that can prove the session and a request that cannot.
    /// `task` receives a token, which it drops when the server replies to the first request.
    pub(super) fn spawn_proof_and_request<F>(&mut self, task: impl FnOnce(Arc<()>) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.note_proof_request();
        let task = task(self.unanswered.proof_token());
        self.spawn_request(task);
    }

    /// Runs a task whose request cannot prove the session (show that it is alive). Its reply is
    /// still monitored. The server replies in order, so if it answers later pings but not this
    /// request, it has dropped the request.
    pub(super) fn spawn_request(&mut self, task: impl Future<Output = ()> + Send + 'static) {
        let task = self.run(task, None);
        self.unanswered.note_request(task, BootInstant::now());
    }

    /// Like `spawn_request`, but runs the task after a pause.
    pub(super) fn spawn_request_later(
        &mut self,
        pause: Duration,
        task: impl Future<Output = ()> + Send + 'static,
    ) {
        let asked = BootInstant::now().after(pause);
        let later = async move {
            tokio::time::sleep(pause).await;
            task.await;
        };
        let task = self.run(later, None);
        self.unanswered.note_request(task, asked);
    }

    pub(super) fn note_proof_request(&mut self) {
        self.unanswered.note_proof_request();
    }

    pub(super) fn note_proof_reply(&mut self) {
        self.unanswered.note_proof_reply();
    }

    /// Returns the time after which the driver gives up the session if no reply arrives, or `None`
    /// if no request is unanswered. This also applies while the connection seems to be up. A server
    /// that executes no requests can still answer pings, and the client crate still reports a
    /// connection after its task has ended.
    pub(super) fn give_up_in(&mut self) -> Option<Duration> {
        let SessionStage::Live(Live { term, .. }) = &self.stage else { return None };
        let since = self.unanswered.since()?;
        Some(term.give_up_after().saturating_sub(BootInstant::now().since(since)))
    }

    /// Sends a heartbeat. It extends the session's term and checks whether these nodes exist.
    pub(super) fn send_heartbeat(&mut self, nodes: Vec<OwnNode>) {
        let SessionStage::Live(Live { session, term, .. }) = &self.stage else {
            return;
        };
        let client = CountedClient::new(session.client.clone(), Arc::clone(&self.recorder));
        let term = Arc::clone(term);
        let (epoch, connection_number, sender) = (self.epoch, self.number, self.sender.clone());
        self.spawn_proof_request(async move {
            let report = |session_event| drop(sender.send(Input::Session(session_event)));
            heartbeat(&client, &term, (epoch, connection_number), nodes, report).await;
        });
    }

    /// Returns a client for requests about one directory. Their outcomes are sent to `directory`. A
    /// caller that awaits the outcomes itself passes `DirectoryId::default()`, which belongs to no
    /// directory.
    pub(super) fn directory_client(
        &self,
        directory: DirectoryId,
        path: &Arc<str>,
    ) -> Option<DirectoryClient> {
        let SessionStage::Live(Live { session_context, .. }) = &self.stage else {
            return None;
        };
        Some(DirectoryClient {
            session_context: Arc::clone(session_context),
            directory,
            path: Arc::clone(path),
            connection_number: self.number,
        })
    }

    /// Runs a task, and aborts it if the session ends. Tasks start in the order of the calls. If a
    /// task panics, the driver gives up the session. Otherwise it would wait forever for the
    /// outcome of the task's request.
    pub(super) fn spawn(&mut self, task: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
        self.run(task, None)
    }

    fn run(
        &mut self,
        task: impl Future<Output = ()> + Send + 'static,
        unanswered: Option<Arc<()>>,
    ) -> AbortHandle {
        self.run_boxed(Box::pin(runtime::fragile(Part::Request, task)), unanswered)
    }

    fn run_boxed(&mut self, task: BoxedTask, unanswered: Option<Arc<()>>) -> AbortHandle {
        let (epoch, sender) = (self.epoch, self.sender.clone());
        self.tasks.spawn(runtime::gated(run_task(task, epoch, sender, unanswered)))
    }

    pub(super) fn sender(&self) -> mpsc::UnboundedSender<Input> {
        self.sender.clone()
    }

    pub(super) fn acl(&self) -> &[zk::Acl] {
        &self.lists.own
    }

    pub(super) fn room(&self) -> &WatchBudget {
        &self.room
    }

    /// Removes the finished tasks from the task set.
    pub(super) fn reap(&mut self) {
        while self.tasks.try_join_next().is_some() {}
    }

    pub(super) fn is_current(&self, connection_number: u64) -> bool {
        self.is_connected() && connection_number == self.number
    }

    /// Returns the event for the queue. If `event` is a listing or probe from an earlier
    /// connection, it might be out of date and is replaced with `Lost`.
    pub(super) fn discard_stale(&self, connection_number: u64, event: Event) -> Event {
        reply::discard_stale(event, connection_number, self.number)
    }
}

/// Returns the server of the current connection as `host:port`, or `None` without a connection.
pub(super) fn server(settings: &Settings) -> Option<String> {
    let (host, port) = settings.connected()?;
    Some(if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") })
}

type BoxedTask = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Runs a task of the session, and reports to `sender` if it panics. Keeps `_unanswered` until then.
///
/// All tasks have this one type, so they share the code that spawns, polls and frees a task. Only
/// the box has the size of the task, because glibc's allocator reuses a freed box directly. tokio
/// aligns each task to 128 bytes, and such memory is not reused directly: tasks of some sizes leave
/// holes between long-lived objects.
async fn run_task(
    task: BoxedTask,
    epoch: u64,
    sender: mpsc::UnboundedSender<Input>,
    _unanswered: Option<Arc<()>>,
) {
    if let Err(panic) = caught(task).await {
        sender.send(Input::Session(SessionEvent::Panicked(epoch, panic))).ok();
    }
}
