//! Queries that handles send to the server without joining a queue.

mod contenders;
pub(super) mod deadlock;

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use zookeeper_client as zk;
use zookeeper_client::{Acls, CreateMode};

use super::connection::{Connection, request_size};
use super::errors;
use super::errors::{not_authorized, unreachable};
use crate::config::{ClientOptions, size_limits};
use crate::driver::connection::requests::{ANY_VERSION, DirectoryClient, REVOKE, too_large};
use crate::driver::mailbox::node_watch::{NodeWatch, VersionedData};
use crate::driver::mailbox::replies::{Listing, NodeContent};
use crate::driver::mailbox::{DirectoryId, NodeAction, Query, Reply};
use crate::error::loss_reason::LossReason;
use crate::error::{Error, ErrorKind, Result};
use crate::lease::transaction::WriteOperation;
use crate::metrics::RequestKind;
use crate::queue::{NodeName, Outcome, Refusal};
use crate::session::reply::is_over;
use crate::session::watch_budget::Reserved;

/// Maximum number of attempts to write a node while other clients create and delete it.
const MAX_PUT_ATTEMPTS: usize = 3;

/// The answer to a query, or `None` if the server did not answer.
type Answer<T> = Option<Result<T>>;

/// Sends a handle's query.
pub(super) fn start_query(connection: &mut Connection, options: &ClientOptions, query: Query) {
    let no_answer = unreachable(options, None, connection.servers());
    match query {
        Query::Contenders { place, reply } => {
            let path = Arc::clone(place.full());
            let question = |directory_client: DirectoryClient| async move {
                directory_client.read(place.path(), directory_client.contenders().await)
            };
            ask(connection, options, &path, no_answer, reply, question);
        }
        Query::First { place, watch, reply } => {
            let path = Arc::clone(place.full());
            let room = watch.then(|| connection.room().clone());
            let question = move |directory_client: DirectoryClient| async move {
                directory_client.read(place.path(), directory_client.first(room.as_ref()).await)
            };
            ask(connection, options, &path, no_answer, reply, question);
        }
        Query::Count { place, reply } => {
            let path = Arc::clone(place.full());
            let question = |directory_client: DirectoryClient| async move {
                directory_client.read(place.path(), directory_client.count().await)
            };
            ask(connection, options, &path, no_answer, reply, question);
        }
        Query::List { node, reply } => {
            let question = |directory_client: DirectoryClient| async move {
                directory_client.read(directory_client.shown(), directory_client.all_children().await)
            };
            ask(connection, options, &node, no_answer, reply, question);
        }
        Query::ReadNode { node, reply } => {
            let question = |directory_client: DirectoryClient| async move {
                directory_client.read(directory_client.shown(), directory_client.read_node().await)
            };
            ask(connection, options, &node, no_answer, reply, question);
        }
        Query::Exists { node, reply } => {
            let question = |directory_client: DirectoryClient| async move {
                directory_client.read(directory_client.shown(), directory_client.exists().await)
            };
            ask_until_answered(connection, options, &node, no_answer, reply, question);
        }
        Query::ReadData { node, watch, reply } => {
            let room = watch.then(|| connection.room().reserve(node.len())).flatten();
            let question = move |directory_client: DirectoryClient| async move {
                directory_client.read(directory_client.shown(), directory_client.read_versioned(room).await)
            };
            ask_until_answered(connection, options, &node, no_answer, reply, question);
        }
        Query::Put { node, data, reply } => {
            let question =
                move |directory_client: DirectoryClient| async move { directory_client.put(&data).await };
            ask(connection, options, &node, Error::unanswered(), reply, question);
        }
        Query::ActOnNode { node, action, reply } => {
            ask(connection, options, &node, no_answer, reply, move |directory_client| async move {
                directory_client.act_on_node(action).await
            });
        }
    }
}

/// Carries out a transaction that succeeds only if the lock's node exists. It is safe on a later
/// session than the lock's: node names are never reused, so the check still fails if the node was
/// deleted.
pub(super) fn transact(
    connection: &mut Connection,
    options: &ClientOptions,
    (path, node): (&Arc<str>, &NodeName),
    operations: Vec<WriteOperation>,
    reply: Reply<()>,
) {
    let (condition, chroot) = (format!("{path}/{}", node.as_str()), options.hosts.chroot.clone());
    let bytes = request_size::conditional(&condition, &chroot, &operations, connection.acl());
    if let Err(error) = size_limits::check("transaction", bytes, size_limits::REQUEST) {
        return drop(reply.send(Err(error)));
    }
    ask(connection, options, path, Error::unanswered(), reply, move |directory_client| async move {
        directory_client.transact(&condition, &chroot, &operations).await
    });
}

