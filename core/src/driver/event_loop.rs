//! The driver's event loop: takes input from the inbox, passes it to the other modules, and flushes
//! the queues.

mod alarms;
#[cfg(test)]
mod bounds;
mod deadlocks;
mod drain;
#[cfg(test)]
mod tests;

use std::fmt;
use std::ops::ControlFlow;
use std::sync::{Arc, Weak};

use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use self::deadlocks::{DeadlockSearches, time_to_search};
use self::drain::Drain;
use super::connection::{Connection, ConnectionEvent};
use super::directory::Directory;
use super::errors::denied;
use super::heartbeat::HeartbeatScheduler;
use super::queries::{start_query, transact};
use super::timers::{Alarm, RareAlarms, Timers};
use crate::config::ClientOptions;
use crate::driver::directory::inspect::SharedDirectories;
use crate::driver::directory::resync::CHECK_INTERVAL;
use crate::driver::directory::table::DirectoryTable;
use crate::driver::directory::waiters::{DEADLINE, UNREACHABLE, Waiter};
use crate::driver::mailbox::{AcquireAttempt, Checked, Command, DirectoryId, Inbox, Input, OwnNode};
use crate::driver::status::{ClientState, Status};
use crate::error::escape::Escaped;
use crate::error::loss_reason::LossReason;
use crate::error::{Error, Result};
use crate::lease::EnterOutcome;
use crate::lease::hold::Notice;
use crate::queue::{Access, Event, Intent, JoinId, Outcome};
use crate::runtime::{random, same_thread};
use crate::session::CLOSE_LIMIT;
use crate::session::term::Term;

/// Maximum number of inputs in one batch. The queues send their requests after each batch, so the
/// waiters that join a queue in one batch share a listing.
const BATCH: usize = 256;

/// Runs a client's driver until the client is closed.
pub(crate) async fn drive(options: ClientOptions, inbox: Inbox) {
    let Inbox { status, sender, mut receiver } = inbox;
    let mut driver = Driver::new(options, status, sender);
    driver.timers.set(Instant::now() + CHECK_INTERVAL, Alarm::ResyncSilent);
    let shared = Arc::clone(&driver.shared);
    let done = loop {
        let input = tokio::select! {
            // Check the alarms first. They cannot delay the inputs for long, because few alarms are
            // due at a time.
            biased;
            () = driver.timers.next() => None,
            Some(input) = receiver.recv() => Some(input),
        };
        // The operations that this step wakes continue after it, when the directories are unlocked.
        let step = same_thread::carry_on_like_tasks(|| driver.step(&shared, input, &mut receiver));
        if let ControlFlow::Break(done) = step {
            break done;
        }
    };
    driver.close(done, receiver).await;
}

/// A session's id, displayed as ZooKeeper writes it.
struct SessionId(i64);

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// The complete state of one client's driver.
struct Driver {
    options: ClientOptions,
    status: Arc<Status>,
    connection: Connection,
    shared: Arc<SharedDirectories>,
    directories: DirectoryTable,
    timers: Timers,
    /// Callers that wait for a connection, each with its deadline.
    connecting: Vec<(Instant, oneshot::Sender<Result<()>>)>,
    /// The number of the last connection on which the server throttled requests.
    throttled: u64,
    heartbeat: HeartbeatScheduler,
    /// Set if the client must close as soon as it holds nothing.
    drain: Option<Drain>,
    /// `true` if the client has ever had a session. After that, a lost connection does not fail its
    /// waiters.
    was_connected: bool,
    /// `true` if the check for unencrypted credentials is done.
    warned: bool,
    searches: DeadlockSearches,
}

impl Driver {
    fn new(options: ClientOptions, status: Arc<Status>, sender: mpsc::UnboundedSender<Input>) -> Self {
        let connection = Connection::new(options.clone(), Arc::clone(&status.recorder), sender);
        let shared = Arc::new(SharedDirectories::new(connection.settings(), options.label.clone()));
        let shown: Weak<SharedDirectories> = Arc::downgrade(&shared);
        status.set_driver(shown);
        Self {
            connection,
            options,
            directories: DirectoryTable::new(Arc::clone(&status)).with_shared_directories(&shared),
            shared,
            status,
            timers: Timers::default(),
            connecting: Vec::new(),
            throttled: u64::MAX,
            heartbeat: HeartbeatScheduler::default(),
            drain: None,
            was_connected: false,
            warned: false,
            searches: DeadlockSearches::default(),
        }
    }

