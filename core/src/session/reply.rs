//! Interprets the server's replies, for the queue that sent the request and for the session.
//!
//! These functions are pure. The driver applies them to the replies of a connection, and the model
//! in the tests applies them to its simulated server.

use zklock_transport::TooLarge;
use zookeeper_client::{self as zk, MultiWriteError};

use crate::queue::{Event, NodeName, Outcome, Refusal, Ticket};

/// Shows what a reply proves about the session of its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SessionEvidence {
    /// The session existed when the request was executed.
    Alive,
    /// The session has ended, or the connection belongs to another session.
    Over,
    /// The reply proves nothing about the session.
    Unknown,
}

/// The fields of a node's Stat that identify its creator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeOwner {
    /// The session that owns the node.
    pub owner: i64,
    /// The transaction that created the node.
    pub czxid: i64,
}

impl NodeOwner {
    /// Returns `true` if the session owns the node and the node has a fencing token. The token is
    /// the number of a transaction. Transaction numbers begin at one.
    fn belongs_to(self, session: i64) -> bool {
        self.owner == session && self.czxid > 0
    }
}

impl From<zk::Stat> for NodeOwner {
    fn from(stat: zk::Stat) -> Self {
        Self { owner: stat.ephemeral_owner, czxid: stat.czxid }
    }
}

/// An event for a queue, and what the reply proves about the session.
pub type Judged = (Event, SessionEvidence);

/// Interprets the reply to a create of a node.
///
/// If the server created the node for another session, our session has ended, and the client crate
/// has silently adopted another one (rule 11).
#[must_use]
pub fn created(ticket: Ticket, session: i64, answer: Result<(String, NodeOwner), zk::Error>) -> Judged {
    let (outcome, verdict) = match answer {
        Ok((name, found)) if found.belongs_to(session) => {
            (Outcome::Done((name, found.czxid)), SessionEvidence::Alive)
        }
        Ok(_) => (Outcome::Lost, SessionEvidence::Over),
        Err(error) => (write_failed(&error), SessionEvidence::Unknown),
    };
    (Event::Created(ticket, outcome), verdict)
}

/// Returns `true` if the client must read the node's Stat to interpret the reply. If the Stat is
/// not needed, the client reports the loss of a writer without waiting for it.
#[must_use]
pub fn needs_stat<T>(committed: &Result<T, MultiWriteError>) -> bool {
    let exists = |error: &MultiWriteError| {
        matches!(error, MultiWriteError::OperationFailed { source: zk::Error::NodeExists, .. })
    };
    committed.as_ref().err().is_none_or(exists)
}

/// Interprets the reply to the create of a reader's node in a downgrade (the reader takes over the
/// position of a writer of the same owner).
///
/// One transaction creates the node and checks that the writer's node exists. `found` is the result
/// of reading the reader's node after this transaction.
#[must_use]
pub fn created_beside<T>(
    ticket: Ticket,
    session: i64,
    name: String,
    committed: Result<T, MultiWriteError>,
    found: Result<Option<NodeOwner>, zk::Error>,
) -> Judged {
    use MultiWriteError::{OperationFailed, RequestFailed};
    let over = is_over(&committed);
    let (outcome, verdict) = match (committed, found) {
        (Ok(_), Ok(Some(found))) if found.belongs_to(session) => {
            (Outcome::Done((name, found.czxid)), SessionEvidence::Alive)
        }
        (Ok(_), Ok(Some(_))) => (Outcome::Lost, SessionEvidence::Over),
        (Err(OperationFailed { source: zk::Error::NodeExists, .. }), found) => {
            return found_in_place(ticket, session, name, found.or(Ok(None)));
        }
        // The state of the new node is unknown. A listing will show it.
        (Ok(_), _) => (Outcome::Lost, SessionEvidence::Unknown),
        (Err(OperationFailed { index: 0, source: zk::Error::NoAuth }), _) => {
            return (Event::CheckForbidden(ticket), SessionEvidence::Unknown);
        }
        (Err(OperationFailed { source, .. } | RequestFailed { source }), _) => {
            (write_failed(&source), if over { SessionEvidence::Over } else { SessionEvidence::Unknown })
        }
    };
    (Event::Created(ticket, outcome), verdict)
}

/// Interprets the reply to a create that failed because the node exists. The existing node can be
/// ours, from an earlier create whose reply was lost.
#[must_use]
pub fn found_in_place(
    ticket: Ticket,
    session: i64,
    name: String,
    found: Result<Option<NodeOwner>, zk::Error>,
) -> Judged {
    let outcome = match found {
        Ok(Some(found)) if found.belongs_to(session) => Outcome::Done((name, found.czxid)),
        // The node belongs to another session, or it no longer exists. The next listing shows which
        // of the two is true. Neither case requires an immediate reaction.
        Ok(_) => Outcome::Lost,
        Err(error) => failed(&error),
    };
    (Event::Created(ticket, outcome), SessionEvidence::Unknown)
}