/// Runs `question`, which sends requests to the server, and sends its result to the caller. Sends
/// the error `no_answer` if there is no result within the connect timeout.
fn ask<T: Send + 'static, F>(
    connection: &mut Connection,
    options: &ClientOptions,
    path: &Arc<str>,
    no_answer: Error,
    reply: Reply<T>,
    question: impl FnOnce(DirectoryClient) -> F,
) where
    F: Future<Output = Answer<T>> + Send + 'static,
{
    if let Some((question, reply)) = prepare(connection, options, path, reply, question) {
        let limit = options.connect_timeout;
        drop(connection.spawn(async move {
            send_answer(pin!(question), limit, no_answer, reply).await;
        }));
    }
}

/// Like `ask`, for a question that the caller repeats until there is a result. The question must be
/// a single request. If the server never replies to it, the driver gives up the session (rule 16),
/// even if the caller has already received `no_answer`.
fn ask_until_answered<T: Send + 'static, F>(
    connection: &mut Connection,
    options: &ClientOptions,
    path: &Arc<str>,
    no_answer: Error,
    reply: Reply<T>,
    question: impl FnOnce(DirectoryClient) -> F,
) where
    F: Future<Output = Answer<T>> + Send + 'static,
{
    if let Some((question, reply)) = prepare(connection, options, path, reply, question) {
        let limit = options.connect_timeout;
        connection.spawn_request(async move {
            let mut question = pin!(question);
            if !send_answer(question.as_mut(), limit, no_answer, reply).await {
                drop(question.await);
            }
        });
    }
}

/// Creates the future of a question. Returns `None` and sends an error to the caller if there is no
/// session.
fn prepare<T, F>(
    connection: &Connection,
    options: &ClientOptions,
    path: &Arc<str>,
    reply: Reply<T>,
    question: impl FnOnce(DirectoryClient) -> F,
) -> Option<(F, Reply<T>)> {
    if let Some(directory_client) = connection.directory_client(DirectoryId::default(), path) {
        return Some((question(directory_client), reply));
    }
    reply.send(Err(unreachable(options, None, connection.servers()))).ok();
    None
}

/// Sends the result of a question to the caller, and returns `true`. If there is no result within
/// the limit, sends the error `no_answer`, and returns `false`.
async fn send_answer<T>(
    question: Pin<&mut impl Future<Output = Answer<T>>>,
    limit: Duration,
    no_answer: Error,
    reply: Reply<T>,
) -> bool {
    let answer = tokio::time::timeout(limit, question).await;
    let in_time = answer.is_ok();
    reply.send(answer.ok().flatten().unwrap_or(Err(no_answer))).ok();
    in_time
}

fn unless_missing<T>(read: Result<T, zk::Error>) -> Result<Option<T>, zk::Error> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(zk::Error::NoNode) => Ok(None),
        Err(error) => Err(error),
    }
}

impl DirectoryClient {
    /// Converts the outcome of a read for the caller. Error messages show `path` as the caller
    /// passed it.
    fn read<T>(&self, path: &str, outcome: Result<T, zk::Error>) -> Answer<T> {
        match outcome {
            Ok(value) => Some(Ok(value)),
            Err(zk::Error::NoAuth) => Some(Err(not_authorized(path))),
            Err(error) => Some(Err(errors::too_large(path, &too_large(&error, self.limits)?))),
        }
    }

    async fn all_children(&self) -> Result<Option<Listing>, zk::Error> {
        let listed = self.client.ask(RequestKind::List).get_children(&self.path).await;
        unless_missing(
            listed.map(|(names, stat)| Listing::new(names, stat.czxid, stat.cversion, stat.num_children)),
        )
    }

    async fn read_node(&self) -> Result<Option<NodeContent>, zk::Error> {
        let read = self.client.ask(RequestKind::Read).get_data(&self.path).await;
        unless_missing(read.map(|(data, stat)| NodeContent {
            data,
            czxid: stat.czxid,
            session_id: stat.ephemeral_owner,
            created: stat.ctime,
        }))
    }

    /// Returns `true` if there is a node at `self.path`. The server catches up with its leader
    /// before it replies.
    async fn exists(&self) -> Result<bool, zk::Error> {
        // Send both requests before waiting for a reply. The server answers them in order.
        let synced = self.client.ask(RequestKind::Sync).sync(&self.path);
        let found = self.client.ask(RequestKind::Verify).check_stat(&self.path);
        synced.await?;
        Ok(found.await?.is_some())
    }

    /// Returns the data of the node at `self.path`, or `None` if there is no node. If `room` is
    /// given, also sets a watch.
    async fn read_versioned(&self, room: Option<Reserved>) -> Result<Option<VersionedData>, zk::Error> {
        let read = if let Some(room) = room {
            let read = self.client.ask(RequestKind::Watch).get_and_watch_data(&self.path).await;
            read.map(|(data, stat, watcher)| {
                let changed = Some(NodeWatch { watcher, room, tasks: self.tasks.clone() });
                VersionedData { data, version: stat.version, changed }
            })
        } else {
            self.client.ask(RequestKind::Read).get_data(&self.path).await.map(|(data, stat)| VersionedData {
                data,
                version: stat.version,
                changed: None,
            })
        };
        unless_missing(read)
    }

