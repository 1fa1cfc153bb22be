//! The heartbeat as a request.

use std::sync::Arc;

use zookeeper_client as zk;

use super::metered::Metered;
use super::wire::{ANY_VERSION, failed};
use crate::clock::Moment;
use crate::mailbox::News;
use crate::queue::{NodeName, Outcome};
use crate::stats::RequestKind;
use crate::term::Term;

/// Proves a session: a transaction that changes nothing is a committed write, even when it fails. Tells the first of
/// these nodes that does not stand.
///
/// On a connection on which the session was not proven yet it may be another one, which the client crate takes in silence
/// from a server that did not keep ours (rule 11): then a node of ours that stands is not among the session's.
pub(super) async fn heartbeat(
    client: &Metered,
    term: &Term,
    epoch: u64,
    connection: u64,
    nodes: Vec<(Arc<str>, NodeName)>,
) -> News {
    let unanswered = News::Beaten(epoch, None);
    let node = |(path, name): &(Arc<str>, NodeName)| format!("{path}/{}", name.as_str());
    let mut writer = client.ask(RequestKind::Heartbeat).new_multi_writer();
    for one in &nodes {
        if writer.add_check_version(&node(one), ANY_VERSION).is_err() {
            return unanswered;
        }
    }
    let sent = Moment::now();
    let committed = writer.commit();
    // Answered after the transaction, by a server that knows all that was committed before it.
    let unknown = nodes.first().map(node).filter(|_| !term.is_proven_on(connection));
    let owned = unknown.as_ref().map(|node| client.ask(RequestKind::Heartbeat).list_ephemerals(node));
    let committed = committed.await;
    let owned = match owned {
        Some(owned) => Some(owned.await),
        None => None,
    };
    let missing = match committed {
        Ok(_) => None,
        Err(zk::MultiWriteError::OperationFailed { index, source }) => Some((index, source)),
        Err(zk::MultiWriteError::RequestFailed { .. }) => return unanswered,
    };
    match owned {
        None => term.prove(sent, connection),
        Some(Ok(owned)) if unknown.is_some_and(|node| owned.contains(&node)) => term.prove(sent, connection),
        Some(Err(error)) if matches!(failed::<()>(&error), Outcome::Lost) => return unanswered,
        // It is gone, and tells nothing of the session: the next heartbeat has others to look for.
        Some(_) if missing.as_ref().is_some_and(|(index, _)| *index == 0) => {}
        Some(_) => return News::Replaced(epoch),
    }
    let missing = missing.filter(|(_, source)| *source == zk::Error::NoNode);
    News::Beaten(epoch, missing.and_then(|(index, _)| nodes.into_iter().nth(index)))
}
