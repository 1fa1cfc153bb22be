//! Carries the queues' actions out on a session, and feeds them the results.
//!
//! One driver a client, one task on the runtime thread. Everything that happens reaches it through one channel,
//! in the order in which it happened: commands from the handles, replies and watch events from the server,
//! changes of the session. That order is what the queue's reasoning rests on.

mod heartbeat;
mod link;
mod metered;
mod number;
mod operator;
mod requests;
mod slot;
mod timers;
mod transact;

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::ops::{ControlFlow, Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use zookeeper_client as zk;

use self::heartbeat::Pulse;
use self::link::{Link, LinkEvent};
pub(crate) use self::number::Number;
pub(crate) use self::operator::Touch;
use self::operator::touch;
use self::requests::Wire;
use self::slot::{Slot, Waiter};
use self::timers::{Alarm, Timers};
use self::transact::transact;
use crate::contender::Contender;
use crate::error::{Error, ErrorKind, Result};
use crate::lease::{Entry, Lease, LockPath, LossReason};
use crate::lock::LockOptions;
use crate::meter::Wait;
use crate::options::ClientOptions;
use crate::owner::Owner;
use crate::patience::Patience;
use crate::queue::{Event, Intent, JoinId, Kind, Naming, NodeName, Ticket};
use crate::state::{ClientState, Status};
use crate::transaction::Operation;

/// A hold that lasts longer than this gets a watch on its own node; shorter ones pay nothing for it (rule 12).
const LONG_HOLD: Duration = Duration::from_millis(200);

/// After so long without news a queue with waiters looks again, whatever the watches say (rule 10).
const LONG_SILENCE: Duration = Duration::from_secs(20);

/// How long closing waits for the server's acknowledgement.
const CLOSE_LIMIT: Duration = Duration::from_secs(2);

/// How long a request waits that the server neither carried out nor refused, as when it throttles.
const PAUSE: Duration = Duration::from_millis(100);

/// How many inputs are taken in before conclusions are drawn: joins that come together share a listing.
const BATCH: usize = 256;

/// What a handle asks for.
pub(crate) enum Command {
    /// Tell when there is a session.
    Connect { reply: oneshot::Sender<Result<()>> },
    /// Acquire a lock.
    Join(Attempt),
    /// Nobody waits for this attempt any more.
    Leave { path: Arc<str>, join: JoinId },
    /// The last lease of a hold was released.
    Release { path: Arc<str>, join: JoinId, done: Option<oneshot::Sender<()>> },
    /// A holder found that the term is over.
    Expire { path: Arc<str>, join: JoinId },
    /// Tell who contends.
    Inspect { path: Arc<str>, reply: oneshot::Sender<Result<Vec<Contender>>> },
    /// Tell how many contend.
    Count { path: Arc<str>, reply: oneshot::Sender<Result<usize>> },
    /// Read the number in this node, and watch it if asked to.
    ReadNumber { path: Arc<str>, watch: bool, reply: oneshot::Sender<Result<Option<Number>>> },
    /// A holder wants to hear when it is asked to give the lock up.
    Guard { path: Arc<str>, join: JoinId },
    /// Do something to the contender's node at this full path.
    Touch { node: Arc<str>, touch: Touch, reply: oneshot::Sender<Result<()>> },
    /// Write something, if a node of ours stands in this lock directory.
    Transact { path: Arc<str>, node: String, operations: Vec<Operation>, reply: oneshot::Sender<Result<()>> },
    /// End the session and the driver.
    Close { done: Option<oneshot::Sender<()>> },
}

/// An attempt to acquire a lock.
pub(crate) struct Attempt {
    pub(crate) join: JoinId,
    lock: Arc<LockPath>,
    owner: Owner,
    kind: Kind,
    intent: Intent,
    naming: Naming,
    label: Option<String>,
    permits: Option<u32>,
    deadline: Option<Instant>,
    /// How its caller has waited so far; `None` for what is not to be counted as a hold.
    wait: Option<Wait>,
    reply: oneshot::Sender<Result<Lease>>,
}

impl Attempt {
    pub(crate) fn new(
        join: JoinId,
        lock: Arc<LockPath>,
        (owner, kind): (Owner, Kind),
        intent: Intent,
        patience: Patience,
        options: &LockOptions,
        reply: oneshot::Sender<Result<Lease>>,
    ) -> Self {
        let deadline = match patience {
            Patience::For(time) => Instant::now().checked_add(time),
            Patience::Forever | Patience::Try => None,
        };
        let LockOptions { naming, label, permits, .. } = options.clone();
        Self { join, lock, owner, kind, intent, naming, label, permits, deadline, wait: None, reply }
    }

    /// The same, for a caller who has waited like that; `None` for what is not to be counted as a hold.
    pub(crate) fn wait(self, wait: Option<Wait>) -> Self {
        Self { wait, ..self }
    }
}

/// What reaches a driver.
pub(crate) enum Input {
    Command(Command),
    /// An event for the queue of this path, from the connection with this number.
    Queue {
        path: Arc<str>,
        connection: u64,
        event: Event,
    },
    Link(LinkEvent),
    /// Somebody asks the owner of this node to give its lock up.
    Revoked {
        path: Arc<str>,
        node: NodeName,
    },
}

/// Serves a client until it is closed.
pub(crate) async fn drive(
    options: ClientOptions,
    status: Arc<Status>,
    sender: mpsc::UnboundedSender<Input>,
    mut receiver: mpsc::UnboundedReceiver<Input>,
) {
    let mut driver = Driver {
        link: Link::new(options.clone(), Arc::clone(&status.meter), sender),
        options,
        slots: Slots { status: Arc::clone(&status), slots: HashMap::new() },
        status,
        timers: Timers::default(),
        connecting: Vec::new(),
        last_ticket: Ticket::default(),
        unsettled: BTreeSet::new(),
        throttled: u64::MAX,
        pulse: Pulse::default(),
        was_connected: false,
    };
    driver.timers.set(Instant::now() + LONG_SILENCE, Alarm::LookAgain);
    let done = loop {
        tokio::select! {
            Some(input) = receiver.recv() => {
                let more = std::iter::from_fn(|| receiver.try_recv().ok()).take(BATCH);
                if let ControlFlow::Break(done) = driver.take_in(std::iter::once(input).chain(more)) {
                    break done;
                }
            }
            () = driver.timers.next() => driver.alarms(),
        }
        driver.settle();
    };
    driver.close(done, receiver).await;
}

/// The lock directories of a client. However the driver ends, its leases end with it: the session does too.
struct Slots {
    status: Arc<Status>,
    slots: HashMap<Arc<str>, Slot>,
}

impl Deref for Slots {
    type Target = HashMap<Arc<str>, Slot>;

    fn deref(&self) -> &Self::Target {
        &self.slots
    }
}

impl DerefMut for Slots {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.slots
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        self.status.set(ClientState::Closed);
        for slot in self.slots.values_mut() {
            slot.lose_all(LossReason::ClientClosed);
        }
    }
}

