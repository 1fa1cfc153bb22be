//! The life cycle of a session. The client searches for a server and starts a session, reconnects
//! when the connection is lost, and ends the session.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use zookeeper_client as zk;

use super::counted_client::CountedClient;
use super::requests::SessionContext;
use super::unanswered::Unanswered;
use super::{Connection, ConnectionEvent, Live, SessionStage};
use crate::driver::mailbox::{Checked, Input, SessionEvent};
use crate::runtime::clock::BootInstant;
use crate::session::certificates::Certificates;
use crate::session::term::Term;
use crate::session::watch_budget::WatchBudget;
use crate::session::{ConnectRefusal, Search, Session};
use crate::{runtime, session};

impl Connection {
    /// Starts a *search*: tries to connect to the servers until a session is established. Does
    /// nothing if there is a session or a search is running. Returns `true` if it started a search.
    pub(in crate::driver) fn start(&mut self) -> bool {
        let idle = matches!(self.stage, SessionStage::Idle);
        if idle {
            self.search(None, Duration::ZERO);
        }
        idle
    }

    /// Stops the search. Returns `true` if one was running.
    pub(in crate::driver) fn stop(&mut self) -> bool {
        let SessionStage::Searching(search) = &self.stage else {
            return false;
        };
        search.abort();
        self.epoch += 1;
        self.stage = SessionStage::Idle;
        true
    }

    /// Looks for a session after a pause.
    fn search(&mut self, previous: Option<zk::SessionInfo>, pause: Duration) {
        self.epoch += 1;
        let (epoch, options, sender) = (self.epoch, self.options.clone(), self.sender.clone());
        let (certificates, settings) = (self.certificates.clone(), self.settings.clone());
        let outages = self.outages.clone();
        let search = tokio::spawn(runtime::gated(self.settings.scope(async move {
            let search = Search {
                options: &options,
                settings: &settings,
                certificates: certificates.as_ref(),
                outages,
            };
            let established = search.establish(previous, pause).await;
            sender.send(Input::Session(SessionEvent::Established(epoch, established))).ok();
        })));
        self.stage = SessionStage::Searching(search.abort_handle());
    }

    pub(in crate::driver) fn handle(&mut self, event: SessionEvent) -> ConnectionEvent {
        match event {
            SessionEvent::Established(epoch, Ok(session)) if epoch == self.epoch => self.begin(session),
            SessionEvent::Established(epoch, Err(denial)) if epoch == self.epoch => {
                self.stage = SessionStage::Idle;
                ConnectionEvent::Refused(denial)
            }
            SessionEvent::Established(_, Ok(session)) => {
                // The search was stopped before it could deliver this session. Close the session,
                // so that the server does not keep it until it expires.
                self.spawn(async {
                    session::close(session, session::CLOSE_LIMIT).await;
                });
                ConnectionEvent::None
            }
            SessionEvent::State(epoch, state) if epoch == self.epoch => self.changed(state),
            SessionEvent::Over(epoch) if epoch == self.epoch => self.lose(),
            SessionEvent::SessionTaskEnded(epoch) if epoch == self.epoch && self.claims_to_live() => {
                tracing::error!("BUG: the task that serves the session ended unexpectedly");
                self.lose()
            }
            SessionEvent::Panicked(epoch, panic) if epoch == self.epoch => {
                tracing::error!(%panic, "BUG: a task of the session panicked");
                self.lose()
            }
            SessionEvent::HeartbeatAnswered(epoch, connection_number, checked)
                if epoch == self.epoch && self.is_current(connection_number) =>
            {
                if checked.answered {
                    self.note_proof_reply();
                }
                ConnectionEvent::Checked(checked)
            }
            // The connection was lost after this reply. A missing node stays missing, so report its
            // lease as lost. The next heartbeat checks the other nodes.
            SessionEvent::HeartbeatAnswered(epoch, _, Checked { missing, .. })
                if epoch == self.epoch && !missing.is_empty() =>
            {
                ConnectionEvent::Checked(Checked { missing, last: None, answered: true })
            }
            _ => ConnectionEvent::None,
        }
    }

    fn claims_to_live(&self) -> bool {
        matches!(&self.stage, SessionStage::Live(live) if !live.session.client.state().is_terminated())
    }

