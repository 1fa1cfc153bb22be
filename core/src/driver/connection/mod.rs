//! The driver's end of a session: whether there is one, whether it has a connection, and what runs on it.

mod counted_client;
mod heartbeat_request;
mod lifecycle;
pub(super) mod request_size;
pub(super) mod requests;
#[cfg(test)]
mod tests;
mod unanswered;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use zklock_transport::{Settings, Urgency};
use zookeeper_client as zk;

use self::counted_client::CountedClient;
use self::heartbeat_request::heartbeat;
use self::requests::{AccessLists, DirectoryClient, RequestTask, SessionContext};
use self::unanswered::Unanswered;
use crate::config::ClientOptions;
use crate::driver::mailbox::{Checked, DirectoryId, Input, OwnNode};
use crate::error::Error;
use crate::error::server_report::{ServerReport, Servers};
use crate::metrics::recorder::Recorder;
use crate::queue::Event;
use crate::runtime;
use crate::runtime::backoff::RestartBackoff;
use crate::runtime::clock::BootInstant;
use crate::runtime::{Part, random};
use crate::session::certificates::Certificates;
use crate::session::outage_log::Outages;
use crate::session::term::Term;
use crate::session::watch_budget::WatchBudget;
use crate::session::{ConnectRefusal, Session, reply};

/// What news means.
pub(super) enum ConnectionEvent {
    None,
    /// Nodes of ours were checked.
    Checked(Checked),
    /// A session began, with a connection.
    Began {
        session_id: i64,
        timeout: Duration,
    },
    Disconnected,
    Reconnected,
    /// The session is over, and a new one is being looked for.
    Lost,
    /// There will be no session.
    Refused(ConnectRefusal),
}

/// How far it is on the way to a session.
enum SessionStage {
    Idle,
    Searching(AbortHandle),
    Live(Live),
}

struct Live {
    session: Session,
    /// What all requests on the session share.
    route: Arc<SessionContext>,
    since: BootInstant,
    term: Arc<Term>,
    connected: bool,
    /// Whether the driver knows of the session.
    began: bool,
    /// Renews the certificates while there is no connection.
    renewing: Option<AbortHandle>,
    /// Tells the log what happens at the servers while there is no connection.
    telling: Option<AbortHandle>,
}