/// A session's id, as ZooKeeper itself writes it.
struct Session(i64);

impl fmt::Display for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// Everything of one client.
struct Driver {
    options: ClientOptions,
    status: Arc<Status>,
    link: Link,
    slots: Slots,
    timers: Timers,
    /// Those that wait for a connection, and until when.
    connecting: Vec<(Instant, oneshot::Sender<Result<()>>)>,
    /// The last ticket of the queues that were dropped: late answers to them must not fit those that follow.
    last_ticket: Ticket,
    /// The paths whose queues have something to conclude.
    unsettled: BTreeSet<Arc<str>>,
    /// The last connection on which the server was seen to throttle.
    throttled: u64,
    pulse: Pulse,
    /// Whether there ever was a session: from then on connection loss only lengthens waits.
    was_connected: bool,
}

impl Driver {
    /// Takes inputs in; breaks off with whom to tell when one of them says to close.
    fn take_in(&mut self, inputs: impl Iterator<Item = Input>) -> ControlFlow<Option<oneshot::Sender<()>>> {
        for input in inputs {
            match input {
                Input::Queue { path, connection, event } => {
                    // An answer that leaves everything open, on a connection that stands: the server asks for patience.
                    if event.is_lost() && self.link.is_current(connection) {
                        if std::mem::replace(&mut self.throttled, connection) != connection {
                            tracing::warn!(%path, "the server does not carry requests out, as when it throttles; trying again");
                        }
                        self.timers.set(Instant::now() + PAUSE, Alarm::Tell(path, event));
                    } else {
                        let event = self.link.vet(connection, event);
                        self.tell(&path, event);
                    }
                }
                Input::Link(event) => self.link_event(event),
                Input::Revoked { path, node } => {
                    if let Some(slot) = self.slots.get_mut(&path) {
                        slot.revoked(node);
                    }
                }
                Input::Command(Command::Connect { reply }) => self.connect(reply),
                Input::Command(Command::Join(attempt)) => self.join(attempt),
                Input::Command(Command::Leave { path, join }) => self.leave(&path, join),
                Input::Command(Command::Release { path, join, done }) => self.release(&path, join, done),
                Input::Command(Command::Expire { path, join }) => self.expire(&path, join),
                Input::Command(Command::Inspect { path, reply }) => {
                    self.look(&path, reply, |wire| async move { wire.contenders().await });
                }
                Input::Command(Command::Count { path, reply }) => {
                    self.look(&path, reply, |wire| async move { Ok(wire.names().await?.len()) });
                }
                Input::Command(Command::ReadNumber { path, watch, reply }) => {
                    self.look(&path, reply, move |wire| async move { wire.number(watch).await });
                }
                Input::Command(Command::Guard { path, join }) => self.tell(&path, Event::Guard(join)),
                Input::Command(Command::Touch { node, touch, reply }) => self.touch(&node, touch, reply),
                Input::Command(Command::Transact { path, node, operations, reply }) => {
                    self.transact(&path, &node, operations, reply);
                }
                Input::Command(Command::Close { done }) => return ControlFlow::Break(done),
            }
        }
        ControlFlow::Continue(())
    }