    fn begin(&mut self, session: Session) -> ConnectionEvent {
        let (epoch, sender) = (self.epoch, self.sender.clone());
        let (mut states, mut tasks) = (session.client.state_watcher(), session.tasks.clone());
        let state = session.client.state();
        let timeout = session.client.session_timeout();
        let term = Arc::new(Term::new(timeout, self.number).with(session.heard.clone()));
        let session_context = Arc::new(SessionContext {
            client: CountedClient::new(session.client.clone(), Arc::clone(&self.recorder)),
            tasks: session.tasks.clone(),
            term: Arc::clone(&term),
            chroot: self.options.hosts.chroot.len(),
            lists: self.lists.clone(),
            limits: self.options.limits(),
            epoch,
            sender: self.sender.clone(),
        });
        let (since, connected, began) = (BootInstant::now(), false, false);
        let (renewing, outage_logger) = (None, None);
        self.stage = SessionStage::Live(Live {
            session,
            session_context,
            since,
            term,
            connected,
            began,
            renewing,
            outage_logger,
        });
        self.spawn(async move {
            loop {
                let session_event = tokio::select! {
                    biased;
                    state = states.changed() => SessionEvent::State(epoch, state),
                    () = tasks.ended() => SessionEvent::SessionTaskEnded(epoch),
                };
                let last = match &session_event {
                    SessionEvent::State(_, state) => state.is_terminated(),
                    _ => true,
                };
                // Sending fails only after the driver has ended, which also ends this task.
                sender.send(Input::Session(session_event)).ok();
                if last {
                    break;
                }
            }
        });
        self.changed(state)
    }

    pub(in crate::driver) fn changed(&mut self, state: zk::SessionState) -> ConnectionEvent {
        let SessionStage::Live(live) = &mut self.stage else {
            return ConnectionEvent::None;
        };
        match state {
            zk::SessionState::SyncConnected => {
                live.connected = true;
                self.unanswered.note_connected();
                for task in live.renewing.take().into_iter().chain(live.outage_logger.take()) {
                    task.abort();
                }
                self.outages.end();
                let session_id = live.session.client.session_id().0;
                if std::mem::replace(&mut live.began, true) {
                    ConnectionEvent::Reconnected
                } else {
                    ConnectionEvent::Began { session_id, timeout: live.term.session_timeout() }
                }
            }
            // A read-only connection counts as disconnected, because it does not keep a lock alive
            // (rule 16). The client never requests one.
            zk::SessionState::Disconnected | zk::SessionState::ConnectedReadOnly => {
                self.number += 1;
                live.term.moved(self.number);
                live.connected = false;
                self.unanswered.note_disconnected();
                let began = live.began;
                self.keep_renewing();
                self.log_outages();
                if began { ConnectionEvent::Disconnected } else { ConnectionEvent::None }
            }
            zk::SessionState::AuthFailed => {
                self.end();
                ConnectionEvent::Refused(ConnectRefusal::Credentials)
            }
            zk::SessionState::Expired | zk::SessionState::Closed => self.lose(),
        }
    }

    /// Renews the certificates until there is a connection.
    fn keep_renewing(&mut self) {
        let Some(certificates) = self.certificates.clone().filter(Certificates::can_change) else { return };
        if matches!(&self.stage, SessionStage::Live(Live { renewing: None, .. })) {
            let task = self.spawn(certificates.keep_renewing());
            if let SessionStage::Live(live) = &mut self.stage {
                live.renewing = Some(task);
            }
        }
    }

    /// Starts a task that logs a warning during an outage, with the problem at each server. The
    /// task is stopped when the client is connected.
    fn log_outages(&mut self) {
        let outage = self.outages.clone().watch(self.settings.clone(), self.options.hosts.servers.clone());
        if matches!(&self.stage, SessionStage::Live(Live { outage_logger: None, .. })) {
            let task = self.spawn(outage);
            if let SessionStage::Live(live) = &mut self.stage {
                live.outage_logger = Some(task);
            }
        }
    }

    /// Gives up the session and looks for another one.
    pub(in crate::driver) fn lose(&mut self) -> ConnectionEvent {
        let pause = match &self.stage {
            SessionStage::Live(live) => self.restart_backoff.after(BootInstant::now().since(live.since)),
            _ => Duration::ZERO,
        };
        let previous = self.end();
        self.search(previous, pause);
        ConnectionEvent::Lost
    }

    /// Ends everything that runs on the session.
    fn end(&mut self) -> Option<zk::SessionInfo> {
        self.number += 1;
        // Replace the watch budget. When the old session's watches are dropped, they return their
        // room to the old budget, not to the next session's.
        self.room = WatchBudget::default();
        self.tasks = JoinSet::new();
        self.unanswered = Unanswered::default();
        match std::mem::replace(&mut self.stage, SessionStage::Idle) {
            SessionStage::Live(live) => {
                drop(live.session_context);
                // Drop the client to close its connection. Otherwise, while a request is
                // unanswered, the client crate would keep the connection open, and its pings would
                // keep the session alive forever.
                Some(live.session.client.into_session())
            }
            SessionStage::Searching(search) => {
                search.abort();
                None
            }
            SessionStage::Idle => None,
        }
    }

    /// Closes the session on the server. Waits for the server's reply for at most `limit`.
    pub(in crate::driver) async fn close(mut self, limit: Duration) {
        self.tasks.shutdown().await;
        self.settings.hurry();
        match self.stage {
            SessionStage::Live(Live { session, session_context, .. }) => {
                // `session_context` also holds a handle to the session, which ends only when its
                // last handle is dropped.
                drop(session_context);
                session::close(session, limit).await;
            }
            SessionStage::Searching(search) => search.abort(),
            SessionStage::Idle => {}
        }
    }
}
