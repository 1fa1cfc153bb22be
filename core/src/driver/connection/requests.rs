//! Sends the requests of a lock's queue, and reports their outcomes to the driver.

use std::fmt::Write;
use std::future::Future;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use tokio::sync::{mpsc, oneshot};
use zklock_transport::{Limits, TooLarge};
use zookeeper_client as zk;
use zookeeper_client::{Acls, CreateMode, EventType};

use super::counted_client::CountedClient;
use super::request_size;
use crate::config::acl::Acl;
use crate::config::{ClientOptions, size_limits};
use crate::driver::mailbox::{DirectoryId, Input, SessionEvent};
use crate::error::escape::Escaped;
use crate::metrics::RequestKind;
use crate::queue::contender::NodeSnapshot;
use crate::queue::{Event, NodeName, Outcome, Refusal, Ticket};
use crate::runtime::clock::BootInstant;
use crate::runtime::supervise::Tasks;
use crate::session::reply;
use crate::session::reply::{Judged, NodeOwner, SessionEvidence, failed};
use crate::session::term::Term;

/// Curator and zklock write this data to a node to ask its owner to give up the lock.
pub(in crate::driver) const REVOKE: &[u8] = b"__REVOKE__";

/// Maximum length in bytes of node data that the client stores. Longer data is ignored. The data of
/// our own nodes has about 150 bytes.
pub(in crate::driver) const LONGEST_DATA: usize = 4096;

/// A snapshot of a node, set when the node has been read.
pub(in crate::driver) type SnapshotCell = Arc<OnceLock<Arc<NodeSnapshot>>>;

/// Matches any version of a node when it is passed as the expected version.
pub(in crate::driver) const ANY_VERSION: i32 = -1;

/// Access control lists for new nodes.
#[derive(Clone)]
pub(in crate::driver) struct AccessLists {
    /// List for contenders' nodes and lock directories.
    pub(in crate::driver) own: Arc<[zk::Acl]>,
    /// List for the parents of lock directories.
    pub(in crate::driver) parents: Arc<[zk::Acl]>,
}

impl AccessLists {
    pub(in crate::driver) fn of(options: &ClientOptions) -> Self {
        let parents =
            options.parent_acl.as_deref().map_or_else(|| options.acl.to_parents_list(), Acl::to_list);
        Self { own: options.acl.to_list().into(), parents: parents.into() }
    }
}

/// State that all requests on a session share.
pub(in crate::driver) struct SessionContext {
    pub(in crate::driver) client: CountedClient,
    /// The client crate's tasks, which end with the session.
    pub(in crate::driver) tasks: Tasks,
    pub(in crate::driver) term: Arc<Term>,
    /// Length of the client's chroot, with which every path begins.
    pub(in crate::driver) chroot: usize,
    pub(in crate::driver) lists: AccessLists,
    /// Size limits for the replies that the client reads.
    pub(in crate::driver) limits: Limits,
    pub(in crate::driver) epoch: u64,
    pub(in crate::driver) sender: mpsc::UnboundedSender<Input>,
}

/// Sends requests about one lock directory on one session and reports their outcomes.
pub(in crate::driver) struct DirectoryClient {
    pub(in crate::driver) session_context: Arc<SessionContext>,
    /// The directory that receives the outcomes.
    pub(in crate::driver) directory: DirectoryId,
    pub(in crate::driver) path: Arc<str>,
    pub(in crate::driver) connection_number: u64,
}

impl Deref for DirectoryClient {
    type Target = SessionContext;

    fn deref(&self) -> &SessionContext {
        &self.session_context
    }
}

impl DirectoryClient {
    fn report(&self, event: Event) {
        let (directory, connection_number) = (self.directory, self.connection_number);
        self.sender.send(Input::Queue { directory, connection_number, event }).ok();
    }

    pub(in crate::driver) fn child(&self, name: &str) -> String {
        [&*self.path, "/", name].concat()
    }

    /// Returns the path without the chroot, as the program wrote it.
    pub(in crate::driver) fn shown(&self) -> &str {
        match &self.path[self.chroot..] {
            "" => "/",
            path => path,
        }
    }