/// Interprets the reply to a listing. If a sync was sent before the listing and failed, the listing
/// proves nothing.
#[must_use]
pub fn listed(
    ticket: Ticket,
    synced: Result<(), zk::Error>,
    children: Result<Vec<String>, zk::Error>,
) -> Event {
    let outcome = match (synced, children) {
        (Ok(()), Ok(children)) => Outcome::Done(children),
        (Err(error), _) | (_, Err(error)) => failed(&error),
    };
    Event::Listed(ticket, outcome)
}

/// Interprets the reply to a probe, a request that asks whether several nodes exist.
///
/// The event contains only the nodes that certainly do not exist. A node that the client has no
/// permission to read is not one of them, because the reply for that node is an error.
#[must_use]
pub fn probed(
    ticket: Ticket,
    asked: Vec<NodeName>,
    answer: Result<Vec<Result<(), zk::Error>>, zk::Error>,
) -> Event {
    let outcome = match answer {
        Ok(each) if each.len() == asked.len() => {
            let all = asked.into_iter().zip(each);
            Outcome::Done(
                all.filter(|(_, one)| *one == Err(zk::Error::NoNode)).map(|(name, _)| name).collect(),
            )
        }
        Ok(_) => Outcome::Lost,
        Err(error) => failed(&error),
    };
    Event::Probed(ticket, outcome)
}

/// Interprets the Stat of a node that carries our UUID. If another session owns the node, our
/// session has ended.
#[must_use]
pub fn verified(ticket: Ticket, session: i64, found: Result<Option<NodeOwner>, zk::Error>) -> Judged {
    let (outcome, verdict) = match found {
        Ok(Some(found)) if found.belongs_to(session) => {
            (Outcome::Done(Some(found.czxid)), SessionEvidence::Unknown)
        }
        Ok(Some(_)) => (Outcome::Done(None), SessionEvidence::Over),
        Ok(None) => (Outcome::NoNode, SessionEvidence::Unknown),
        Err(error) => (failed(&error), SessionEvidence::Unknown),
    };
    (Event::Verified(ticket, outcome), verdict)
}

/// Interprets the reply to setting a watch.
#[must_use]
pub fn watched(ticket: Ticket, answer: Result<(), zk::Error>) -> Event {
    Event::Watched(ticket, answer.map_or_else(|error| failed(&error), Outcome::Done))
}

/// Interprets the reply to a delete.
///
/// `proven` is `true` if an earlier reply has shown that the connection belongs to our session. The
/// reply to a delete cannot show that, because any client can delete a node.
#[must_use]
pub fn deleted(ticket: Ticket, proven: bool, answer: Result<(), zk::Error>) -> Judged {
    let verdict = if answer.is_ok() && proven { SessionEvidence::Alive } else { SessionEvidence::Unknown };
    (Event::Deleted(ticket, answer.map_or_else(|error| write_failed(&error), Outcome::Done)), verdict)
}

/// The result of a heartbeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Beat {
    /// The evidence about the session.
    pub verdict: SessionEvidence,
    /// Index of the first node that does not exist. The nodes after it were not checked.
    pub missing: Option<usize>,
    /// Index of the first node that exists but cannot be read. The nodes after it were not checked.
    pub unreadable: Option<usize>,
}

/// Interprets the reply to a heartbeat, which checks that our nodes exist.
///
/// A node that exists proves that its session exists, because the leader removes a session's nodes
/// in the transaction that ends the session. These replies show that a node exists:
/// * The transaction succeeded, or it failed at a later node. Then the first node exists.
/// * The transaction failed at a node with NoAuth. Then that node exists, because the leader looks
///   for a node before it checks permissions.
///
/// These replies prove nothing:
/// * The transaction failed because a node is missing. With `localSessionsEnabled`, the leader
///   accepts sessions that it does not know.
/// * The whole request fails with NoAuth. With `enableEagerACLCheck`, a server sends this reply
///   without the leader.
///
/// `owned` states whether the first node belongs to the session of the connection. `None` means
/// that an earlier reply has shown that the connection belongs to our session, so the node was not
/// read. If a server has not kept our session, it gives us another one, and the client crate
/// accepts it silently (rule 11). Then our node can exist, but the connection's session does not
/// own it.
#[must_use]
pub fn beaten<T>(committed: &Result<T, MultiWriteError>, owned: Option<Result<bool, zk::Error>>) -> Beat {
    use MultiWriteError::OperationFailed;
    let (missing, mut unreadable) = (missing_at(committed), None);
    let found = match committed {
        Ok(_) => true,
        Err(OperationFailed { index, source: zk::Error::NoNode }) => *index > 0,
        Err(OperationFailed { index, source: zk::Error::NoAuth }) => {
            unreadable = Some(*index);
            true
        }
        Err(_) => false,
    };
    let beat = |verdict| Beat { verdict, missing, unreadable };
    let nothing = |verdict| Beat { verdict, missing: None, unreadable: None };
    match owned {
        _ if is_over(committed) => nothing(SessionEvidence::Over),
        // Other nodes can still show that the session exists. The next heartbeat checks them.
        _ if !found => beat(SessionEvidence::Unknown),
        None | Some(Ok(true)) => beat(SessionEvidence::Alive),
        Some(Err(error)) if failed::<()>(&error) == Outcome::Lost => nothing(SessionEvidence::Unknown),
        Some(_) => nothing(SessionEvidence::Over),
    }
}

