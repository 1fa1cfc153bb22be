//! The requests that a queue can ask for, each sent on a session and reported back.

use std::sync::Arc;

use tokio::sync::mpsc;
use zookeeper_client as zk;
use zookeeper_client::{Acls, CreateMode, EventType};

use super::metered::Metered;
use crate::clock::Moment;
use crate::mailbox::{Input, News};
use crate::queue::{Event, NodeName, Outcome, Refusal, Ticket};
use crate::stats::RequestKind;
use crate::term::Term;

/// The data of a node whose owner is asked to give up the lock, as Curator writes it.
pub(super) const REVOKE: &[u8] = b"__REVOKE__";

/// Matches any version.
pub(super) const ANY_VERSION: i32 = -1;

/// One lock directory on one session: where requests go, and where their outcomes are reported.
pub(super) struct Wire {
    pub(super) client: Metered,
    pub(super) term: Arc<Term>,
    pub(super) path: Arc<str>,
    /// Of the nodes that it creates.
    pub(super) acl: Arc<[zk::Acl]>,
    pub(super) epoch: u64,
    pub(super) connection: u64,
    pub(super) sender: mpsc::UnboundedSender<Input>,
}

impl Wire {
    fn report(&self, event: Event) {
        let (path, connection) = (Arc::clone(&self.path), self.connection);
        self.sender.send(Input::Queue { path, connection, event }).ok();
    }

    pub(super) fn child(&self, name: &str) -> String {
        format!("{}/{name}", self.path)
    }

    /// Whether a node is this session's. If the server created it for another session, ours is gone (rule 11).
    fn owns(&self, stat: &zk::Stat) -> bool {
        let owns = stat.ephemeral_owner == self.client.session_id();
        if !owns {
            self.report_end();
        }
        owns
    }

    /// Reports that the session is over.
    pub(super) fn report_end(&self) {
        self.sender.send(Input::News(News::Over(self.epoch))).ok();
    }

    pub(super) async fn create(self, ticket: Ticket, prefix: String, data: Vec<u8>) {
        let options = CreateMode::EphemeralSequential.with_acls(Acls::new(&self.acl));
        let sent = Moment::now();
        let outcome =
            match self.client.ask(RequestKind::Create).create(&self.child(&prefix), &data, &options).await {
                Ok((stat, sequence)) if self.owns(&stat) => {
                    self.term.prove(sent, self.connection);
                    Outcome::Done((format!("{prefix}{sequence}"), stat.czxid))
                }
                Ok(_) => Outcome::Lost,
                Err(error) => failed(&error),
            };
        self.report(Event::Created(ticket, outcome));
    }

    /// Creates a node in the place of a writer's, in one transaction with a check that the writer's exists. Whose the new
    /// one is tells its Stat, which is requested in the same flight: the transaction's own Stat is invalid before 3.7.2
    /// and 3.8.2 (ZOOKEEPER-4026).
    pub(super) async fn create_beside(self, ticket: Ticket, writer: NodeName, name: String, data: Vec<u8>) {
        use zk::MultiWriteError::{OperationFailed, RequestFailed};
        let options = CreateMode::Ephemeral.with_acls(Acls::new(&self.acl));
        let (node, sent) = (self.child(&name), Moment::now());
        let mut multi = self.client.ask(RequestKind::Create).new_multi_writer();
        let added = multi.add_check_version(&self.child(writer.as_str()), ANY_VERSION);
        if let Err(error) = added.and_then(|()| multi.add_create(&node, &data, &options)) {
            return self.report(Event::Created(ticket, failed(&error)));
        }
        let committed = multi.commit();
        let found = self.client.ask(RequestKind::Verify).check_stat(&node);
        let (committed, found) = (committed.await, found.await);
        if matches!(verdict(&committed), Verdict::Over) {
            self.report_end();
        }
        let outcome = match (committed, found) {
            (Ok(_), Ok(Some(stat))) if self.owns(&stat) => {
                self.term.prove(sent, self.connection);
                Outcome::Done((name, stat.czxid))
            }
            // It is ours, from an attempt whose reply was lost.
            (Err(OperationFailed { source: zk::Error::NodeExists, .. }), Ok(Some(stat)))
                if stat.ephemeral_owner == self.client.session_id() =>
            {
                Outcome::Done((name, stat.czxid))
            }
            // What became of it is not known: a listing tells.
            (Ok(_) | Err(OperationFailed { source: zk::Error::NodeExists, .. }), _) => Outcome::Lost,
            (Err(OperationFailed { index: 0, source: zk::Error::NoAuth }), _) => {
                return self.report(Event::CheckForbidden(ticket));
            }
            (Err(OperationFailed { source, .. } | RequestFailed { source }), _) => failed(&source),
        };
        self.report(Event::Created(ticket, outcome));
    }