    fn session(&self) -> i64 {
        self.client.session_id()
    }

    /// Handles the reply to a request that was sent at `sent`. Extends the term if the reply proves
    /// that the session is alive. Notifies the driver if the session has ended.
    fn report_judged(&self, sent: BootInstant, (event, verdict): Judged) {
        match verdict {
            SessionEvidence::Alive => self.term.prove(sent, self.connection_number),
            SessionEvidence::Over => self.report_end(),
            SessionEvidence::Unknown => {}
        }
        self.report(event);
    }

    /// Reports that the session is over.
    pub(in crate::driver) fn report_end(&self) {
        self.sender.send(Input::Session(SessionEvent::Over(self.epoch))).ok();
    }

    pub(in crate::driver) async fn create(self, ticket: Ticket, prefix: String, data: Arc<[u8]>) {
        let options = CreateMode::EphemeralSequential.with_acls(self.acls());
        let sent = BootInstant::now();
        let made = self.client.ask(RequestKind::Create).create(&self.child(&prefix), &data, &options).await;
        self.report_created(ticket, sent, prefix, made);
    }

    /// Creates a node and then lists the children, in one task. Drops `unanswered` when the server
    /// replies to the create.
    pub(in crate::driver) async fn create_and_list(
        self,
        (ticket, listing): (Ticket, Ticket),
        prefix: String,
        data: Arc<[u8]>,
        unanswered: Arc<()>,
    ) {
        let options = CreateMode::EphemeralSequential.with_acls(self.acls());
        let sent = BootInstant::now();
        // Send both requests before waiting for a reply. The server answers them in order.
        let path = self.child(&prefix);
        let made = self.client.ask(RequestKind::Create).create(&path, &data, &options);
        let listed = self.client.ask(RequestKind::List).list_children(&self.path);
        let made = made.await;
        drop(unanswered);
        self.report_created(ticket, sent, prefix, made);
        self.report(self.listed(listing, Ok(()), listed.await));
    }

    fn report_created(
        &self,
        ticket: Ticket,
        sent: BootInstant,
        mut name: String,
        made: Result<(zk::Stat, zk::CreateSequence), zk::Error>,
    ) {
        let made = made.map(|(stat, sequence)| {
            write!(name, "{sequence}").ok();
            (name, stat.into())
        });
        self.report_judged(sent, reply::created(ticket, self.session(), made));
    }

    /// Creates the node of a reader for a downgrade: the reader takes over the queue position of
    /// its owner's writer. One transaction creates the node and checks that the writer's node
    /// exists.
    ///
    /// A second request reads the new node's Stat, which names the session that owns the node. The
    /// Stat in the transaction's reply is invalid before ZooKeeper 3.7.2 and 3.8.2
    /// (ZOOKEEPER-4026).
    pub(in crate::driver) async fn create_beside(
        self,
        ticket: Ticket,
        writer: NodeName,
        name: String,
        data: Arc<[u8]>,
    ) {
        let options = CreateMode::Ephemeral.with_acls(self.acls());
        let (node, sent) = (self.child(&name), BootInstant::now());
        let mut multi = self.client.ask(RequestKind::Create).new_multi_writer();
        let added = multi.add_check_version(&self.child(writer.as_str()), ANY_VERSION);
        if let Err(error) = added.and_then(|()| multi.add_create(&node, &data, &options)) {
            return self.report(Event::Created(ticket, failed(&error)));
        }
        let committed = multi.commit();
        let found = self.client.ask(RequestKind::Verify).check_stat(&node);
        let committed = committed.await;
        let found = if reply::needs_stat(&committed) { found.await } else { Ok(None) };
        let found = found.map(|stat| stat.map(NodeOwner::from));
        self.report_judged(sent, reply::created_beside(ticket, self.session(), name, committed, found));
    }