/// Returns the index of the operation that made a transaction fail because its node does not exist.
#[must_use]
pub fn missing_at<T>(answer: &Result<T, MultiWriteError>) -> Option<usize> {
    match answer {
        Err(MultiWriteError::OperationFailed { index, source: zk::Error::NoNode }) => Some(*index),
        _ => None,
    }
}

/// Returns `true` if the reply to a transaction shows that its session has ended.
///
/// The leader also commits a transaction that fails, and the reply contains the error of the first
/// operation that failed. For each operation, the leader checks the session first. If the session
/// has ended, the error is SESSIONEXPIRED. If the session has moved to another server, it is
/// SESSIONMOVED.
#[must_use]
pub fn is_over<T>(answer: &Result<T, MultiWriteError>) -> bool {
    use MultiWriteError::{OperationFailed, RequestFailed};
    let Err(OperationFailed { source, .. } | RequestFailed { source }) = answer else { return false };
    *source == zk::Error::SessionExpired
}

/// Converts the error of a write to an outcome. If the reply could not be read, the client does not
/// know whether the write was applied, so the outcome is `Lost`.
fn write_failed<T>(error: &zk::Error) -> Outcome<T> {
    match error {
        zk::Error::UnmarshalError { .. } => Outcome::Lost,
        zk::Error::UnexpectedErrorCode(code) if TooLarge::from_code(*code).is_some() => Outcome::Lost,
        error => failed(error),
    }
}

/// Converts the error of a request to an outcome.
///
/// If the request might have been executed in spite of the error, the outcome is `Lost`. The
/// outcome is also `Lost` if the server throttled the request, so that the request is sent again.
#[must_use]
pub fn failed<T>(error: &zk::Error) -> Outcome<T> {
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
        | E::NotReadOnly => Outcome::Refused(Refusal::Server(error.to_string())),
        E::UnexpectedErrorCode(code) => Outcome::Refused(Refusal::Server(match TooLarge::from_code(*code) {
            Some(large) => format!("{large} exceeds the client's limit"),
            None => error.to_string(),
        })),
        _ => Outcome::Lost,
    }
}