    /// Handles an input and those that have arrived meanwhile, or the alarms that are due, and
    /// carries out the resulting actions. Stops if the client closes.
    fn step(
        &mut self,
        shared: &SharedDirectories,
        input: Option<Input>,
        receiver: &mut mpsc::UnboundedReceiver<Input>,
    ) -> ControlFlow<Option<oneshot::Sender<()>>> {
        let mut shared = shared.lock();
        self.directories.exchange(&mut shared);
        if let Some(input) = input {
            let more = std::iter::from_fn(|| receiver.try_recv().ok()).take(BATCH);
            self.drain_inbox(std::iter::once(input).chain(more))?;
        } else {
            self.run_due_alarms();
        }
        self.flush();
        if self.is_drained() {
            return ControlFlow::Break(None);
        }
        self.directories.exchange(&mut shared);
        ControlFlow::Continue(())
    }

    /// Handles inputs. Stops at a `Close` command and returns its `done` sender.
    fn drain_inbox(
        &mut self,
        inputs: impl Iterator<Item = Input>,
    ) -> ControlFlow<Option<oneshot::Sender<()>>> {
        for input in inputs {
            match input {
                Input::Queue { directory, connection_number, event } => {
                    self.on_queue_event(directory, connection_number, event);
                }
                Input::Session(session_event) => {
                    let change = self.connection.handle(session_event);
                    self.on_connection_event(change);
                }
                Input::Revoked { directory, node, version } => {
                    if let Some(directory) = self.directories.get_to_flush(directory) {
                        directory.revoked(node, version, &mut self.connection, &mut self.timers);
                    }
                }
                Input::Deadlock { directory, join, held, found } => {
                    self.searches.found((directory, join), held, found);
                }
                Input::Command(Command::Connect { reply }) => self.connect(reply),
                Input::Command(Command::Join(attempt)) => self.join(attempt),
                Input::Command(Command::Leave { path, join }) => self.leave(&path, join),
                Input::Command(Command::Hold { path, notice }) => self.on_notice(&path, notice),
                Input::Command(Command::Ask(query)) => {
                    start_query(&mut self.connection, &self.options, query);
                }
                Input::Command(Command::Drain { until, done }) => self.drain(until, done),
                Input::Command(Command::Close { done }) => return ControlFlow::Break(done),
            }
        }
        ControlFlow::Continue(())
    }

    fn on_queue_event(&mut self, id: DirectoryId, connection_number: u64, event: Event) {
        let current = self.connection.is_current(connection_number);
        if event.is_written() && current {
            self.connection.note_proof_reply();
        }
        // The connection works but the request was lost, so the server probably throttles requests.
        let throttled = self.directories.get(id).filter(|_| event.is_lost() && current);
        if let Some(directory) = throttled {
            if std::mem::replace(&mut self.throttled, connection_number) != connection_number {
                let path = Escaped(self.connection.below_chroot(directory.path()));
                tracing::warn!(%path, "the server does not execute requests, possibly because it throttles them; trying again");
            }
        }
        let delay_until =
            |directory: &mut Directory| directory.delay_until(&event, connection_number, current);
        if let Some(until) = self.directories.get_mut(id).and_then(delay_until) {
            self.timers.set(until, Alarm::DeliverEvent(id, event));
            return;
        }
        let event = self.connection.discard_stale(connection_number, event);
        if let Event::Deleted(ticket, outcome) = &event {
            // The reply "no node" shows that another client deleted the node, but only if the
            // session is still alive. This requires that an earlier reply on this connection has
            // proved that it serves our session, and that the term has not ended. Otherwise the
            // server might have removed the node together with the session.
            let certain = |term: &Arc<Term>| current && term.is_proven_on(connection_number) && term.runs();
            let missing = *outcome == Outcome::NoNode && self.connection.term().is_some_and(certain);
            if let Some(directory) = self.directories.get_to_flush(id) {
                directory.delete_answered(*ticket, missing);
            }
        }
        self.directories.dispatch(id, event);
    }

    fn connect(&mut self, reply: oneshot::Sender<Result<()>>) {
        if self.connection.is_connected() {
            reply.send(Ok(())).ok();
            return;
        }
        let deadline = Instant::now() + self.options.connect_timeout;
        self.connecting.retain(|(_, reply)| !reply.is_closed());
        self.connecting.push((deadline, reply));
        self.start_connection();
        self.timers.set(deadline, Alarm::Connect);
    }

    fn connected(&mut self) {
        self.status.set(ClientState::Connected);
        self.directories.send_to_all(&Event::Connected);
        self.heartbeat.make_heartbeat_due(&mut self.timers);
        for (_, reply) in self.connecting.drain(..) {
            reply.send(Ok(())).ok();
        }
    }

    fn start_connection(&mut self) {
        if self.connection.start() {
            if !std::mem::replace(&mut self.warned, true) && self.options.exposes_credentials() {
                let servers = &self.options.hosts.servers;
                tracing::warn!(%servers, "credentials are sent over unencrypted connections, where eavesdroppers can read them; use TLS");
            }
            self.status.set(ClientState::Connecting);
        }
    }