    pub(in crate::driver) async fn create_in_place(self, ticket: Ticket, name: String, data: Arc<[u8]>) {
        let options = CreateMode::Ephemeral.with_acls(self.acls());
        let (node, sent) = (self.child(&name), BootInstant::now());
        let judged = match self.client.ask(RequestKind::Create).create(&node, &data, &options).await {
            Err(zk::Error::NodeExists) => {
                let found = self.client.ask(RequestKind::Verify).check_stat(&node).await;
                let found = found.map(|stat| stat.map(NodeOwner::from));
                reply::found_in_place(ticket, self.session(), name, found)
            }
            made => reply::created(ticket, self.session(), made.map(|(stat, _)| (name, stat.into()))),
        };
        self.report_judged(sent, judged);
    }

    pub(in crate::driver) async fn list(self, ticket: Ticket, sync: bool) {
        // Send both requests before waiting for a reply. The server answers them in order.
        let synced = sync.then(|| self.client.ask(RequestKind::Sync).sync(&self.path));
        let listed = self.client.ask(RequestKind::List).list_children(&self.path);
        let synced = match synced {
            Some(synced) => synced.await,
            None => Ok(()),
        };
        self.report(self.listed(ticket, synced, listed.await));
    }

    /// Lists the children and waits until the watch on them fires. Drops `unanswered` when the
    /// server replies to the listing. If this future is dropped, the watch is removed on the
    /// server.
    pub(in crate::driver) async fn list_and_watch(
        self,
        ticket: Ticket,
        sync: bool,
        unanswered: oneshot::Sender<()>,
    ) {
        let outcome = {
            let synced = sync.then(|| self.client.ask(RequestKind::Sync).sync(&self.path));
            let listed = self.client.ask(RequestKind::List).list_and_watch_children(&self.path);
            let synced = match synced {
                Some(synced) => synced.await,
                None => Ok(()),
            };
            listed.await.and_then(|listed| synced.map(|()| listed))
        };
        drop(unanswered);
        match outcome {
            Ok((children, watcher)) => {
                self.report(reply::listed(ticket, Ok(()), Ok(children)));
                self.await_change(ticket, watcher).await;
            }
            Err(error) => self.report(self.listed(ticket, Ok(()), Err(error))),
        }
    }

    /// Converts the reply to a listing into an event. If the directory is too large to list, the
    /// event is a refusal, because a retry would fail too.
    fn listed(
        &self,
        ticket: Ticket,
        synced: Result<(), zk::Error>,
        children: Result<Vec<String>, zk::Error>,
    ) -> Event {
        match children.as_ref().err().and_then(|error| too_large(error, self.limits)) {
            Some(problem) => Event::Listed(ticket, Outcome::Refused(Refusal::TooLarge(problem))),
            None => reply::listed(ticket, synced, children),
        }
    }

    /// Asks in one request which of these nodes exist, by reading their children. Ephemeral nodes
    /// have no children, so the reply is short, regardless of the nodes' data.
    pub(in crate::driver) async fn probe(self, ticket: Ticket, names: Vec<NodeName>) {
        if request_size::readable(&self.path, &names) < names.len() {
            return self.report(reply::probed(ticket, names, Err(zk::Error::MarshallingError)));
        }
        let mut reader = self.client.ask(RequestKind::Verify).new_multi_reader();
        let added = names.iter().try_for_each(|name| reader.add_get_children(&self.child(name.as_str())));
        let answer = match added {
            Ok(()) => reader.commit().await,
            Err(error) => Err(error),
        };
        let each = |one| match one {
            zk::MultiReadResult::Error { err } => Err(err),
            _ => Ok(()),
        };
        let answer = answer.map(|all| all.into_iter().map(each).collect());
        self.report(reply::probed(ticket, names, answer));
    }

    pub(in crate::driver) async fn verify(self, ticket: Ticket, name: NodeName) {
        let (node, sent) = (self.child(name.as_str()), BootInstant::now());
        let found = self.client.ask(RequestKind::Verify).check_stat(&node).await;
        let found = found.map(|stat| stat.map(NodeOwner::from));
        self.report_judged(sent, reply::verified(ticket, self.session(), found));
    }