    pub(super) async fn create_in_place(self, ticket: Ticket, name: String, data: Vec<u8>) {
        let options = CreateMode::Ephemeral.with_acls(Acls::new(&self.acl));
        let sent = Moment::now();
        let outcome =
            match self.client.ask(RequestKind::Create).create(&self.child(&name), &data, &options).await {
                Ok((stat, _)) if self.owns(&stat) => {
                    self.term.prove(sent, self.connection);
                    Outcome::Done((name, stat.czxid))
                }
                Ok(_) => Outcome::Lost,
                Err(zk::Error::NodeExists) => self.found_in_place(name).await,
                Err(error) => failed(&error),
            };
        self.report(Event::Created(ticket, outcome));
    }

    /// A node that was to be created exists. Perhaps it is ours, from an attempt whose reply was lost.
    async fn found_in_place(&self, name: String) -> Outcome<(String, i64)> {
        match self.client.ask(RequestKind::Verify).check_stat(&self.child(&name)).await {
            Ok(Some(stat)) if stat.ephemeral_owner == self.client.session_id() => {
                Outcome::Done((name, stat.czxid))
            }
            // Another's, or gone again: a listing tells, and there is no hurry.
            Ok(_) => Outcome::Lost,
            Err(error) => failed(&error),
        }
    }

    pub(super) async fn list(self, ticket: Ticket, sync: bool) {
        // Sent back to back, answered in order.
        let synced = sync.then(|| self.client.ask(RequestKind::Sync).sync(&self.path));
        let listed = self.client.ask(RequestKind::List).list_children(&self.path);
        let synced = match synced {
            Some(synced) => synced.await,
            None => Ok(()),
        };
        let outcome = match (synced, listed.await) {
            (Ok(()), Ok(children)) => Outcome::Done(children),
            (Err(error), _) | (_, Err(error)) => failed(&error),
        };
        self.report(Event::Listed(ticket, outcome));
    }

    /// Lists, and watches the children until the watch fires; dropping the future drops the watch on the server.
    pub(super) async fn list_and_watch(self, ticket: Ticket, sync: bool) {
        let outcome = {
            let synced = sync.then(|| self.client.ask(RequestKind::Sync).sync(&self.path));
            let listed = self.client.ask(RequestKind::List).list_and_watch_children(&self.path);
            let synced = match synced {
                Some(synced) => synced.await,
                None => Ok(()),
            };
            listed.await.and_then(|listed| synced.map(|()| listed))
        };
        match outcome {
            Ok((children, watcher)) => {
                self.report(Event::Listed(ticket, Outcome::Done(children)));
                self.await_change(ticket, watcher).await;
            }
            Err(error) => self.report(Event::Listed(ticket, failed(&error))),
        }
    }

    pub(super) async fn verify(self, ticket: Ticket, name: NodeName) {
        let outcome = match self.client.ask(RequestKind::Verify).check_stat(&self.child(name.as_str())).await
        {
            Ok(Some(stat)) => Outcome::Done(self.owns(&stat).then_some(stat.czxid)),
            Ok(None) => Outcome::NoNode,
            Err(error) => failed(&error),
        };
        self.report(Event::Verified(ticket, outcome));
    }

    /// Watches a node until the watch fires; dropping the future drops the watch on the server.
    pub(super) async fn watch(self, ticket: Ticket, name: NodeName) {
        let path = self.child(name.as_str());
        // Reading the data leaves no watch on a missing node, asking for the Stat would; but reading may be forbidden.
        let watcher = match self.client.ask(RequestKind::Watch).get_and_watch_data(&path).await {
            Ok((data, _, watcher)) => {
                if data == REVOKE {
                    let (path, node) = (Arc::clone(&self.path), name.clone());
                    self.sender.send(Input::Revoked { path, node }).ok();
                }
                Ok(watcher)
            }
            Err(zk::Error::NoAuth) => {
                match self.client.ask(RequestKind::Watch).check_and_watch_stat(&path).await {
                    Ok((Some(_), watcher)) => Ok(watcher),
                    Ok((None, _)) => Err(zk::Error::NoNode),
                    Err(error) => Err(error),
                }
            }
            Err(error) => Err(error),
        };
        let watcher = match watcher {
            Ok(watcher) => watcher,
            Err(error) => return self.report(Event::Watched(ticket, failed(&error))),
        };
        self.report(Event::Watched(ticket, Outcome::Done(())));
        self.await_change(ticket, watcher).await;
    }

    async fn await_change(self, ticket: Ticket, watcher: zk::OneshotWatcher) {
        // The watch must not keep the session alive.
        let Self { client, path, connection, sender, .. } = self;
        drop(client);
        let event = match watcher.changed().await.event_type {
            EventType::NodeDeleted => Event::Gone(ticket),
            // The session is over; the driver learns of that by itself.
            EventType::Session => return,
            _ => Event::Changed(ticket),
        };
        sender.send(Input::Queue { path, connection, event }).ok();
    }