    fn join(&mut self, mut attempt: AcquireAttempt) {
        // The owner's holds might have changed since the request.
        let intent = std::mem::replace(&mut attempt.intent, Intent::Wait);
        match attempt.holds.enter(attempt.claim.owner, attempt.claim.kind, intent) {
            Ok(EnterOutcome::Queues(intent)) => attempt.intent = intent,
            Ok(EnterOutcome::Reentered(lease)) => return attempt.answer(Ok(lease)),
            Err(error) => return attempt.answer(Err(error)),
        }
        if self.drain.is_some() && !drain::is_part_of_a_hold(&attempt) {
            return attempt.answer(Err(Error::client_draining()));
        }
        if let Err(error) = self.connection.check_grace(attempt.claim.grace.time()) {
            return attempt.answer(Err(error));
        }
        let is_new_hold = !matches!(attempt.intent, Intent::Downgrade { .. });
        let kept = is_new_hold
            .then(|| attempt.holds.take_again(&attempt.claim, attempt.naming, Access::Driver))
            .flatten();
        if let Some(lease) = kept {
            return attempt.answer(Ok(lease));
        }
        self.start_connection();
        let (path, join) = (attempt.holds.place.full(), attempt.join);
        let id = self.directories.open(path, &self.connection, self.heartbeat.is_fresh());
        let mut alarms = RareAlarms::default();
        let tries = attempt.intent.only_tries();
        if let Some(deadline) = attempt.deadline.end().filter(|_| !tries) {
            alarms.set(
                DEADLINE,
                match time_to_search(&attempt, deadline) {
                    Some(at) => self.timers.set(at, Alarm::DeadlineNears(id, join)),
                    None => self.timers.set(deadline, Alarm::Deadline(id, join)),
                },
            );
        }
        if !self.was_connected || tries {
            let bound = attempt.deadline.end().filter(|_| tries);
            let unreachable = bound.unwrap_or_else(|| Instant::now() + self.options.connect_timeout);
            alarms.set(UNREACHABLE, self.timers.set(unreachable, Alarm::Unreachable(id, join)));
        }
        if let Some(directory) = self.directories.get_to_flush(id) {
            directory.join(Waiter::new(attempt, alarms), &mut self.timers);
        }
    }

    fn leave(&mut self, path: &Arc<str>, join: JoinId) {
        let id = self.directories.at(path);
        if let Some(directory) = id.and_then(|id| self.directories.get_to_flush(id)) {
            drop(directory.leave(join, &mut self.timers));
        }
        self.stop_unless_wanted();
    }

    fn on_notice(&mut self, path: &Arc<str>, notice: Notice) {
        if let Notice::Transact { node, operations, reply } = notice {
            return transact(&mut self.connection, &self.options, (path, &node), operations, reply);
        }
        // If there is no directory with this path, the hold no longer exists. The notice is
        // dropped, and a caller that waits for a reply receives an error from its channel.
        let id = self.directories.at(path);
        let Some(directory) = id.and_then(|id| self.directories.get_to_flush(id)) else { return };
        match notice {
            Notice::Released { node, release } => directory.release(&node, release, &mut self.timers),
            Notice::HandedOn { hold, join, claim } => {
                directory.handed_on(&hold, join, &claim, self.connection.term_left(), &mut self.timers);
            }
            Notice::Kept { node, time } => directory.node_kept(&node, time, &mut self.timers),
            Notice::Retaken { hold, claim } => {
                directory.retaken(&hold, &claim, self.connection.term_left(), &mut self.timers);
            }
            Notice::Expired { hold, reason } => {
                directory.expire(&hold, reason, self.connection.term_left(), &mut self.timers);
            }
            Notice::WatchNode { node } => directory.watch_hold(&node),
            Notice::Transact { .. } => {}
        }
    }

