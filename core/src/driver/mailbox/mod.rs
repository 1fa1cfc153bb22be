//! What the handles say to the driver, and everything else that reaches it: one channel, in the order in which things
//! happened.

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
use crate::driver::status::{ClientState, Status};
use crate::error::deadlock::Deadlock;
use crate::error::{Error, Result};
use crate::lease::Lease;
use crate::lease::hold::{AcquireRequest, HoldTable, Notice, Report};
use crate::lease::mode::LockMode;
use crate::queue::contender::Contender;
use crate::queue::{Event, Intent, JoinId, Kind, Naming, NodeName};
use crate::runtime::fork::ForkGuard;
use crate::session::{ConnectRefusal, Session};

/// Where the answer to a question goes.
pub(crate) type Reply<T> = oneshot::Sender<Result<T>>;

/// What a handle wants. A path is a lock directory's, from the ensemble's root.
pub(crate) enum Command {
    /// Report when there is a session.
    Connect { reply: Reply<()> },
    /// Acquire a lock.
    Join(AcquireAttempt),
    /// This attempt is no longer wanted.
    Leave { path: Arc<str>, join: JoinId },
    /// Something about a hold.
    Hold { path: Arc<str>, notice: Notice },
    /// Ask the server something that no queue needs to know.
    Ask(Query),
    /// Take no new attempts; end the session and the driver when nothing is held any more, or when this time is up.
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
    /// Since when its caller has waited.
    pub(crate) asked: Instant,
    pub(crate) naming: Naming,
    /// The data of its node.
    pub(crate) data: Arc<[u8]>,
    /// When its time is up. For a try: by when a server has to answer, if that is not left to its client.
    pub(crate) deadline: Deadline,
    /// Where the outcome goes. `None` while the attempt stands in its client's line, which has the reply then.
    pub(crate) reply: Option<Reply<Lease>>,
}

impl AcquireAttempt {
    /// Tells its caller the outcome. A lease that no one receives is dropped, which releases it.
    pub(crate) fn answer(self, outcome: Result<Lease>) {
        if let Some(reply) = self.reply {
            reply.send(outcome).ok();
        }
    }

    /// Whether a holder may hand the lock to it.
    pub(crate) fn is_in_line(&self) -> bool {
        self.reply.is_none()
    }

    /// What its caller wants.
    pub(crate) fn mode(&self) -> LockMode {
        // The turn in which permits are acquired is taken as a mutex, in a directory of its own.
        let turn = self.claim.is_part() && self.claim.kind == Kind::Exclusive;
        if turn { LockMode::Permit } else { self.claim.kind.into() }
    }
}

/// What a handle asks the server, through the driver.
pub(crate) enum Query {
    /// The contenders at this place.
    Contenders { place: LockPath, reply: Reply<Vec<Contender>> },
    /// The first contender at this place, with a watch if requested.
    First { place: LockPath, watch: bool, reply: Reply<First> },
    /// The number of contenders.
    Count { place: LockPath, reply: Reply<usize> },
    /// This node's children, and how many there have been; nothing if there is no node.
    List { node: Arc<str>, reply: Reply<Option<Listing>> },
    /// This node's data, and whose it is; nothing if there is no node.
    Look { node: Arc<str>, reply: Reply<Option<NodeContent>> },
    /// Whether there is a node at this full path, which another client was granted a lock through. Not answered by a
    /// server that lags behind.
    Exists { node: Arc<str>, reply: Reply<bool> },
    /// The data of this node, with a watch if requested.
    Number { node: Arc<str>, watch: bool, reply: Reply<Option<VersionedData>> },
    /// Set the data of this node, and create it and its parents if there is none.
    Put { node: Arc<str>, data: Vec<u8>, reply: Reply<()> },
    /// Do something to the contender's node at this full path.
    Touch { node: Arc<str>, touch: NodeAction, reply: Reply<()> },
}