    /// Watches a node and waits until the watch fires. Stores the node's content in `snapshot`, if
    /// given. If this future is dropped, the watch is removed on the server.
    ///
    /// Setting the watch has a box of its own, which is freed when the watch is set. A client can
    /// have ten thousand watches, each for days.
    pub(in crate::driver) fn watch(
        self,
        ticket: Ticket,
        name: NodeName,
        snapshot: Option<SnapshotCell>,
    ) -> impl Future<Output = ()> + Send {
        let setting = Box::pin(async move {
            let watcher = self.set_watch(name, snapshot).await;
            let (outcome, watcher) = watcher.map_or_else(|error| (Err(error), None), |it| (Ok(()), Some(it)));
            self.report(reply::watched(ticket, outcome));
            Some(self.await_change(ticket, watcher?))
        });
        async move {
            if let Some(changed) = setting.await {
                changed.await;
            }
        }
    }

    /// Sets a watch on a node and stores the node's content in `snapshot`.
    async fn set_watch(
        &self,
        name: NodeName,
        snapshot: Option<SnapshotCell>,
    ) -> Result<zk::OneshotWatcher, zk::Error> {
        let path = self.child(name.as_str());
        // Set the watch with a read of the data. Unlike a request for the Stat, a read sets no
        // watch if the node is missing. If the client lacks the right to read (`NoAuth`), request
        // the Stat instead.
        match self.client.ask(RequestKind::Watch).get_and_watch_data(&path).await {
            Ok((data, stat, watcher)) => {
                if let Some(snapshot) = snapshot {
                    let data = (data.len() <= LONGEST_DATA).then(|| data.clone());
                    snapshot.set(Arc::new(NodeSnapshot::new(&stat, data))).ok();
                }
                if data == REVOKE {
                    let (directory, node, version) = (self.directory, name, stat.version);
                    self.sender.send(Input::Revoked { directory, node, version }).ok();
                }
                Ok(watcher)
            }
            Err(zk::Error::NoAuth) => {
                match self.client.ask(RequestKind::Watch).check_and_watch_stat(&path).await {
                    Ok((Some(stat), watcher)) => {
                        if let Some(snapshot) = snapshot {
                            snapshot.set(Arc::new(NodeSnapshot::new(&stat, None))).ok();
                        }
                        Ok(watcher)
                    }
                    Ok((None, _)) => Err(zk::Error::NoNode),
                    Err(error) => Err(error),
                }
            }
            Err(error) => Err(error),
        }
    }

    pub(in crate::driver) async fn restore_data(self, name: NodeName, data: Vec<u8>, version: i32) {
        let node = self.child(name.as_str());
        let restored = self.client.ask(RequestKind::Write).set_data(&node, &data, Some(version)).await;
        if let Err(error) = restored {
            let (path, node) = (Escaped(self.shown()), Escaped(name.as_str()));
            tracing::debug!(%path, %node, %error, "cannot restore the data of a node after a revoke request");
        }
    }

    fn await_change(
        self,
        ticket: Ticket,
        watcher: zk::OneshotWatcher,
    ) -> impl Future<Output = ()> + Send + use<> {
        // A pending watch must not keep the session alive.
        let Self { session_context, directory, connection_number, .. } = self;
        let sender = session_context.sender.clone();
        drop(session_context);
        // Boxed, because an async block stores a future that it awaits twice.
        let changed = Box::pin(watcher.changed());
        async move {
            let event = match changed.await.event_type {
                EventType::NodeDeleted => Event::Gone(ticket),
                // The session is over. The driver learns of that separately.
                EventType::Session => return,
                _ => Event::Changed(ticket),
            };
            sender.send(Input::Queue { directory, connection_number, event }).ok();
        }
    }

    pub(in crate::driver) async fn delete(self, ticket: Ticket, name: NodeName) {
        let sent = BootInstant::now();
        let deleted = self.client.ask(RequestKind::Delete).delete(&self.child(name.as_str()), None).await;
        let judged = reply::deleted(ticket, self.term.is_proven_on(self.connection_number), deleted);
        if let (Event::Deleted(_, Outcome::Refused(refusal)), _) = &judged {
            let (path, node) = (Escaped(self.shown()), Escaped(name.as_str()));
            tracing::warn!(%path, %node, ?refusal, "the server refuses to delete a node of this client; the node stays in the queue until the session ends");
        }
        self.report_judged(sent, judged);
    }