/// Replaces the reply to a listing or probe with `Lost`, if the request was sent on the connection
/// `asked`, but `current` is a different connection.
///
/// Such a listing proves nothing, because the create before it might have been sent on a different
/// connection (rule 3). All other replies are valid, no matter on which connection they arrive.
#[must_use]
pub fn discard_stale(event: Event, asked: u64, current: u64) -> Event {
    match event {
        Event::Listed(ticket, _) if asked != current => Event::Listed(ticket, Outcome::Lost),
        Event::Probed(ticket, _) if asked != current => Event::Probed(ticket, Outcome::Lost),
        event => event,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::Outcome::{Done, Lost, NoNode};

    const TICKET: Ticket = Ticket(1);

    #[test]
    fn a_listing_from_another_connection_says_nothing_and_everything_else_does() {
        let listed = || Event::Listed(TICKET, Done(vec!["x".to_owned()]));
        assert_eq!(discard_stale(listed(), 1, 1), listed());
        assert_eq!(discard_stale(listed(), 1, 2), Event::Listed(TICKET, Lost));
        let probed = || Event::Probed(TICKET, Done(Vec::new()));
        assert_eq!(
            (discard_stale(probed(), 1, 1), discard_stale(probed(), 1, 2)),
            (probed(), Event::Probed(TICKET, Lost))
        );
        for fact in [
            Event::Created(TICKET, Done(("x".to_owned(), 1))),
            Event::Deleted(TICKET, NoNode),
            Event::Verified(TICKET, Done(Some(1))),
            Event::Gone(TICKET),
        ] {
            assert_eq!(discard_stale(fact.clone(), 1, 2), fact);
        }
    }

    #[test]
    fn a_probe_tells_of_nodes_that_do_not_exist_and_takes_all_other_answers_for_perhaps() {
        let names =
            ["a-0000000001", "b-0000000002", "c-0000000003"].map(|name| NodeName::parse(name).unwrap());
        let answers = || vec![Ok(()), Err(zk::Error::NoNode), Err(zk::Error::NoAuth)];
        let gone = |answer| probed(TICKET, names.to_vec(), answer);
        assert_eq!(gone(Ok(answers())), Event::Probed(TICKET, Done(vec![names[1].clone()])));
        assert_eq!(gone(Ok(answers()[1..].to_vec())), Event::Probed(TICKET, Lost), "one has no answer");
        assert_eq!(gone(Err(zk::Error::ConnectionLoss)), Event::Probed(TICKET, Lost));
    }

    #[test]
    fn a_node_with_our_uuid_is_ours_only_if_our_session_owns_it() {
        let found = |owner| verified(TICKET, 7, Ok(Some(NodeOwner { owner, czxid: 3 })));
        assert_eq!(found(7), (Event::Verified(TICKET, Done(Some(3))), SessionEvidence::Unknown));
        assert_eq!(found(8), (Event::Verified(TICKET, Done(None)), SessionEvidence::Over));
        assert_eq!(
            verified(TICKET, 7, Ok(None)),
            (Event::Verified(TICKET, NoNode), SessionEvidence::Unknown)
        );
    }

    #[test]
    fn a_delete_proves_a_session_only_where_it_is_known_whose_connection_it_is() {
        assert_eq!(deleted(TICKET, true, Ok(())).1, SessionEvidence::Alive);
        assert_eq!(deleted(TICKET, false, Ok(())).1, SessionEvidence::Unknown);
        assert_eq!(
            deleted(TICKET, true, Err(zk::Error::NoNode)),
            (Event::Deleted(TICKET, NoNode), SessionEvidence::Unknown)
        );
    }

    #[test]
    fn a_heartbeat_on_an_unknown_connection_proves_the_session_that_owns_the_node() {
        let alive = || Ok::<_, MultiWriteError>(());
        let verdict = |owned| beaten(&alive(), owned).verdict;
        assert_eq!(verdict(None), SessionEvidence::Alive);
        assert_eq!(verdict(Some(Ok(true))), SessionEvidence::Alive);
        assert_eq!(verdict(Some(Ok(false))), SessionEvidence::Over);
        assert_eq!(verdict(Some(Err(zk::Error::ConnectionLoss))), SessionEvidence::Unknown);
        // The node that would have shown the session does not exist.
        let first = Beat { verdict: SessionEvidence::Unknown, missing: Some(0), unreadable: None };
        assert_eq!(beaten(&failed_at(0, zk::Error::NoNode), Some(Ok(false))), first);
        assert_eq!(beaten(&failed_at(1, zk::Error::NoNode), Some(Ok(false))).verdict, SessionEvidence::Over);
        assert_eq!(beaten(&failed_at(1, zk::Error::NoAuth), Some(Ok(false))).verdict, SessionEvidence::Over);
    }

    fn failed_at(index: usize, source: zk::Error) -> Result<(), MultiWriteError> {
        Err(MultiWriteError::OperationFailed { index, source })
    }

    #[test]
    fn a_heartbeat_proves_the_session_only_by_a_node_that_exists() {
        let beat = |answer| beaten(&answer, None);
        let missing = |verdict, index| Beat { verdict, missing: Some(index), unreadable: None };
        assert_eq!(beat(failed_at(0, zk::Error::NoNode)), missing(SessionEvidence::Unknown, 0));
        assert_eq!(beat(failed_at(1, zk::Error::NoNode)), missing(SessionEvidence::Alive, 1));
        for index in [0, 1] {
            let unreadable = Beat { verdict: SessionEvidence::Alive, missing: None, unreadable: Some(index) };
            assert_eq!(beat(failed_at(index, zk::Error::NoAuth)), unreadable);
        }
    }

    #[test]
    fn no_other_failure_of_a_heartbeat_proves_the_session() {
        let verdict = |answer| beaten(&answer, Some(Ok(true)));
        let nothing = |verdict| Beat { verdict, missing: None, unreadable: None };
        for source in [zk::Error::NoAuth, zk::Error::NoNode, zk::Error::Throttled, zk::Error::ConnectionLoss]
        {
            assert_eq!(
                verdict(Err(MultiWriteError::RequestFailed { source })),
                nothing(SessionEvidence::Unknown)
            );
        }
        for index in [0, 1] {
            assert_eq!(verdict(failed_at(index, zk::Error::SessionMoved)), nothing(SessionEvidence::Unknown));
            assert_eq!(verdict(failed_at(index, zk::Error::SessionExpired)), nothing(SessionEvidence::Over));
        }
    }
}
