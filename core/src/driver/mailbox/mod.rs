//! The channel that carries all input to the driver, in order: commands from the handles, and
//! events from the session and its tasks.

pub(crate) mod node_watch;
pub(crate) mod replies;

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use zookeeper_client as zk;

use self::node_watch::VersionedData;
use self::replies::{First, Listing, NodeContent};
use crate::config::lock_path::LockPath;
use crate::config::timeout::Deadline;
use crate::driver::status::Status;
use crate::error::deadlock::Deadlock;
use crate::error::{Error, Result};
use crate::lease::Lease;
use crate::lease::hold::{HoldTable, Notice, Report};
use crate::lease::mode::LockMode;
use crate::lease::request::AcquireRequest;
use crate::queue::contender::Contender;
use crate::queue::{Event, Intent, JoinId, Kind, Naming, NodeName};
use crate::runtime::fork::ForkGuard;
use crate::session::{ConnectRefusal, Session};

/// Sender for the reply to a command.
pub(crate) type Reply<T> = oneshot::Sender<Result<T>>;

/// A command from a handle (a client or lock object of the program). Each path is a lock
/// directory's path from the ensemble's root.
pub(crate) enum Command {
    /// Report when there is a session.
    Connect { reply: Reply<()> },
    /// Acquire a lock.
    Join(AcquireAttempt),
    /// Give up this attempt.
    Leave { path: Arc<str>, join: JoinId },
    /// Handle a notice about a hold.
    Hold { path: Arc<str>, notice: Notice },
    /// Ask the server a question that involves no queue.
    Ask(Query),
    /// Accept no new attempts. End the session and the driver when the client holds no lock, or at
    /// this deadline.
    Drain { until: Deadline, done: oneshot::Sender<()> },
    /// End the session and the driver.
    Close { done: Option<oneshot::Sender<()>> },
}

/// An attempt to acquire a lock.
pub(crate) struct AcquireAttempt {
    pub(crate) join: JoinId,
    pub(crate) holds: Arc<HoldTable>,
    pub(crate) claim: AcquireRequest,
    pub(crate) intent: Intent,
    /// The time at which the caller began to wait.
    pub(crate) asked: Instant,
    pub(crate) naming: Naming,
    /// The data of the attempt's node.
    pub(crate) data: Arc<[u8]>,
    /// The attempt's deadline. For an acquire that does not wait for the lock, this is the deadline
    /// for the server's reply. It has no end if the client's connect timeout applies.
    pub(crate) deadline: Deadline,
    /// Sender for the outcome. `None` if the attempt is in the cohort's line, which then stores the
    /// sender.
    pub(crate) reply: Option<Reply<Lease>>,
}

impl AcquireAttempt {
    /// Sends the outcome to the caller, or drops it if the caller no longer waits. A dropped lease
    /// is released.
    pub(crate) fn answer(self, outcome: Result<Lease>) {
        if let Some(reply) = self.reply {
            reply.send(outcome).ok();
        }
    }

    /// Returns `true` if a holder can hand the lock to this attempt.
    pub(crate) fn is_in_cohort(&self) -> bool {
        self.reply.is_none()
    }

    /// Returns the mode that the caller asked for.
    pub(crate) fn mode(&self) -> LockMode {
        // To acquire a permit, the semaphore also requests its internal mutex. Show both as a
        // permit.
        let turn = self.claim.is_part() && self.claim.kind == Kind::Exclusive;
        if turn { LockMode::Permit } else { self.claim.kind.into() }
    }
}