/// What is done to a contender's node.
#[derive(Clone, Copy, Debug)]
pub(crate) enum NodeAction {
    /// Its owner is asked to give up the lock.
    Revoke,
    /// It is deleted.
    Break,
}

/// What reaches a driver.
pub(crate) enum Input {
    Command(Command),
    /// An event for the queue of this directory, from the connection with this number.
    Queue {
        directory: DirectoryId,
        connection_number: u64,
        event: Event,
    },
    News(SessionEvent),
    /// The owner of this node is asked to give up its lock.
    Revoked {
        directory: DirectoryId,
        node: NodeName,
        /// The version of the data that asks for it.
        version: i32,
    },
    /// A waiter's owner and another one wait for each other. `held`: the number of its hold among those that were looked
    /// at.
    Deadlock {
        directory: DirectoryId,
        join: JoinId,
        held: usize,
        found: Box<Deadlock>,
    },
}

/// News of a session, with the session's number: late news of an earlier one is ignored.
pub(crate) enum SessionEvent {
    /// The search for a session is over.
    Established(u64, Result<Session, ConnectRefusal>),
    /// The crate reports a state.
    State(u64, zk::SessionState),
    /// The session is over. The server says so of an operation, where the client crate does not look; or it answers for
    /// a different session, because it could not restore ours (rule 11).
    Over(u64),
    /// The task that serves the session has ended. It says why, if it was to end.
    Unserved(u64),
    /// Something that runs on the session panicked, in these words.
    Panicked(u64, String),
    /// A heartbeat was answered, on the connection with this number.
    Beaten(u64, u64, Checked),
}

/// Identifies a lock directory in its driver, from the first waiter to the end of the last node of ours. No other directory
/// of the driver ever gets the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DirectoryId(u64);

impl DirectoryId {
    /// The one after this.
    pub(crate) fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// A node of ours, with its directory.
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
    /// The last node that was checked, if the nodes behind it were not.
    pub(crate) last: Option<OwnNode>,
    /// Whether the server carried the heartbeat out. If it found a node missing, that proves nothing: the missing node may
    /// be the one that would have told whose session this is.
    pub(crate) answered: bool,
}

/// The handles' end of the channel. The driver does not keep it: when the last handle is dropped, the client closes.
pub(crate) struct Mailbox {
    pub(crate) origin: ForkGuard,
    pub(crate) status: Arc<Status>,
    sender: mpsc::UnboundedSender<Input>,
}

/// The driver's end. What is sent before there is a driver waits in it.
pub(crate) struct Inbox {
    pub(crate) status: Arc<Status>,
    /// For what the driver's own tasks have to report.
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

    /// Whether new work can be given to this client in this process.
    pub(crate) fn usable(&self) -> bool {
        self.origin.is_here() && self.status.get() != ClientState::Closed
    }

    pub(crate) fn send(&self, command: Command) -> Result<()> {
        self.origin.check()?;
        if self.status.get() == ClientState::Closed {
            return Err(Error::client_closed());
        }
        self.sender.send(Input::Command(command)).map_err(|_| Error::client_closed())
    }

    /// The driver's answer. There is none once the session is over, because what it asked then has no answer.
    pub(crate) async fn answer<T>(&self, answer: oneshot::Receiver<Result<T>>) -> Result<T> {
        answer.await.unwrap_or_else(|_| Err(self.no_answer()))
    }

    /// Tells the driver to close when nothing is held any more, or at this time; `None` if it has ended.
    pub(crate) fn drain(&self, until: Deadline) -> Option<oneshot::Receiver<()>> {
        let (done, closed) = oneshot::channel();
        self.sender.send(Input::Command(Command::Drain { until, done })).ok().map(|()| closed)
    }

    /// Tells the driver to close; `None` if it has ended.
    pub(crate) fn close(&self) -> Option<oneshot::Receiver<()>> {
        close(&self.sender)
    }
}

/// Tells a driver to close; `None` if it has ended.
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
        // A forked child leaves the parent's driver alone.
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
