//! Sends heartbeats. The reply to a heartbeat proves that the session is alive.

use zookeeper_client as zk;

use super::counted_client::CountedClient;
use super::requests::ANY_VERSION;
use crate::driver::mailbox::{Checked, OwnNode, SessionEvent};
use crate::metrics::RequestKind;
use crate::runtime::clock::BootInstant;
use crate::session::reply::{Beat, SessionEvidence, beaten, missing_at};
use crate::session::term::Term;

/// Sends a heartbeat and reports which of these nodes do not exist.
///
/// The heartbeat is a transaction that changes nothing. The server commits it as a write even if a
/// node is missing or unreadable, so its reply proves that the session is alive.
///
/// After a reconnection, the server might have silently assigned a new session (rule 11). Nodes of
/// the old session can still exist at that time. Until a reply on this connection has shown that
/// the session is still ours, each heartbeat also lists the session's nodes.
pub(in crate::driver) async fn heartbeat(
    client: &CountedClient,
    term: &Term,
    (epoch, connection_number): (u64, u64),
    mut nodes: Vec<OwnNode>,
    report: impl Fn(SessionEvent),
) {
    let report_checked = |missing, last, answered| {
        report(SessionEvent::HeartbeatAnswered(
            epoch,
            connection_number,
            Checked { missing, last, answered },
        ));
    };
    let mut writer = client.ask(RequestKind::Heartbeat).new_multi_writer();
    for one in &nodes {
        if writer.add_check_version(&path(one), ANY_VERSION).is_err() {
            return report_checked(Vec::new(), None, false);
        }
    }
    let sent = BootInstant::now();
    let committed = writer.commit();
    // The server executes this request after the transaction, so the list is at least as recent as
    // the transaction.
    let unknown = nodes.first().map(path).filter(|_| !term.is_proven_on(connection_number));
    let owned = unknown.as_ref().map(|node| client.ask(RequestKind::Heartbeat).list_ephemerals(node));
    let committed = committed.await;
    // Report a missing node immediately, without waiting for the second reply. Its lease is lost in
    // either case.
    let first_missing = missing_at(&committed).and_then(|at| nodes.get(at)).filter(|_| owned.is_some());
    let first_missing_reported = first_missing.is_some();
    if let Some(node) = first_missing {
        report_checked(vec![node.clone()], None, true);
    }
    let owned = match owned {
        Some(owned) => Some(owned.await.map(|owned| unknown.is_some_and(|node| owned.contains(&node)))),
        None => None,
    };
    let Beat { verdict, missing, unreadable } = beaten(&committed, owned);
    match verdict {
        SessionEvidence::Alive => term.prove(sent, connection_number),
        SessionEvidence::Over => return report(SessionEvent::Over(epoch)),
        SessionEvidence::Unknown => {}
    }
    // `answered` is also `true` if a missing node was reported above, because that required a
    // reply.
    let answered = first_missing_reported || missing.is_some() || matches!(verdict, SessionEvidence::Alive);
    let checked = |missing, last| report_checked(missing, last, answered);
    // An empty report is also needed: it ends the suspension of the leases.
    let Some(stop) = missing.or(unreadable).filter(|stop| *stop < nodes.len()) else {
        return checked(Vec::new(), None);
    };
    let behind = nodes.split_off(stop + 1);
    let last = nodes.pop();
    let gone = last.clone().filter(|_| missing.is_some() && !first_missing_reported).into_iter().collect();
    if behind.is_empty() {
        return checked(gone, None);
    }
    // Read the other nodes only if this connection certainly serves our session. Otherwise this
    // server might lag behind the leader, and our nodes would seem to be missing.
    if !term.is_proven_on(connection_number) {
        return checked(gone, last);
    }
    checked(gone, None);
    match missing_ones(client, behind).await {
        Some(missing) => checked(missing, None),
        None => checked(Vec::new(), last),
    }
}

/// Returns the nodes that do not exist, or `None` if the request fails. Uses a multiRead, because a
/// transaction stops at the first missing or unreadable node. The reads request the children, so
/// the reply is short: ephemeral nodes have none.
///
/// Call this function only after the server has replied to a transaction. Otherwise the server
/// might lag behind, and our nodes would seem to be missing.
async fn missing_ones(client: &CountedClient, nodes: Vec<OwnNode>) -> Option<Vec<OwnNode>> {
    let mut reader = client.ask(RequestKind::Heartbeat).new_multi_reader();
    nodes.iter().try_for_each(|node| reader.add_get_children(&path(node))).ok()?;
    let found = reader.commit().await.ok().filter(|found| found.len() == nodes.len())?;
    let is_missing =
        |one: &zk::MultiReadResult| matches!(one, zk::MultiReadResult::Error { err: zk::Error::NoNode });
    Some(nodes.into_iter().zip(found).filter(|(_, one)| is_missing(one)).map(|(node, _)| node).collect())
}

fn path(node: &OwnNode) -> String {
    format!("{}/{}", node.path, node.name.as_str())
}
