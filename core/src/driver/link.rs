//! The driver's end of a session: whether there is one, whether it has a connection, and what runs on it.

mod unanswered;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use zklock_transport::Settings;
use zookeeper_client as zk;

use super::errand::Errand;
use super::heartbeat::heartbeat;
use super::metered::Metered;
use super::wire::{AccessLists, Route, Wire};
use crate::answer;
use crate::backoff::Rests;
use crate::certificates::Certificates;
use crate::clock::Moment;
use crate::mailbox::{Input, News};
use crate::meter::Meter;
use crate::options::ClientOptions;
use crate::queue::{Event, NodeName};
use crate::random;
use crate::room::WatchRoom;
use crate::runtime::{self, Part};
use crate::servers::{ServerReport, Servers};
use crate::session::{self, Denial, Session};
use crate::term::Term;
use unanswered::Unanswered;

/// What news means.
pub(super) enum Change {
    None,
    /// A node of ours is gone.
    Missing(Arc<str>, NodeName),
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
    Refused(Denial),
}

/// How far it is on the way to a session.
enum Stage {
    Idle,
    Searching(AbortHandle),
    Live(Live),
}

struct Live {
    session: Session,
    /// What all requests on the session share.
    route: Arc<Route>,
    since: Moment,
    term: Arc<Term>,
    connected: bool,
    /// Whether the driver knows of the session.
    began: bool,
    /// Renews the certificates while there is no connection.
    renewing: Option<AbortHandle>,
}

pub(super) struct Link {
    options: ClientOptions,
    /// Those of the connections.
    settings: Settings,
    /// What the connections are encrypted with, if they are.
    certificates: Option<Certificates>,
    meter: Arc<Meter>,
    sender: mpsc::UnboundedSender<Input>,
    lists: AccessLists,
    stage: Stage,
    /// What was asked for on the session.
    unanswered: Unanswered,
    /// The pauses before another session is looked for.
    rests: Rests,
    /// The session's number.
    epoch: u64,
    /// The connection's number. Grows when one is lost, so that a late reply can be told from a timely one.
    connection: u64,
    room: WatchRoom,
    /// Everything that runs on the session.
    tasks: JoinSet<()>,
}

impl Link {
    pub(super) fn new(
        options: ClientOptions,
        meter: Arc<Meter>,
        sender: mpsc::UnboundedSender<Input>,
    ) -> Self {
        let settings = Settings::new(options.limits(), random::fraction, || Moment::now().0);
        Self {
            lists: AccessLists::of(&options),
            certificates: options.tls.as_deref().map(|tls| Certificates::new(tls, &settings)),
            options,
            settings,
            meter,
            sender,
            stage: Stage::Idle,
            unanswered: Unanswered::default(),
            rests: Rests::default(),
            epoch: 0,
            connection: 0,
            room: WatchRoom::default(),
            tasks: JoinSet::new(),
        }
    }

    /// Looks for a session, unless there is one or it is already being looked for. Returns whether it began to.
    pub(super) fn start(&mut self) -> bool {
        let idle = matches!(self.stage, Stage::Idle);
        if idle {
            self.search(None, Duration::ZERO);
        }
        idle
    }

    /// Stops looking. Returns whether it did.
    pub(super) fn stop(&mut self) -> bool {
        let Stage::Searching(search) = &self.stage else {
            return false;
        };
        search.abort();
        self.epoch += 1;
        self.stage = Stage::Idle;
        true
    }

    /// Looks for a session, which is not to begin before a pause is over.
    fn search(&mut self, previous: Option<zk::SessionInfo>, pause: Duration) {
        self.epoch += 1;
        let (epoch, options, sender) = (self.epoch, self.options.clone(), self.sender.clone());
        let (certificates, settings) = (self.certificates.clone(), self.settings.clone());
        let search = tokio::spawn(runtime::gated(self.settings.scope(async move {
            let established =
                session::establish(&options, &settings, certificates.as_ref(), previous, pause).await;
            sender.send(Input::News(News::Established(epoch, established))).ok();
        })));
        self.stage = Stage::Searching(search.abort_handle());
    }

    /// What happened at each server when it was last tried.
    pub(super) fn settings(&self) -> Settings {
        self.settings.clone()
    }

    pub(super) fn servers(&self) -> Servers {
        ServerReport::all(&self.options.hosts.servers, &self.settings.entries()).into()
    }

