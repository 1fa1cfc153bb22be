//! The course of a session: it is looked for, it begins, loses its connection and gets it back, and ends.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use zookeeper_client as zk;

use super::counted_client::Metered;
use super::requests::Route;
use super::unanswered::Unanswered;
use super::{Change, Link, Live, Stage};
use crate::driver::mailbox::{Checked, Input, News};
use crate::runtime::clock::Moment;
use crate::session::certificates::Certificates;
use crate::session::term::Term;
use crate::session::watch_budget::WatchRoom;
use crate::session::{Denial, Search, Session};
use crate::{runtime, session};

impl Link {
    /// Looks for a session, unless there is one or it is already being looked for. Returns whether it began to.
    pub(in crate::driver) fn start(&mut self) -> bool {
        let idle = matches!(self.stage, Stage::Idle);
        if idle {
            self.search(None, Duration::ZERO);
        }
        idle
    }

    /// Stops looking. Returns whether it did.
    pub(in crate::driver) fn stop(&mut self) -> bool {
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
        let outages = self.outages.clone();
        let search = tokio::spawn(runtime::gated(self.settings.scope(async move {
            let search = Search {
                options: &options,
                settings: &settings,
                certificates: certificates.as_ref(),
                outages,
            };
            let established = search.establish(previous, pause).await;
            sender.send(Input::News(News::Established(epoch, established))).ok();
        })));
        self.stage = Stage::Searching(search.abort_handle());
    }

    pub(in crate::driver) fn handle(&mut self, event: News) -> Change {
        match event {
            News::Established(epoch, Ok(session)) if epoch == self.epoch => self.begin(session),
            News::Established(epoch, Err(denial)) if epoch == self.epoch => {
                self.stage = Stage::Idle;
                Change::Refused(denial)
            }
            News::Established(_, Ok(session)) => {
                // Nobody has waited for it to the end. The server need not keep it.
                self.spawn(async {
                    session::close(session, session::CLOSE_LIMIT).await;
                });
                Change::None
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
            News::Beaten(epoch, connection, checked)
                if epoch == self.epoch && self.is_current(connection) =>
            {
                if !checked.missing.is_empty() {
                    // Perhaps no proof: the node that would have told whose session this is may be a missing one.
                    self.answered();
                }
                Change::Checked(checked)
            }
            // The connection was lost with the answer. A node that was there and is missing does not come back, so its
            // lease need not wait for the next connection, which checks the others.
            News::Beaten(epoch, _, Checked { missing, .. }) if epoch == self.epoch && !missing.is_empty() => {
                Change::Checked(Checked { missing, last: None })
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
        let (since, connected, began) = (Moment::now(), false, false);
        let (renewing, telling) = (None, None);
        self.stage = Stage::Live(Live { session, route, since, term, connected, began, renewing, telling });
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

    pub(in crate::driver) fn changed(&mut self, state: zk::SessionState) -> Change {
        let Stage::Live(live) = &mut self.stage else {
            return Change::None;
        };
        match state {
            zk::SessionState::SyncConnected => {
                live.connected = true;
                self.unanswered.connects();
                for task in live.renewing.take().into_iter().chain(live.telling.take()) {
                    task.abort();
                }
                self.outages.end();
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
                self.keep_telling();
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

    /// Tells the log, until there is a connection, when all servers have turned the client away, and why.
    fn keep_telling(&mut self) {
        let outage = self.outages.clone().watch(self.settings.clone(), self.options.hosts.servers.clone());
        if matches!(&self.stage, Stage::Live(Live { telling: None, .. })) {
            let task = self.spawn(outage);
            if let Stage::Live(live) = &mut self.stage {
                live.telling = Some(task);
            }
        }
    }

    /// Gives the session up and looks for another.
    pub(in crate::driver) fn lose(&mut self) -> Change {
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
                // The rest of it ends here, and with it its connection. The crate would keep that, and with its pings the
                // session, as long as a request is unanswered: for ever, if that is why the session is given up.
                Some(live.session.client.into_session())
            }
            Stage::Searching(search) => {
                search.abort();
                None
            }
            Stage::Idle => None,
        }
    }

    /// Ends the session on the server, and waits for that for up to `limit`.
    pub(in crate::driver) async fn close(mut self, limit: Duration) {
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
