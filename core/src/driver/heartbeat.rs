//! The heartbeat as a request.

use std::sync::Arc;

use super::metered::Metered;
use super::wire::ANY_VERSION;
use crate::answer::{Beat, Verdict, beaten};
use crate::clock::Moment;
use crate::mailbox::News;
use crate::queue::NodeName;
use crate::stats::RequestKind;
use crate::term::Term;

/// Proves a session: a transaction that changes nothing is a committed write, even when it finds a node missing. Returns
/// the first of these nodes that does not exist.
///
/// On a connection on which the session has not been proven yet it may be a different one: a server that did not keep
/// ours gives us another, and the client crate accepts that silently (rule 11). Then a node of ours exists but does not
/// belong to the session.
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
    // Answered after the transaction, by a server that knows everything that was committed before it.
    let unknown = nodes.first().map(node).filter(|_| !term.is_proven_on(connection));
    let owned = unknown.as_ref().map(|node| client.ask(RequestKind::Heartbeat).list_ephemerals(node));
    let committed = committed.await;
    let owned = match owned {
        Some(owned) => Some(owned.await.map(|owned| unknown.is_some_and(|node| owned.contains(&node)))),
        None => None,
    };
    let Beat { verdict, missing } = beaten(&committed, owned);
    match verdict {
        Verdict::Alive => term.prove(sent, connection),
        Verdict::Over => return News::Over(epoch),
        Verdict::Unknown => {}
    }
    News::Beaten(epoch, missing.and_then(|index| nodes.into_iter().nth(index)))
}
