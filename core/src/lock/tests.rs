//! Tests for decisions of a lock that need no server.

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