    /// A path as the client's callers know it.
    pub(super) fn below_chroot<'a>(&self, path: &'a str) -> &'a str {
        self.options.hosts.below_chroot(path)
    }

    pub(super) fn is_connected(&self) -> bool {
        matches!(self.stage, Stage::Live(Live { connected: true, .. }))
    }

    pub(super) fn is_live(&self) -> bool {
        matches!(self.stage, Stage::Live(_))
    }

    /// The session's id, 0 without one.
    pub(super) fn session_id(&self) -> i64 {
        match &self.stage {
            Stage::Live(live) => live.session.client.session_id().0,
            _ => 0,
        }
    }

    /// The session's term.
    pub(super) fn term(&self) -> Option<&Arc<Term>> {
        match &self.stage {
            Stage::Live(live) => Some(&live.term),
            _ => None,
        }
    }

    /// Whether the session has a connection on which it was proven recently.
    pub(super) fn is_fresh(&self) -> bool {
        match &self.stage {
            Stage::Live(Live { term, connected: true, .. }) => term.is_fresh(self.connection),
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
        self.unanswered.asks(task, Moment::now());
    }

    /// The same after a pause.
    pub(super) fn question_later(
        &mut self,
        pause: Duration,
        task: impl Future<Output = ()> + Send + 'static,
    ) {
        let asked = Moment::now().after(pause);
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
    pub(super) fn patience(&mut self) -> Option<Duration> {
        let Stage::Live(Live { term, .. }) = &self.stage else { return None };
        let since = self.unanswered.since(term)?;
        Some(term.patience().saturating_sub(Moment::now().since(since)))
    }

    /// Proves the session, and checks whether these nodes of ours exist.
    pub(super) fn beat(&mut self, nodes: Vec<(Arc<str>, NodeName)>) {
        let Stage::Live(Live { session, term, .. }) = &self.stage else {
            return;
        };
        let client = Metered::new(session.client.clone(), Arc::clone(&self.meter));
        let term = Arc::clone(term);
        let (epoch, connection, sender) = (self.epoch, self.connection, self.sender.clone());
        self.ask(async move {
            let found = heartbeat(&client, &term, epoch, connection, nodes).await;
            sender.send(Input::News(found)).ok();
        });
    }

    /// Where requests go: the session, and how to report their outcomes.
    pub(super) fn wire(&self, path: &Arc<str>) -> Option<Wire> {
        let Stage::Live(Live { route, .. }) = &self.stage else {
            return None;
        };
        Some(Wire { route: Arc::clone(route), path: Arc::clone(path), connection: self.connection })
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
        self.tasks.spawn(runtime::gated(Errand::new(task, epoch, sender, unanswered)))
    }

    /// The access control list of the nodes that are created.
    pub(super) fn acl(&self) -> &[zk::Acl] {
        &self.lists.own
    }

    /// The session's room for watches.
    pub(super) fn room(&self) -> &WatchRoom {
        &self.room
    }

    /// Forgets the tasks that ended.
    pub(super) fn reap(&mut self) {
        while self.tasks.try_join_next().is_some() {}
    }

    /// Whether this is the number of the current connection.
    pub(super) fn is_current(&self, connection: u64) -> bool {
        self.is_connected() && connection == self.connection
    }

    /// What a queue is told of the answer to a request that was made on a connection.
    pub(super) fn vet(&self, connection: u64, event: Event) -> Event {
        answer::vet(event, connection, self.connection)
    }

    pub(super) fn handle(&mut self, event: News) -> Change {
        match event {
            News::Established(epoch, Ok(session)) if epoch == self.epoch => self.begin(session),
            News::Established(epoch, Err(denial)) if epoch == self.epoch => {
                self.stage = Stage::Idle;
                Change::Refused(denial)
            }
            News::State(epoch, state) if epoch == self.epoch => self.changed(state),
            News::Over(epoch) if epoch == self.epoch => self.lose(),
            News::Unserved(epoch) if epoch == self.epoch && self.claims_to_live() => {
                tracing::error!("a bug: what serves the session has ended, as after a panic");
                self.lose()
            }
            News::Panicked(epoch, panic) if epoch == self.epoch => {
                tracing::error!(%panic, "a bug: something that runs on the session panicked");
                self.lose()
            }
            News::Beaten(epoch, Some((path, name))) if epoch == self.epoch => {
                // Perhaps no proof, for the node that would have told whose session this is is the missing one.
                self.answered();
                Change::Missing(path, name)
            }
            _ => Change::None,
        }
    }

    /// Whether the client crate has not said that the session is over.
    fn claims_to_live(&self) -> bool {
        matches!(&self.stage, Stage::Live(live) if !live.session.client.state().is_terminated())
    }

    fn begin(&mut self, session: Session) -> Change {
        let (epoch, sender) = (self.epoch, self.sender.clone());
        let (mut states, mut tasks) = (session.client.state_watcher(), session.tasks.clone());
        let state = session.client.state();
        let timeout = session.client.session_timeout();
        let term = Arc::new(Term::new(timeout, self.connection).with(session.heard.clone()));
        let route = Arc::new(Route {
            client: Metered::new(session.client.clone(), Arc::clone(&self.meter)),
            tasks: session.tasks.clone(),
            term: Arc::clone(&term),
            chroot: self.options.hosts.chroot.len(),
            lists: self.lists.clone(),
            limits: self.options.limits(),
            epoch,
            sender: self.sender.clone(),
        });
        let (since, connected, began, renewing) = (Moment::now(), false, false, None);
        self.stage = Stage::Live(Live { session, route, since, term, connected, began, renewing });
        self.spawn(async move {
            loop {
                let news = tokio::select! {
                    biased;
                    state = states.changed() => News::State(epoch, state),
                    () = tasks.ended() => News::Unserved(epoch),
                };
                let last = match &news {
                    News::State(_, state) => state.is_terminated(),
                    _ => true,
                };
                // Where nobody is told any more, the driver is gone, and this task with it.
                sender.send(Input::News(news)).ok();
                if last {
                    break;
                }
            }
        });
        self.changed(state)
    }

    fn changed(&mut self, state: zk::SessionState) -> Change {
        let Stage::Live(live) = &mut self.stage else {
            return Change::None;
        };
        match state {
            zk::SessionState::SyncConnected => {
                live.connected = true;
                self.unanswered.connects();
                if let Some(renewing) = live.renewing.take() {
                    renewing.abort();
                }
                let session_id = live.session.client.session_id().0;
                if std::mem::replace(&mut live.began, true) {
                    Change::Reconnected
                } else {
                    Change::Began { session_id, timeout: live.term.session_timeout() }
                }
            }
            // Never requested, and never enough to hold a lock through (rule 16).
            zk::SessionState::Disconnected | zk::SessionState::ConnectedReadOnly => {
                self.connection += 1;
                live.term.moved(self.connection);
                live.connected = false;
                self.unanswered.disconnects();
                let began = live.began;
                self.keep_renewing();
                if began { Change::Disconnected } else { Change::None }
            }
            zk::SessionState::AuthFailed => {
                self.end();
                Change::Refused(Denial::Credentials)
            }
            zk::SessionState::Expired | zk::SessionState::Closed => self.lose(),
        }
    }

    /// Renews the certificates until there is a connection.
    fn keep_renewing(&mut self) {
        let Some(certificates) = self.certificates.clone().filter(Certificates::can_change) else { return };
        if matches!(&self.stage, Stage::Live(Live { renewing: None, .. })) {
            let task = self.spawn(certificates.keep_renewing());
            if let Stage::Live(live) = &mut self.stage {
                live.renewing = Some(task);
            }
        }
    }

    /// Gives the session up and looks for another.
    pub(super) fn lose(&mut self) -> Change {
        let pause = match &self.stage {
            Stage::Live(live) => self.rests.after(Moment::now().since(live.since)),
            _ => Duration::ZERO,
        };
        let previous = self.end();
        self.search(previous, pause);
        Change::Lost
    }

    /// Ends everything that runs on the session.
    fn end(&mut self) -> Option<zk::SessionInfo> {
        self.connection += 1;
        // What the last session's watches return is not this one's.
        self.room = WatchRoom::default();
        self.tasks = JoinSet::new();
        self.unanswered = Unanswered::default();
        match std::mem::replace(&mut self.stage, Stage::Idle) {
            Stage::Live(live) => {
                drop(live.route);
                let previous = live.session.client.into_session();
                // The crate would keep the connection, and with its pings the session, as long as a request is
                // unanswered: for ever, if that is why the session is given up.
                live.session.tasks.stop();
                Some(previous)
            }
            Stage::Searching(search) => {
                search.abort();
                None
            }
            Stage::Idle => None,
        }
    }

    /// Ends the session on the server, and waits for that for up to `limit`.
    pub(super) async fn close(mut self, limit: Duration) {
        self.tasks.shutdown().await;
        self.settings.hurry();
        match self.stage {
            Stage::Live(Live { session, route, .. }) => {
                // It has a handle of the session too, which ends with its last one.
                drop(route);
                session::close(session, limit).await;
            }
            Stage::Searching(search) => search.abort(),
            Stage::Idle => {}
        }
    }
}

#[cfg(test)]
mod tests;