    /// Gives a queue an event.
    fn tell(&mut self, path: &Arc<str>, event: Event) {
        if let Some(slot) = self.slots.get_mut(path) {
            slot.hear(event);
            self.unsettled.insert(Arc::clone(path));
        }
    }

    fn tell_all(&mut self, event: &Event) {
        for (path, slot) in self.slots.iter_mut() {
            slot.hear(event.clone());
            self.unsettled.insert(Arc::clone(path));
        }
    }

    fn connect(&mut self, reply: oneshot::Sender<Result<()>>) {
        if self.link.is_connected() {
            reply.send(Ok(())).ok();
            return;
        }
        let deadline = Instant::now() + self.options.connect_timeout;
        self.connecting.retain(|(_, reply)| !reply.is_closed());
        self.connecting.push((deadline, reply));
        self.start_link();
        self.timers.set(deadline, Alarm::Connect);
    }

    /// Tells those that wait for a connection.
    fn connected(&mut self) {
        self.status.set(ClientState::Connected);
        self.tell_all(&Event::Connected);
        self.beat_now();
        for (_, reply) in self.connecting.drain(..) {
            reply.send(Ok(())).ok();
        }
    }

    fn start_link(&mut self) {
        if self.link.start() {
            self.status.set(ClientState::Connecting);
        }
    }