    fn acls(&self) -> Acls<'_> {
        Acls::new(&self.lists.own)
    }

    /// Creates the lock directory and its parents as container nodes, which the server deletes some
    /// time after their last child is gone. `lock` is the length of the lock's path: nodes with
    /// shorter paths get the access control list for parents.
    pub(in crate::driver) async fn make_parents(self, ticket: Ticket, lock: usize) {
        let ends = self.path.match_indices('/').skip(1).map(|(at, _)| at).chain([self.path.len()]);
        let list = |at| if at < lock { &self.lists.parents } else { &self.lists.own };
        let levels: Vec<_> = ends.map(|at| (&self.path[..at], &**list(at))).collect();
        let all = match request_size::creates(&levels) {
            fits if fits <= size_limits::REQUEST => self.make_all(&levels).await,
            _ => Err(zk::Error::MarshallingError),
        };
        let outcome = match all {
            Ok(()) => Outcome::Done(()),
            Err(zk::Error::ConnectionLoss) => Outcome::Lost,
            Err(zk::Error::SessionExpired) => {
                self.report_end();
                Outcome::Lost
            }
            // The transaction fails if some of the nodes already exist, if the server does not
            // support containers, or if the request is too large. Create the nodes one by one,
            // without waiting for replies in between.
            Err(_) => self.make_each(&levels).await,
        };
        self.report(Event::ParentsMade(ticket, outcome));
    }

    /// Creates the directories above a node at this client's own path.
    pub(in crate::driver) async fn make_parents_of_node(&self) -> Outcome<()> {
        let ends = self.path.match_indices('/').skip(1).map(|(at, _)| at);
        let levels: Vec<_> = ends.map(|at| (&self.path[..at], &*self.lists.parents)).collect();
        self.make_each(&levels).await
    }

    async fn make_all(&self, levels: &[(&str, &[zk::Acl])]) -> Result<(), zk::Error> {
        let mut writer = self.client.ask(RequestKind::Parents).new_multi_writer();
        for (level, acl) in levels {
            writer.add_create(level, b"", &CreateMode::Container.with_acls(Acls::new(acl)))?;
        }
        writer.commit().await?;
        Ok(())
    }

    async fn make_each(&self, levels: &[(&str, &[zk::Acl])]) -> Outcome<()> {
        let mut outcome = Outcome::Done(());
        for mode in [CreateMode::Container, CreateMode::Persistent] {
            let options: Vec<_> = levels.iter().map(|(_, acl)| mode.with_acls(Acls::new(acl))).collect();
            let mut creates = Vec::new();
            for ((level, _), options) in levels.iter().zip(&options) {
                creates.push(self.client.ask(RequestKind::Parents).create(level, b"", options));
            }
            let (mut forbidden, mut last) = (false, Ok(()));
            for create in creates {
                last = create.await.map(drop);
                forbidden |= last == Err(zk::Error::NoAuth);
            }
            outcome = match last {
                Ok(()) | Err(zk::Error::NodeExists) => Outcome::Done(()),
                // Only the result for the lock directory counts. The server can refuse to create a
                // parent that already exists.
                Err(zk::Error::NoNode) if forbidden => Outcome::Refused(Refusal::NotAuthorized),
                Err(zk::Error::Unimplemented) => continue,
                Err(error) => failed(&error),
            };
            break;
        }
        outcome
    }
}

/// If the client rejected a reply because of its size, returns a text with the size and the limit.
pub(in crate::driver) fn too_large(error: &zk::Error, limits: Limits) -> Option<String> {
    let zk::Error::UnexpectedErrorCode(code) = error else { return None };
    let large = TooLarge::from_code(*code)?;
    let limit = match large {
        TooLarge::Size { .. } => format!("{} KiB", limits.max_frame / 1024),
        TooLarge::Names { .. } => format!("{} names", TooLarge::most_names(limits.max_frame)),
    };
    Some(format!("{large}, but the client reads at most {limit}"))
}