/// A question that a handle asks the server through the driver.
pub(crate) enum Query {
    /// The contenders for this lock.
    Contenders { place: LockPath, reply: Reply<Vec<Contender>> },
    /// The first contender for this lock, with a watch if requested.
    First { place: LockPath, watch: bool, reply: Reply<First> },
    /// The number of contenders.
    Count { place: LockPath, reply: Reply<usize> },
    /// The children of this node, and the number of children ever created under it. `None` if the
    /// node does not exist.
    List { node: Arc<str>, reply: Reply<Option<Listing>> },
    /// The data and the owner of this node. `None` if the node does not exist.
    ReadNode { node: Arc<str>, reply: Reply<Option<NodeContent>> },
    /// Whether the node at this full path exists. The server catches up with its leader before it
    /// replies.
    Exists { node: Arc<str>, reply: Reply<bool> },
    /// The data of this node, with a watch if requested.
    ReadData { node: Arc<str>, watch: bool, reply: Reply<Option<VersionedData>> },
    /// Set the data of this node. If it does not exist, create it and its parents.
    Put { node: Arc<str>, data: Vec<u8>, reply: Reply<()> },
    /// Ask the contender at this full path to give up the lock, or delete its node.
    ActOnNode { node: Arc<str>, action: NodeAction, reply: Reply<()> },
}

/// An operator's action on a contender's node.
#[derive(Clone, Copy, Debug)]
pub(crate) enum NodeAction {
    /// Ask the owner to give up the lock.
    Revoke,
    /// Delete the node.
    Break,
}

/// An input of the driver.
pub(crate) enum Input {
    Command(Command),
    Queue {
        directory: DirectoryId,
        connection_number: u64,
        event: Event,
    },
    Session(SessionEvent),
    /// A request to the owner of this node to give up its lock.
    Revoked {
        directory: DirectoryId,
        node: NodeName,
        /// The version of the data that contains the request.
        version: i32,
    },
    /// A search found a deadlock between a waiter's owner and another owner. The other owner waits
    /// for the hold with the index `held` in the searched list of holds.
    Deadlock {
        directory: DirectoryId,
        join: JoinId,
        held: usize,
        found: Box<Deadlock>,
    },
}

/// An event of a session. The first field is the session's number. The driver ignores late events
/// of an earlier session.
pub(crate) enum SessionEvent {
    /// The search for a session has ended.
    Established(u64, Result<Session, ConnectRefusal>),
    /// The client crate reports a new state.
    State(u64, zk::SessionState),
    /// The session has ended, which the client crate does not detect: a server's reply says so, or
    /// the server has assigned another session after a reconnection (rule 11).
    Over(u64),
    /// The client crate's task that serves the session has ended. After a normal end, a `State`
    /// event gives the reason.
    SessionTaskEnded(u64),
    /// A task of the session panicked, with this message.
    Panicked(u64, String),
    /// The server replied to a heartbeat. The second number is the connection's number.
    HeartbeatAnswered(u64, u64, Checked),
}

/// Identifies a lock directory in its driver, from its first waiter until the last of our nodes
/// there is gone. A driver never reuses an id.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DirectoryId(u64);

impl DirectoryId {
    /// Returns the next id.
    pub(crate) fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// One of our nodes, with its directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OwnNode {
    pub(crate) directory: DirectoryId,
    /// The path of the directory.
    pub(crate) path: Arc<str>,
    pub(crate) name: NodeName,
}

/// The result of a heartbeat for the nodes that it checked.
#[derive(Default)]
pub(crate) struct Checked {
    /// The nodes that do not exist.
    pub(crate) missing: Vec<OwnNode>,
    /// The last node that this heartbeat checked. `None` if it checked all its nodes.
    pub(crate) last: Option<OwnNode>,
    /// `true` if the server carried out the heartbeat. This does not yet prove that the session is
    /// alive: for the proof, one of our nodes must also exist.
    pub(crate) answered: bool,
}

/// The handles' end of the channel. Only handles have it, so the client closes when the last handle
/// is dropped.
pub(crate) struct Mailbox {
    pub(crate) origin: ForkGuard,
    pub(crate) status: Arc<Status>,
    pub(crate) sender: mpsc::UnboundedSender<Input>,
}

/// The driver's end of the channel.
pub(crate) struct Inbox {
    pub(crate) status: Arc<Status>,
    /// Sender for reports from the driver's own tasks.
    pub(crate) sender: mpsc::UnboundedSender<Input>,
    pub(crate) receiver: mpsc::UnboundedReceiver<Input>,
}