    pub(super) async fn delete(self, ticket: Ticket, name: NodeName) {
        let sent = Moment::now();
        let outcome =
            match self.client.ask(RequestKind::Delete).delete(&self.child(name.as_str()), None).await {
                Ok(()) => {
                    // Anyone may delete a node: that does not tell whose session it is.
                    if self.term.is_proven_on(self.connection) {
                        self.term.prove(sent, self.connection);
                    }
                    Outcome::Done(())
                }
                Err(error) => failed(&error),
            };
        if let Outcome::Refused(refusal) = &outcome {
            let (path, node) = (&self.path, name.as_str());
            tracing::warn!(%path, node, ?refusal, "the server refuses to delete a node of ours; it keeps its place until the session ends");
        }
        self.report(Event::Deleted(ticket, outcome));
    }

    /// Creates the lock directory and its parents as containers, which the server removes some time after their last
    /// child.
    pub(super) async fn make_parents(self, ticket: Ticket) {
        let levels: Vec<&str> = self
            .path
            .match_indices('/')
            .skip(1)
            .map(|(at, _)| &self.path[..at])
            .chain([&*self.path])
            .collect();
        let outcome = match self.make_all(&levels).await {
            Ok(()) => Outcome::Done(()),
            // Some already exist, or the server has no containers: one by one, all in one flight.
            Err(zk::Error::ConnectionLoss) => Outcome::Lost,
            Err(zk::Error::SessionExpired) => {
                self.report_end();
                Outcome::Lost
            }
            Err(_) => self.make_each(&levels).await,
        };
        self.report(Event::ParentsMade(ticket, outcome));
    }

    async fn make_all(&self, levels: &[&str]) -> Result<(), zk::Error> {
        let mut writer = self.client.ask(RequestKind::Parents).new_multi_writer();
        for level in levels {
            writer.add_create(level, b"", &CreateMode::Container.with_acls(Acls::new(&self.acl)))?;
        }
        writer.commit().await?;
        Ok(())
    }

    async fn make_each(&self, levels: &[&str]) -> Outcome<()> {
        let mut outcome = Outcome::Done(());
        for mode in [CreateMode::Container, CreateMode::Persistent] {
            let options = mode.with_acls(Acls::new(&self.acl));
            let creates: Vec<_> = levels
                .iter()
                .map(|level| self.client.ask(RequestKind::Parents).create(level, b"", &options))
                .collect();
            let (mut forbidden, mut last) = (false, Ok(()));
            for create in creates {
                last = create.await.map(drop);
                forbidden |= last == Err(zk::Error::NoAuth);
            }
            outcome = match last {
                Ok(()) | Err(zk::Error::NodeExists) => Outcome::Done(()),
                // A level above may exist although we may not create it; only the last one counts.
                Err(zk::Error::NoNode) if forbidden => Outcome::Refused(Refusal::NotAuthorized),
                Err(zk::Error::Unimplemented) => continue,
                Err(error) => failed(&error),
            };
            break;
        }
        outcome
    }
}

/// What the answer to a transaction says about the session that sent it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It existed when this was committed.
    Alive,
    /// It is over.
    Over,
    /// Nothing.
    Unknown,
}

/// Judges a session by the answer to its transaction.
///
/// A transaction that fails is answered and committed like any other, with the error of its first operation that
/// failed; so a failure can prove the session. But the leader looks at the session in each operation, before anything
/// else: of one that has ended it commits the failure SESSIONEXPIRED, of one that has moved SESSIONMOVED. Only a
/// missing node is a failure that is found after that look.
pub(super) fn verdict<T>(answer: &Result<T, zk::MultiWriteError>) -> Verdict {
    use zk::MultiWriteError::{OperationFailed, RequestFailed};
    match answer {
        Ok(_) | Err(OperationFailed { source: zk::Error::NoNode, .. }) => Verdict::Alive,
        Err(OperationFailed { source, .. } | RequestFailed { source })
            if *source == zk::Error::SessionExpired =>
        {
            Verdict::Over
        }
        Err(_) => Verdict::Unknown,
    }
}

/// What an error means for a request. If it may nevertheless have been carried out, it counts as lost.
pub(super) fn failed<T>(error: &zk::Error) -> Outcome<T> {
    use zk::Error as E;
    match error {
        E::NoNode => Outcome::NoNode,
        E::NoAuth | E::InvalidAcl => Outcome::Refused(Refusal::NotAuthorized),
        E::NoChildrenForEphemerals => Outcome::Refused(Refusal::Server(
            "the parent is an ephemeral node, which cannot have children".to_owned(),
        )),
        E::UnmarshalError { .. }
        | E::BadArguments(_)
        | E::MarshallingError
        | E::QuotaExceeded
        | E::Unimplemented
        | E::NotReadOnly
        | E::UnexpectedErrorCode(_) => Outcome::Refused(Refusal::Server(error.to_string())),
        _ => Outcome::Lost,
    }
}