    fn join(&mut self, attempt: Attempt) {
        let Attempt { join, lock, owner, kind, intent, naming, label, permits, deadline, wait, reply } =
            attempt;
        let contended = wait.is_some_and(|wait| wait.contended);
        // What the owner holds may have changed since it asked.
        let intent = match lock.enter(owner, kind, intent) {
            Ok(Entry::Queues(intent)) => intent,
            Ok(Entry::Reentered(lease)) => return drop(reply.send(Ok(lease))),
            Err(error) => return drop(reply.send(Err(error))),
        };
        self.start_link();
        let path = Arc::clone(lock.place.full());
        let mut alarms = Vec::new();
        if let Some(deadline) = deadline {
            alarms.push(self.timers.set(deadline, Alarm::Deadline(Arc::clone(&path), join)));
        }
        if !self.was_connected || intent == Intent::Try {
            let unreachable = Instant::now() + self.options.connect_timeout;
            alarms.push(self.timers.set(unreachable, Alarm::Unreachable(Arc::clone(&path), join)));
        }
        let data = requests::node_data(&self.options, label.as_deref(), permits);
        let (live, connected, term) =
            (self.link.is_live(), self.link.is_connected(), self.pulse.is_running());
        let new = || Slot::new(self.last_ticket, live, connected, term);
        let slot = self.slots.entry(Arc::clone(&path)).or_insert_with(new);
        slot.join(join, Waiter { lock, owner, naming, kind, intent, data, alarms, wait, contended, reply });
        self.unsettled.insert(path);
    }

    fn leave(&mut self, path: &Arc<str>, join: JoinId) {
        if let Some(slot) = self.slots.get_mut(path) {
            if let Some(waiter) = slot.leave(join) {
                self.timers.cancel(&waiter.alarms);
            }
            self.unsettled.insert(Arc::clone(path));
        }
        self.stop_unless_wanted();
    }

    fn release(&mut self, path: &Arc<str>, join: JoinId, done: Option<oneshot::Sender<()>>) {
        // Without a slot nothing of the hold is left; dropping `done` says so.
        if let Some(slot) = self.slots.get_mut(path) {
            slot.release(join, done);
            self.unsettled.insert(Arc::clone(path));
        }
    }

    fn expire(&mut self, path: &Arc<str>, join: JoinId) {
        if let Some(slot) = self.slots.get_mut(path) {
            slot.expire(join);
            self.unsettled.insert(Arc::clone(path));
        }
    }