impl Mailbox {
    pub(crate) fn new() -> (Self, Inbox) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let status: Arc<Status> = Arc::default();
        let inbox = Inbox { status: Arc::clone(&status), sender: sender.clone(), receiver };
        (Self { origin: ForkGuard::new(), status, sender }, inbox)
    }

    /// Returns `true` if this client is open and belongs to this process.
    pub(crate) fn usable(&self) -> bool {
        self.origin.is_here() && self.status.is_open()
    }

    pub(crate) fn send(&self, command: Command) -> Result<()> {
        self.origin.check()?;
        if !self.status.is_open() {
            return Err(Error::client_closed());
        }
        self.sender.send(Input::Command(command)).map_err(|_| Error::client_closed())
    }

    /// Waits for the driver's reply. Returns an error if the session ends before the reply arrives.
    pub(crate) async fn answer<T>(&self, answer: oneshot::Receiver<Result<T>>) -> Result<T> {
        answer.await.unwrap_or_else(|_| Err(self.no_answer()))
    }

    /// Asks the driver to close when the client holds no lock, or at this deadline. Returns `None`
    /// if the driver has ended.
    pub(crate) fn drain(&self, until: Deadline) -> Option<oneshot::Receiver<()>> {
        let (done, closed) = oneshot::channel();
        self.sender.send(Input::Command(Command::Drain { until, done })).ok().map(|()| closed)
    }

    /// Asks the driver to close. Returns `None` if it has ended.
    pub(crate) fn close(&self) -> Option<oneshot::Receiver<()>> {
        close(&self.sender)
    }
}

/// Asks a driver to close. Returns `None` if it has ended.
pub(crate) fn close(driver: &mpsc::UnboundedSender<Input>) -> Option<oneshot::Receiver<()>> {
    let (done, closed) = oneshot::channel();
    driver.send(Input::Command(Command::Close { done: Some(done) })).ok().map(|()| closed)
}

impl Report for Mailbox {
    fn report(&self, directory: &Arc<str>, notice: Notice) -> Result<()> {
        self.send(Command::Hold { path: Arc::clone(directory), notice })
    }

    fn no_answer(&self) -> Error {
        if self.usable() { Error::unanswered() } else { Error::client_closed() }
    }

    fn heard_since(&self, since: Instant) -> bool {
        self.status.heard_since(since)
    }
}

impl Drop for Mailbox {
    fn drop(&mut self) {
        // A forked child must not close the parent's driver.
        if self.origin.is_here() {
            self.sender.send(Input::Command(Command::Close { done: None })).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;
    use crate::error::loss_reason::LossReason;
    use crate::lease::hold::HoldId;

    fn expired() -> Notice {
        let node = NodeName::parse("lock-0000000001").expect("a node's name");
        Notice::Expired { hold: HoldId { node, handoffs: 0 }, reason: LossReason::TermEnded }
    }

    #[test]
    fn what_is_sent_before_there_is_a_driver_waits_for_it() {
        let (mailbox, mut inbox) = Mailbox::new();
        mailbox.report(&"/lock".into(), expired()).unwrap();
        let input = inbox.receiver.try_recv();
        assert!(matches!(input, Ok(Input::Command(Command::Hold { notice: Notice::Expired { .. }, .. }))));
    }

    #[test]
    fn nothing_is_taken_once_the_driver_has_ended() {
        let (mailbox, inbox) = Mailbox::new();
        drop(inbox);
        let refused = mailbox.report(&"/lock".into(), expired()).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ClientClosed);
        assert!(mailbox.close().is_none());
    }

    #[test]
    fn the_client_closes_with_its_last_handle() {
        let (mailbox, mut inbox) = Mailbox::new();
        drop(mailbox);
        assert!(matches!(inbox.receiver.try_recv(), Ok(Input::Command(Command::Close { done: None }))));
    }
}
