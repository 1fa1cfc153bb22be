//! What the server's answers mean: to the queue that asked, and for the session that they came in.
//!
//! Pure, as the queue is: the driver uses it on a connection, and the model of the tests on its own server.

use zklock_transport::TooLarge;
use zookeeper_client::{self as zk, MultiWriteError};

use crate::queue::{Event, NodeName, Outcome, Refusal, Ticket};

/// What an answer says about the session that asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SessionEvidence {
    /// It existed when the request was carried out.
    Alive,
    /// It is over, or this is another one.
    Over,
    /// Nothing.
    Unknown,
}

/// What is read in a node's Stat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeOwner {
    /// The session that owns the node.
    pub owner: i64,
    /// The transaction that created it.
    pub czxid: i64,
}

impl NodeOwner {
    /// Whether the node is this session's, and has a token: transactions are numbered from one.
    fn belongs_to(self, session: i64) -> bool {
        self.owner == session && self.czxid > 0
    }
}

impl From<zk::Stat> for NodeOwner {
    fn from(stat: zk::Stat) -> Self {
        Self { owner: stat.ephemeral_owner, czxid: stat.czxid }
    }
}

/// An answer for a queue, and what it says about the session.
pub type Judged = (Event, SessionEvidence);

/// The answer to a create of a node with this name. If the server created it for another session, ours is gone, and the
/// client crate has adopted another (rule 11).
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

/// Whether the Stat of a node says more about its create than this answer does. The loss of a writer must not wait for it.
#[must_use]
pub fn needs_stat<T>(committed: &Result<T, MultiWriteError>) -> bool {
    let exists = |error: &MultiWriteError| {
        matches!(error, MultiWriteError::OperationFailed { source: zk::Error::NodeExists, .. })
    };
    committed.as_ref().err().is_none_or(exists)
}

/// The answer to a create in a writer's place, in one transaction with a check that the writer's node exists; and what
/// was found there after it.
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
        // What became of it is not known: a listing tells.
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

/// A node that was to be created exists. Perhaps it is ours, from an attempt whose reply was lost.
#[must_use]
pub fn found_in_place(
    ticket: Ticket,
    session: i64,
    name: String,
    found: Result<Option<NodeOwner>, zk::Error>,
) -> Judged {
    let outcome = match found {
        Ok(Some(found)) if found.belongs_to(session) => Outcome::Done((name, found.czxid)),
        // Another's, or gone again: a listing tells, and there is no hurry.
        Ok(_) => Outcome::Lost,
        Err(error) => failed(&error),
    };
    (Event::Created(ticket, outcome), SessionEvidence::Unknown)
}

/// The answer to a listing, and to the sync before it, if there was one: without that the listing says nothing.
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

/// The answer to a probe: for each node that was asked for, whether it exists. Only that one does not is certain: where
/// reading is forbidden, the answer is an error.
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

/// The Stat of a node that carries our uuid. One that the server created for another session shows that ours is gone.
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

/// The answer to the setting of a watch.
#[must_use]
pub fn watched(ticket: Ticket, answer: Result<(), zk::Error>) -> Event {
    Event::Watched(ticket, answer.map_or_else(|error| failed(&error), Outcome::Done))
}

/// The answer to a delete. `proven`: it is known whose session the connection is. Anyone may delete a node, so the answer
/// itself does not tell.
#[must_use]
pub fn deleted(ticket: Ticket, proven: bool, answer: Result<(), zk::Error>) -> Judged {
    let verdict = if answer.is_ok() && proven { SessionEvidence::Alive } else { SessionEvidence::Unknown };
    (Event::Deleted(ticket, answer.map_or_else(|error| write_failed(&error), Outcome::Done)), verdict)
}

/// What a heartbeat has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Beat {
    /// Whether it proves the session.
    pub verdict: SessionEvidence,
    /// Which of the nodes was the first that did not exist. The nodes behind it were not checked.
    pub missing: Option<usize>,
    /// Which of the nodes was the first that exists, but may not be read. The nodes behind it were not checked.
    pub unreadable: Option<usize>,
}

/// The answer to a heartbeat, which checks nodes of ours.
///
/// A node that exists proves its session: the leader removes a session's nodes in the transaction that ends it. The first
/// node was found if the transaction succeeded, or failed at a later one; so was the one at which it failed with NoAuth,
/// because the leader looks for a node before it looks at its rights. That a node is missing proves nothing: with
/// `localSessionsEnabled` the leader passes sessions that it does not know. Nor does NoAuth to the whole request, which a
/// server may answer by itself (`enableEagerACLCheck`).
///
/// `owned`: whether the first node belongs to the session that answers, if that was asked
/// because it is not known whose session that is. A server that did not keep ours gives us another, and the client crate
/// accepts that silently (rule 11): then a node of ours exists, but is not the session's.
#[must_use]
pub fn beaten<T>(committed: &Result<T, MultiWriteError>, owned: Option<Result<bool, zk::Error>>) -> Beat {
    use MultiWriteError::OperationFailed;
    let (missing, mut unreadable) = (missing_at(committed), None);
    // The check of a node that exists proves the session that owns it, which is the one that created it.
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
        // The other nodes tell whether the session exists: the next heartbeat asks for them.
        _ if !found => beat(SessionEvidence::Unknown),
        None | Some(Ok(true)) => beat(SessionEvidence::Alive),
        Some(Err(error)) if failed::<()>(&error) == Outcome::Lost => nothing(SessionEvidence::Unknown),
        Some(_) => nothing(SessionEvidence::Over),
    }
}

/// The operation at which a transaction failed because its node does not exist.
#[must_use]
pub fn missing_at<T>(answer: &Result<T, MultiWriteError>) -> Option<usize> {
    match answer {
        Err(MultiWriteError::OperationFailed { index, source: zk::Error::NoNode }) => Some(*index),
        _ => None,
    }
}

/// Whether the answer to a transaction says that its session is over.
///
/// A transaction that fails is answered and committed like any other, with the error of its first operation that
/// failed. The leader looks at the session in each operation, before anything else: of one that has ended it commits the
/// failure SESSIONEXPIRED, of one that has moved SESSIONMOVED.
#[must_use]
pub fn is_over<T>(answer: &Result<T, MultiWriteError>) -> bool {
    use MultiWriteError::{OperationFailed, RequestFailed};
    let Err(OperationFailed { source, .. } | RequestFailed { source }) = answer else { return false };
    *source == zk::Error::SessionExpired
}

/// What an error means for a request that changes something. An answer that could not be read does not tell whether it
/// was carried out.
fn write_failed<T>(error: &zk::Error) -> Outcome<T> {
    match error {
        zk::Error::UnmarshalError { .. } => Outcome::Lost,
        zk::Error::UnexpectedErrorCode(code) if TooLarge::from_code(*code).is_some() => Outcome::Lost,
        error => failed(error),
    }
}

/// What an error means for a request. If it may nevertheless have been carried out, it counts as lost. So does one that
/// the server throttled: it is to be sent again.
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
            Some(large) => format!("{large} is more than the client reads"),
            None => error.to_string(),
        })),
        _ => Outcome::Lost,
    }
}

/// What a queue is told of an answer to a request that was made on the connection `asked`.
///
/// A listing that was requested on a different connection from the `current` one is torn from the create that was sent
/// with it, and says nothing (rule 3). Other replies are facts whichever connection brings them.
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
        // The node that would have told is gone.
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