pub(super) struct Connection {
    options: ClientOptions,
    /// Those of the connections.
    settings: Settings,
    /// What the connections are encrypted with, if they are.
    certificates: Option<Certificates>,
    recorder: Arc<Recorder>,
    sender: mpsc::UnboundedSender<Input>,
    lists: AccessLists,
    stage: SessionStage,
    /// What was asked for on the session.
    unanswered: Unanswered,
    /// The pauses before another session is looked for.
    rests: RestartBackoff,
    /// The log's record of servers that cannot be used.
    outages: Outages,
    /// How urgent a connection is.
    urgency: Urgency,
    /// The session's number.
    epoch: u64,
    /// The connection's number. Grows when one is lost, so that a late reply can be told from a timely one.
    number: u64,
    room: WatchBudget,
    /// Everything that runs on the session.
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
            rests: RestartBackoff::default(),
            outages: Outages::default(),
            urgency: Urgency::default(),
            epoch: 0,
            number: 0,
            room: WatchBudget::default(),
            tasks: JoinSet::new(),
        }
    }

    /// What happened at each server when it was last tried.
    pub(super) fn settings(&self) -> Settings {
        self.settings.clone()
    }

    /// The server of the current connection, with its port; `None` without one.
    pub(super) fn server(&self) -> Option<String> {
        server(&self.settings)
    }

    pub(super) fn servers(&self) -> Servers {
        ServerReport::all(&self.options.hosts.servers, &self.settings.entries()).into()
    }

    /// Sets how urgent a connection is while there is none.
    pub(super) fn set_urgency(&mut self, urgency: Urgency) {
        if std::mem::replace(&mut self.urgency, urgency) != urgency {
            self.settings.set_urgency(urgency);
        }
    }

    #[cfg(test)]
    pub(super) fn urgency(&self) -> Urgency {
        self.urgency
    }

    /// A path as the client's callers know it.
    pub(super) fn below_chroot<'a>(&self, path: &'a str) -> &'a str {
        self.options.hosts.below_chroot(path)
    }

    pub(super) fn is_connected(&self) -> bool {
        matches!(self.stage, SessionStage::Live(Live { connected: true, .. }))
    }

    pub(super) fn is_live(&self) -> bool {
        matches!(self.stage, SessionStage::Live(_))
    }

    /// The session's id, 0 without one.
    pub(super) fn session_id(&self) -> i64 {
        match &self.stage {
            SessionStage::Live(live) => live.session.client.session_id().0,
            _ => 0,
        }
    }

    /// The session's term.
    pub(super) fn term(&self) -> Option<&Arc<Term>> {
        match &self.stage {
            SessionStage::Live(live) => Some(&live.term),
            _ => None,
        }
    }

    /// How much of the session's term is left.
    pub(super) fn term_left(&self) -> Duration {
        self.term().map(|term| term.remaining()).unwrap_or_default()
    }

    /// Whether a lock may have this grace: as long as there is no session it may have any.
    ///
    /// # Errors
    /// [`BadArgument`](crate::ErrorKind::BadArgument) for one that is longer than a sixth of the session time-out.
    pub(super) fn check_grace(&self, grace: Duration) -> Result<(), Error> {
        let longest = self.term().map(|term| term.interval());
        match longest.filter(|longest| grace > *longest) {
            Some(longest) => Err(Error::bad_argument(
                "grace",
                format!(
                    "must be at most {longest:?}, a sixth of the session time-out that the server granted, but is \
                     {grace:?}"
                ),
            )),
            None => Ok(()),
        }
    }

    /// Whether the session has a connection on which it was proven recently.
    pub(super) fn is_fresh(&self) -> bool {
        match &self.stage {
            SessionStage::Live(Live { term, connected: true, .. }) => term.is_fresh(self.number),
            _ => false,
        }
    }

    /// Runs a task that asks something of the server whose answer could be a proof.
    pub(super) fn ask(&mut self, task: impl Future<Output = ()> + Send + 'static) {
        self.asks_proof();
        let unanswered = self.unanswered.write();
        self.run(task, Some(unanswered));
    }

    /// Runs a task that asks something of the server whose answer is no proof. That there is none is a sign all the same:
    /// answers come in the order of the requests, so a server that answers pings has dropped it.
    pub(super) fn question(&mut self, task: impl Future<Output = ()> + Send + 'static) {
        let task = self.run(task, None);
        self.unanswered.asks(task, BootInstant::now());
    }

    /// The same after a pause.
    pub(super) fn question_later(
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
        self.unanswered.asks(task, asked);
    }

    /// Notes that something is asked of the server whose answer could be a proof.
    pub(super) fn asks_proof(&mut self) {
        self.unanswered.asks_proof();
    }

    /// Notes that the server has answered what could have been a proof.
    pub(super) fn answered(&mut self) {
        self.unanswered.proof_is_answered();
    }

    /// For how much longer proofs may be asked for in vain, or a question be unanswered; `None` while nothing is asked.
    /// After that the session is useless, whatever its connection says: pings are answered by a server that carries
    /// nothing out, and a client crate whose task has ended goes on saying that it is connected.
    pub(super) fn give_up_in(&mut self) -> Option<Duration> {
        let SessionStage::Live(Live { term, .. }) = &self.stage else { return None };
        let since = self.unanswered.since()?;
        Some(term.give_up_after().saturating_sub(BootInstant::now().since(since)))
    }

    /// Proves the session, and checks whether these nodes of ours exist.
    pub(super) fn beat(&mut self, nodes: Vec<OwnNode>) {
        let SessionStage::Live(Live { session, term, .. }) = &self.stage else {
            return;
        };
        let client = CountedClient::new(session.client.clone(), Arc::clone(&self.recorder));
        let term = Arc::clone(term);
        let (epoch, connection_number, sender) = (self.epoch, self.number, self.sender.clone());
        self.ask(async move {
            let report = |news| drop(sender.send(Input::News(news)));
            heartbeat(&client, &term, (epoch, connection_number), nodes, report).await;
        });
    }

    /// Where requests go: the session, and how to report their outcomes. To no directory, if the caller awaits them.
    pub(super) fn directory_client(
        &self,
        directory: DirectoryId,
        path: &Arc<str>,
    ) -> Option<DirectoryClient> {
        let SessionStage::Live(Live { route, .. }) = &self.stage else {
            return None;
        };
        Some(DirectoryClient {
            route: Arc::clone(route),
            directory,
            path: Arc::clone(path),
            connection_number: self.number,
        })
    }

    /// Runs a task until it ends or the session does. Tasks begin in the order in which they were spawned. If one panics,
    /// the session is over: a request that has no outcome would be waited for for ever.
    pub(super) fn spawn(&mut self, task: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
        self.run(task, None)
    }

    fn run(
        &mut self,
        task: impl Future<Output = ()> + Send + 'static,
        unanswered: Option<Arc<()>>,
    ) -> AbortHandle {
        let (epoch, sender) = (self.epoch, self.sender.clone());
        let task = runtime::fragile(Part::Request, task);
        self.tasks.spawn(runtime::gated(RequestTask::new(task, epoch, sender, unanswered)))
    }

    /// Where its tasks report to the driver.
    pub(super) fn sender(&self) -> mpsc::UnboundedSender<Input> {
        self.sender.clone()
    }

    /// The access control list of the nodes that are created.
    pub(super) fn acl(&self) -> &[zk::Acl] {
        &self.lists.own
    }

    /// The session's room for watches.
    pub(super) fn room(&self) -> &WatchBudget {
        &self.room
    }

    /// Forgets the tasks that ended.
    pub(super) fn reap(&mut self) {
        while self.tasks.try_join_next().is_some() {}
    }

    /// Whether this is the number of the current connection.
    pub(super) fn is_current(&self, connection_number: u64) -> bool {
        self.is_connected() && connection_number == self.number
    }

    /// What a queue is told of the answer to a request that was made on a connection.
    pub(super) fn discard_stale(&self, connection_number: u64, event: Event) -> Event {
        reply::discard_stale(event, connection_number, self.number)
    }
}

/// The server of the current connection, with its port; `None` without one.
pub(super) fn server(settings: &Settings) -> Option<String> {
    let (host, port) = settings.connected()?;
    Some(if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") })
}