    /// Sets the data of the node at `self.path`. Creates the node and its parents if necessary.
    /// Retries, because other clients can create or delete the node at the same time.
    async fn put(&self, data: &[u8]) -> Answer<()> {
        let options = CreateMode::Persistent.with_acls(Acls::new(&self.lists.own));
        let mut outcome = Err(zk::Error::NoNode);
        for _ in 0..MAX_PUT_ATTEMPTS {
            outcome = self.client.ask(RequestKind::Write).set_data(&self.path, data, None).await.map(drop);
            if outcome != Err(zk::Error::NoNode) {
                break;
            }
            let create = || self.client.ask(RequestKind::Write).create(&self.path, data, &options);
            outcome = create().await.map(drop);
            if outcome == Err(zk::Error::NoNode) {
                if let Outcome::Refused(Refusal::NotAuthorized) = self.make_parents_of_node().await {
                    return Some(Err(not_authorized(self.shown())));
                }
                outcome = create().await.map(drop);
            }
            if outcome != Err(zk::Error::NodeExists) {
                break;
            }
        }
        self.read(self.shown(), outcome)
    }

    async fn act_on_node(&self, action: NodeAction) -> Answer<()> {
        let node = &self.path;
        let done = match action {
            NodeAction::Revoke => {
                self.client.ask(RequestKind::Revoke).set_data(node, REVOKE, None).await.map(drop)
            }
            NodeAction::Break => self.client.ask(RequestKind::Delete).delete(node, None).await,
        };
        if done == Err(zk::Error::NoNode) {
            let message = format!("the contender {:?} does not exist, or no longer exists", self.shown());
            return Some(Err(Error::new(ErrorKind::NotHeld, message)));
        }
        self.read(self.shown(), done)
    }

    /// Carries out operations on condition that a node exists.
    async fn transact(&self, condition: &str, chroot: &str, operations: &[WriteOperation]) -> Answer<()> {
        let mut writer = self.client.ask(RequestKind::Transaction).new_multi_writer();
        let mut add_all = || {
            writer.add_check_version(condition, ANY_VERSION)?;
            operations.iter().try_for_each(|operation| add(&mut writer, chroot, &self.lists.own, operation))
        };
        if let Err(error) = add_all() {
            let message = format!("nothing was written: {error}");
            return Some(Err(Error::new(ErrorKind::TransactionFailed, message)));
        }
        let committed = writer.commit().await;
        let over = is_over(&committed);
        let shown = &condition[self.chroot..];
        if over {
            self.report_end();
        }
        match committed {
            // A failed operation means that the server has written nothing. If the request itself
            // failed, the outcome is unknown.
            Err(zk::MultiWriteError::OperationFailed { .. }) if over => {
                let message = "the session has ended, so the lock is lost; nothing was written";
                Some(Err(Error::lost(LossReason::SessionExpired, message)))
            }
            Ok(_) => Some(Ok(())),
            Err(zk::MultiWriteError::OperationFailed { index: 0, source: zk::Error::NoNode }) => {
                let message =
                    format!("the lock's node {shown:?} is gone, so the lock is lost; nothing was written");
                Some(Err(Error::lost(LossReason::NodeDeleted, message)))
            }
            Err(zk::MultiWriteError::OperationFailed { index, source }) => {
                let failed = index.checked_sub(1).and_then(|index| Some((index, operations.get(index)?)));
                let what = failed.map_or_else(|| format!("check {shown:?}"), |(_, what)| what.to_string());
                let message = format!("nothing was written, because an operation failed: {what}: {source}");
                Some(Err(match failed {
                    Some((index, what)) => {
                        Error::operation_failed(index, what.path(), source == zk::Error::NoAuth, message)
                    }
                    None => Error::new(ErrorKind::TransactionFailed, message),
                }))
            }
            Err(zk::MultiWriteError::RequestFailed { .. }) => None,
        }
    }
}

fn add(
    writer: &mut zk::MultiWriter<'_>,
    chroot: &str,
    acl: &[zk::Acl],
    operation: &WriteOperation,
) -> Result<(), zk::Error> {
    let path = format!("{chroot}{}", operation.path());
    match operation {
        WriteOperation::Create { data, .. } => {
            writer.add_create(&path, data, &CreateMode::Persistent.with_acls(Acls::new(acl)))
        }
        WriteOperation::SetData { data, version, .. } => writer.add_set_data(&path, data, *version),
        WriteOperation::Delete { version, .. } => writer.add_delete(&path, *version),
        WriteOperation::Check { version, .. } => writer.add_check_version(&path, *version),
    }
}
