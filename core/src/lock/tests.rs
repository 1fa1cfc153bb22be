//! Tests of a lock's decisions, and of the order in which its lease and its client change.

use std::sync::mpsc;
use std::task::{Context, Wake};

use zklock_embedded::Server;
use zookeeper_client as zk;

use crate::driver::mailbox::{Input, SessionEvent};
use crate::driver::status::ClientState;
use crate::error::loss_reason::LossReason;
use crate::lease::state::LeaseState;
use crate::lock::options::LockOptions;
use crate::lock::*;

fn client(hosts: &str) -> Client {
    Client::new(ClientOptions::new(Some(hosts)).unwrap())
}

fn settings() -> LockSettings {
    LockOptions::default().of_mutex()
}

fn lock(source: impl Into<ClientSource>, path: &str, kind: Kind) -> Lock {
    Lock::new(source.into(), path, kind, settings()).unwrap()
}

#[test]
fn the_order_is_by_path_from_the_root_then_by_ensemble_and_the_writer_comes_before_the_reader() {
    let (root, below) = (client("b:1"), client("a:1/x"));
    let locks = [
        lock(&below, "/a", Kind::Write),
        lock(&below, "/a", Kind::Read),
        lock(&root, "/x/a", Kind::Write),
        lock(&below, "/b", Kind::Exclusive),
    ];
    assert!(locks.windows(2).all(|pair| pair[0].order() < pair[1].order()));
}

#[tokio::test]
async fn clones_are_one_lock_with_one_list_of_holds_and_others_on_the_path_share_the_list() {
    let client = client("a:1");
    let (one, other) = (lock(&client, "/x", Kind::Exclusive), lock(&client, "/x", Kind::Exclusive));
    let holds = |lock: &Lock| Arc::clone(&lock.resolve().unwrap().holds);
    assert!(one.is_same(&one.clone()) && !one.is_same(&other));
    assert!(Arc::ptr_eq(&holds(&one), &holds(&one.clone())) && Arc::ptr_eq(&holds(&one), &holds(&other)));
    assert!(!Arc::ptr_eq(&holds(&one), &holds(&lock(&client, "/y", Kind::Exclusive))));
    assert!(!Arc::ptr_eq(&holds(&one), &holds(&lock(self::client("a:1"), "/x", Kind::Exclusive))));
    client.close().await.unwrap();
    assert_eq!(one.acquire().await.unwrap_err().kind(), ErrorKind::ClientClosed);
}

#[tokio::test]
async fn a_shared_client_that_was_closed_is_replaced_as_often_as_that_happens() {
    let options = ClientOptions::new(Some("closed-and-replaced:1")).unwrap();
    let lock = lock(options.clone(), "/x", Kind::Exclusive);
    let first = lock.resolve().unwrap();
    assert!(Arc::ptr_eq(&first, &lock.resolve().unwrap()));
    Client::shared(&options).close().await.unwrap();
    let second = lock.resolve().unwrap();
    assert!(!first.client.is_same(&second.client) && second.client.mailbox().usable());
    assert!(Arc::ptr_eq(&second, &lock.resolve().unwrap()));
    Client::shared(&options).close().await.unwrap();
    let third = lock.resolve().unwrap();
    assert!(!second.client.is_same(&third.client) && third.client.mailbox().usable());
}

#[test]
fn what_cannot_be_is_refused_by_name() {
    let client = client("a:1");
    let refused = |settings| Lock::new((&client).into(), "/x", Kind::Exclusive, settings).unwrap_err();
    assert_eq!(
        refused(LockSettings { max_hold: Some(Duration::ZERO), ..settings() }).argument(),
        Some("max_hold")
    );
    assert_eq!(
        refused(LockSettings { label: Some("x".repeat(1025).into()), ..settings() }).argument(),
        Some("label")
    );
}

#[test]
fn a_refused_try_is_no_error_and_everything_else_is() {
    let error = |kind| Err::<(), _>(Error::new(kind, "for a reason"));
    assert_eq!(busy_is_none(Ok(1)).unwrap(), Some(1));
    assert_eq!(busy_is_none(error(ErrorKind::LockTimeout)).unwrap(), None);
    for kind in [ErrorKind::ConnectionFailed, ErrorKind::LockLost, ErrorKind::SequenceExhausted] {
        assert_eq!(busy_is_none(error(kind)).unwrap_err().kind(), kind);
    }
}

/// Records the state of a lease when it is woken, within the change that wakes it.
struct Observer(Lease, mpsc::Sender<LeaseState>);

impl Wake for Observer {
    fn wake(self: Arc<Self>) {
        self.1.send(self.0.state()).expect("a test");
    }
}

#[tokio::test]
async fn a_client_whose_credentials_are_refused_is_idle_only_when_its_leases_are_lost() {
    let server = Server::start("127.0.0.1:0").await.expect("a free port");
    let options = ClientOptions::new(Some(&server.hosts())).expect("hosts");
    let client = Client::connect_with(options).await.expect("a server that answers");
    let lock = lock(&client, "/l", Kind::Exclusive);
    let (found, states_of_the_lease) = mpsc::channel();
    let observer = Arc::new(Observer(lock.acquire().await.expect("the lock"), found));
    let mut states = client.states();
    assert!(states.poll_next(&mut Context::from_waker(&observer.into())).is_pending());
    let refused = SessionEvent::State(1, zk::SessionState::AuthFailed);
    client.mailbox().sender.send(Input::Session(refused)).expect("a driver");
    assert_eq!(states_of_the_lease.recv(), Ok(LeaseState::Lost(LossReason::SessionExpired)));
    assert_eq!(states.next().await, Some(ClientState::Idle));
}
