//! What operators and other contenders do to somebody's node.

use zookeeper_client as zk;

use super::metered::Metered;
use super::slot::not_authorized;
use crate::error::{Error, ErrorKind, Result};
use crate::stats::RequestKind;

/// The data of a node whose owner is asked to give the lock up, as Curator writes it.
pub(super) const REVOKE: &[u8] = b"__REVOKE__";

/// What is done to a contender's node.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Touch {
    /// Its owner is asked to give the lock up.
    Revoke,
    /// It is deleted.
    Break,
}

/// Does something to the node at a full path. `None` if no answer came.
pub(super) async fn touch(client: &Metered, node: &str, touch: Touch) -> Option<Result<()>> {
    let done = match touch {
        Touch::Revoke => client.ask(RequestKind::Revoke).set_data(node, REVOKE, None).await.map(drop),
        Touch::Break => client.ask(RequestKind::Delete).delete(node, None).await,
    };
    match done {
        Ok(()) => Some(Ok(())),
        Err(zk::Error::NoNode) => {
            let message = format!("no contender stands at {node}, or none any more");
            Some(Err(Error::new(ErrorKind::NotHeld, message)))
        }
        Err(zk::Error::NoAuth) => Some(Err(not_authorized(node))),
        Err(_) => None,
    }
}