    fn on_connection_event(&mut self, change: ConnectionEvent) {
        match change {
            ConnectionEvent::None => {}
            ConnectionEvent::Checked(Checked { missing, last, .. }) => {
                self.heartbeat.on_nodes_checked(last, !missing.is_empty(), &mut self.timers);
                for OwnNode { directory, name, .. } in missing {
                    self.directories.dispatch(directory, Event::Missing(name));
                }
            }
            ConnectionEvent::Began { session_id, timeout } => {
                let servers = &self.options.hosts.servers;
                tracing::info!(session = %SessionId(session_id), %servers, "session established");
                let asked = self.options.session_timeout;
                if timeout < asked && self.status.session_timeout() != Some(timeout) {
                    tracing::warn!(?asked, granted = ?timeout, "the server shortened the session timeout, so it frees locks sooner than requested; check its maxSessionTimeout");
                }
                self.was_connected = true;
                self.status.recorder.session_began();
                self.status.set_session(session_id, timeout);
                self.status.set_term(self.connection.term().cloned());
                for directory in self.directories.iter_mut() {
                    directory.on_event(Event::SessionBegan(random::bits()));
                    directory.refuse_long_graces(&self.connection, &mut self.timers);
                }
                self.connected();
            }
            ConnectionEvent::Disconnected => {
                tracing::warn!(session = %self.session(), "connection lost; the session may survive");
                self.heartbeat.suspend(&mut self.directories, true);
                self.directories.send_to_all(&Event::Disconnected);
                // Change the client's state last. A listener for the state can check a lease
                // immediately, and must find it suspended.
                self.status.set(ClientState::Suspended);
            }
            ConnectionEvent::Reconnected => {
                let server = self.connection.server().unwrap_or_default();
                tracing::info!(session = %self.session(), %server, "reconnected");
                self.status.recorder.reconnected();
                self.connected();
            }
            ConnectionEvent::Lost => {
                tracing::warn!(session = %self.session(), "the session has ended; establishing a new one");
                self.status.set_term(None);
                self.directories.end_session(&mut self.timers);
                self.status.set(ClientState::Connecting);
            }
            ConnectionEvent::Refused(denial) => {
                let error = denied(&self.options, denial);
                tracing::error!("{error}");
                self.status.set_term(None);
                self.directories.end_session(&mut self.timers);
                self.status.set(ClientState::Idle);
                self.fail_all(&error);
            }
        }
    }

    /// Returns the id of the last session.
    fn session(&self) -> SessionId {
        SessionId(self.status.session())
    }

    /// Fails all waiters.
    fn fail_all(&mut self, error: &Error) {
        for (_, reply) in self.connecting.drain(..) {
            reply.send(Err(error.clone())).ok();
        }
        for directory in self.directories.iter_mut() {
            directory.fail_all(error);
        }
    }

    /// Stops trying to connect if the client has never had a session and no caller waits for one.
    fn stop_unless_wanted(&mut self) {
        if self.was_connected {
            return;
        }
        let wanted = !self.connecting.is_empty() || self.directories.iter().any(Directory::has_waiters);
        if !wanted && self.connection.stop() {
            self.status.set(ClientState::Idle);
        }
    }

    /// Flushes the queues and carries out their actions.
    fn flush(&mut self) {
        self.heartbeat.check_term(&self.connection, &mut self.directories, &mut self.timers);
        // One pass is enough. If an action drops a lease, its release arrives as a new input.
        for id in self.directories.take_to_flush() {
            let vital = self.directories.flush(id, &mut self.connection, &mut self.timers);
            self.heartbeat.set_node_count(id, vital);
        }
        self.cancel_obsolete_searches();
        let must_give_up =
            self.heartbeat.maintain_term(&mut self.connection, &self.directories, &mut self.timers);
        self.connection.reap();
        if must_give_up {
            tracing::warn!(session = %self.session(), "the server answers pings, but no other requests");
            let change = self.connection.lose();
            self.on_connection_event(change);
        }
    }

    async fn close(
        mut self,
        done: Option<oneshot::Sender<()>>,
        mut receiver: mpsc::UnboundedReceiver<Input>,
    ) {
        self.status.refuse();
        self.status.set_term(None);
        self.directories.lose_all(LossReason::ClientClosed);
        // Change the client's state last, as for `Disconnected`: a program that finds the client
        // closed must find its leases lost.
        self.status.set(ClientState::Closed);
        self.fail_all(&Error::client_closed());
        let mut waiting = self.drain.take().map(Drain::closers).unwrap_or_default();
        waiting.extend(done);
        let session = self.session();
        let mut closing = std::pin::pin!(self.connection.close(CLOSE_LIMIT));
        loop {
            tokio::select! {
                biased;
                () = &mut closing => break,
                Some(input) = receiver.recv() => waiting.extend(closer(input)),
                // Callers that wait for a release still time out.
                () = self.timers.next() => while let Some(alarm) = self.timers.due() {
                    if let Alarm::Released(path, node) = alarm {
                        self.directories.stop_waiting(path, &node);
                    }
                },
            }
        }
        receiver.close();
        while let Ok(input) = receiver.try_recv() {
            waiting.extend(closer(input));
        }
        tracing::debug!(%session, "closed");
        for done in waiting {
            done.send(()).ok();
        }
    }
}

/// Returns the `done` sender if the input is a command to close the client. Drops any other input:
/// its caller receives an error from the reply channel.
fn closer(input: Input) -> Option<oneshot::Sender<()>> {
    match input {
        Input::Command(Command::Close { done }) => done,
        Input::Command(Command::Drain { done, .. }) => Some(done),
        _ => None,
    }
}