    /// Asks the server something that no queue needs to know, within the connect time-out.
    fn look<T: Send + 'static, F>(
        &mut self,
        path: &Arc<str>,
        reply: oneshot::Sender<Result<T>>,
        ask: impl FnOnce(Wire) -> F,
    ) where
        F: Future<Output = Result<T, zk::Error>> + Send + 'static,
    {
        let unreachable = self.unreachable();
        let Some(wire) = self.link.wire(path) else { return drop(reply.send(Err(unreachable))) };
        let (limit, path, answer) = (self.options.connect_timeout, Arc::clone(path), ask(wire));
        drop(self.link.spawn(async move {
            let answer = match tokio::time::timeout(limit, answer).await {
                Ok(answer) => answer.map_err(|error| match error {
                    zk::Error::NoAuth => slot::not_authorized(&path),
                    _ => unreachable,
                }),
                Err(_) => Err(unreachable),
            };
            reply.send(answer).ok();
        }));
    }

    fn touch(&mut self, node: &Arc<str>, what: Touch, reply: oneshot::Sender<Result<()>>) {
        let unreachable = self.unreachable();
        let Some(wire) = self.link.wire(node) else { return drop(reply.send(Err(unreachable))) };
        let limit = self.options.connect_timeout;
        drop(self.link.spawn(async move {
            let done = tokio::time::timeout(limit, touch(&wire.client, &wire.path, what)).await;
            reply.send(done.ok().flatten().unwrap_or(Err(unreachable))).ok();
        }));
    }

    fn transact(
        &mut self,
        path: &Arc<str>,
        node: &str,
        operations: Vec<Operation>,
        reply: oneshot::Sender<Result<()>>,
    ) {
        let Some(wire) = self.link.wire(path) else { return drop(reply.send(Err(self.unreachable()))) };
        let (limit, guard) = (self.options.connect_timeout, format!("{path}/{node}"));
        let chroot = self.options.hosts.chroot.clone();
        drop(self.link.spawn(async move {
            let answer =
                tokio::time::timeout(limit, transact(&wire.client, &guard, &chroot, &wire.acl, &operations))
                    .await;
            reply.send(answer.unwrap_or_else(|_| Err(Error::unanswered()))).ok();
        }));
    }

    fn link_event(&mut self, event: LinkEvent) {
        let change = self.link.handle(event);
        self.follow(change);
    }

    fn follow(&mut self, change: link::Change) {
        match change {
            link::Change::None => {}
            link::Change::Missing(path, name) => self.tell(&path, Event::Missing(name)),
            link::Change::Began { session_id } => {
                let servers = &self.options.hosts.servers;
                tracing::info!(session = %Session(session_id), %servers, "a session began");
                self.was_connected = true;
                self.status.set_session(session_id);
                for slot in self.slots.values_mut() {
                    slot.hear(Event::SessionBegan(crate::session::random()));
                }
                self.connected();
            }
            link::Change::Disconnected => {
                tracing::warn!(session = %self.session(), "connection lost; the session may live on");
                self.status.set(ClientState::Suspended);
                self.suspend(true);
                self.tell_all(&Event::Disconnected);
            }
            link::Change::Reconnected => {
                tracing::info!(session = %self.session(), "connected again");
                self.connected();
            }
            link::Change::Lost => {
                tracing::warn!(session = %self.session(), "the session is over; looking for a new one");
                self.status.set(ClientState::Connecting);
                self.tell_all(&Event::SessionLost);
            }
            link::Change::Refused => {
                let error = Error::new(
                    ErrorKind::AuthFailed,
                    format!(
                        "{} refused the credentials; check them and make a new client",
                        self.options.hosts.servers
                    ),
                );
                tracing::error!("{error}");
                self.status.set(ClientState::Idle);
                self.tell_all(&Event::SessionLost);
                self.fail_all(&error);
            }
        }
    }

    /// The last session that there was.
    fn session(&self) -> Session {
        Session(self.status.session())
    }

    /// Fails everybody who waits.
    fn fail_all(&mut self, error: &Error) {
        for (_, reply) in self.connecting.drain(..) {
            reply.send(Err(error.clone())).ok();
        }
        for slot in self.slots.values_mut() {
            slot.fail_all(error);
        }
    }

    fn alarms(&mut self) {
        while let Some(alarm) = self.timers.due() {
            match alarm {
                Alarm::Deadline(path, join) => {
                    let connected = self.link.is_connected();
                    self.give_up(&path, join, |slot| slot.timeout_error(join, connected));
                    self.stop_unless_wanted();
                }
                Alarm::Unreachable(path, join) => {
                    let unreachable = self.unreachable();
                    // A waiter in a queue that was reached waits on; one that only tries was promised an answer.
                    let reached = self.was_connected;
                    let wanted = |slot: &Slot| !reached || slot.only_tries(join);
                    if self.slots.get(&path).is_some_and(wanted) {
                        self.give_up(&path, join, |_| unreachable);
                    }
                    self.stop_unless_wanted();
                }
                Alarm::Connect => {
                    let (now, unreachable) = (Instant::now(), self.unreachable());
                    let due = |(deadline, _): &mut (Instant, _)| *deadline <= now;
                    for (_, reply) in self.connecting.extract_if(.., due) {
                        reply.send(Err(unreachable.clone())).ok();
                    }
                    self.stop_unless_wanted();
                }
                Alarm::Tell(path, event) => self.tell(&path, event),
                Alarm::Guard(path, join) => self.tell(&path, Event::Guard(join)),
                Alarm::Beat => self.beat_now(),
                Alarm::TermEnd => self.term_may_have_ended(),
                Alarm::Poll(path) => {
                    if let Some(slot) = self.slots.get_mut(&path) {
                        slot.poll();
                        self.unsettled.insert(path);
                    }
                }
                Alarm::LookAgain => {
                    for (path, slot) in self.slots.iter_mut() {
                        if slot.silent() {
                            slot.look_again();
                            self.unsettled.insert(Arc::clone(path));
                        }
                    }
                    self.timers.set(Instant::now() + LONG_SILENCE, Alarm::LookAgain);
                }
            }
        }
    }

    fn give_up(&mut self, path: &Arc<str>, join: JoinId, error: impl FnOnce(&Slot) -> Error) {
        let Some(slot) = self.slots.get_mut(path) else {
            return;
        };
        if !slot.is_waiting(join) {
            return;
        }
        let error = error(slot);
        if error.kind() == ErrorKind::LockTimeout {
            self.status.meter.timed_out();
        }
        if let Some(waiter) = slot.leave(join) {
            self.timers.cancel(&waiter.alarms);
            waiter.reply.send(Err(error)).ok();
        }
        self.unsettled.insert(Arc::clone(path));
    }

    /// A client that never had a session looks for one only while somebody waits for it.
    fn stop_unless_wanted(&mut self) {
        if self.was_connected {
            return;
        }
        let wanted = !self.connecting.is_empty() || self.slots.values().any(Slot::has_waiters);
        if !wanted && self.link.stop() {
            self.status.set(ClientState::Idle);
        }
    }

    fn unreachable(&self) -> Error {
        let message = format!(
            "no ZooKeeper server answered at {} within {:?}; check the address and that the server runs{}",
            self.options.hosts.servers,
            self.options.connect_timeout,
            if self.options.tls.is_some() {
                ", that its port is the one for TLS, and that each side trusts the other's certificate"
            } else {
                ""
            }
        );
        Error::new(ErrorKind::ConnectionFailed, message)
    }

    /// Lets the queues draw conclusions, and carries them out.
    fn settle(&mut self) {
        self.check_term();
        // Carrying out an action may drop a lease, whose release comes through the channel: one round is enough.
        for path in std::mem::take(&mut self.unsettled) {
            let Some(slot) = self.slots.get_mut(&path) else {
                continue;
            };
            slot.settle(&path, &mut self.link, &mut self.timers);
            self.pulse.note(&path, Some(slot));
            if slot.is_idle() {
                self.last_ticket = self.last_ticket.max(slot.last_ticket());
                self.link.free_watches(slot.watched());
                self.slots.remove(&path);
            }
        }
        self.keep_term();
        if self.link.reap() {
            // A request that panicked has no outcome, and its queue would wait for it for ever.
            let change = self.link.lose();
            self.follow(change);
        }
    }

    async fn close(
        mut self,
        done: Option<oneshot::Sender<()>>,
        mut receiver: mpsc::UnboundedReceiver<Input>,
    ) {
        self.status.set(ClientState::Closed);
        receiver.close();
        for slot in self.slots.values_mut() {
            slot.lose_all(LossReason::ClientClosed);
        }
        self.fail_all(&Error::client_closed());
        // Commands that came too late are dropped, which tells their senders; but other closers wait for this close.
        let mut waiting: Vec<_> = done.into_iter().collect();
        while let Ok(input) = receiver.try_recv() {
            if let Input::Command(Command::Close { done: Some(done) }) = input {
                waiting.push(done);
            }
        }
        let session = self.session();
        self.link.close(CLOSE_LIMIT).await;
        tracing::debug!(%session, "closed");
        for done in waiting {
            done.send(()).ok();
        }
    }
}
