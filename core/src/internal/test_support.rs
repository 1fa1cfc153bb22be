//! Test helpers: locks of a client that never connects, and leases of a client that has no driver.

use std::sync::Arc;
use std::time::Duration;

use super::{Requested, request};
use crate::client::Client;
use crate::config::ClientOptions;
use crate::config::timeout::Timeout;
use crate::error::loss_reason::LossReason;
use crate::lease::Lease;
use crate::lease::hold::{Grant, HoldTable};
use crate::lease::owner::Owner;
use crate::lease::report::HoldReport;
use crate::lease::request::AcquireRequest;
use crate::lock::any::AnyLock;
use crate::lock::mutex::Mutex;
use crate::lock::options::LockOptions;
use crate::metrics::recorder::WaitTimer;
use crate::queue::{Kind, NodeName};
use crate::runtime::clock::BootInstant;
use crate::session::term::Term;

pub(super) fn client() -> Client {
    Client::new(ClientOptions::new(Some("127.0.0.1:1")).unwrap())
}

pub(super) fn mutex(client: &Client, path: &str, reentrant: bool) -> AnyLock {
    let options = LockOptions::default().reentrant(reentrant);
    Mutex::with_options(client, path, options).unwrap().into()
}

fn holds(mutex: &AnyLock) -> Arc<HoldTable> {
    let AnyLock::Lock(lock) = mutex else { panic!("not a mutex") };
    Arc::clone(&lock.resolve().unwrap().holds)
}

fn node(number: u64) -> NodeName {
    NodeName::parse(&format!("lock-{number:010}")).unwrap()
}

/// Makes `owner` hold a mutex through the node with this number.
pub(super) fn held(mutex: &AnyLock, owner: &Owner, number: u64) -> Lease {
    let term = Term::new(Duration::from_secs(60), 1);
    term.prove(BootInstant::now(), 1);
    let grant = Grant { node: node(number), fencing_token: 1, session_id: 1, term: Arc::new(term) };
    holds(mutex).grant(AcquireRequest::new(owner.clone(), Kind::Exclusive, Some(WaitTimer::begin())), grant)
}

/// Adds one level for `owner`, which holds the mutex.
pub(super) fn reentered(mutex: &AnyLock, owner: &Owner) -> Lease {
    let Ok(Requested::Granted(lease)) = request(mutex, owner.id(), owner, Timeout::Forever) else {
        panic!("its owner's")
    };
    lease
}

/// Loses the hold with this node, as if the node was deleted.
pub(super) fn lose(mutex: &AnyLock, number: u64) {
    holds(mutex).lose(&node(number), LossReason::NodeDeleted);
}

/// Returns the report of the hold with this node.
pub(super) fn report(mutex: &AnyLock, number: u64) -> Option<HoldReport> {
    holds(mutex).report(&node(number))
}
