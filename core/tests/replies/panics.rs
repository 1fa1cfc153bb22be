//! A panic in a task of the client crate or in one of our requests ends the session, but not the
//! client. The tests cause such a panic with a `tracing` subscriber that panics when a task logs a
//! given text.

use std::fmt::{self, Write};
use std::sync::{Mutex, Once, PoisonError};
use std::time::{Duration, Instant};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};
use zklock::{ClientState, ErrorKind, LossReason, Mutex as Lock, Owner, ReadWriteLock, Timeout};

use crate::server::{Answer, Op, Server, code};
use crate::{DIRECTORY, TIMEOUT, block_on, client, hold};

/// The subscriber panics when a log event contains one of these texts, and removes that text.
static TRAPS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Makes the client crate or the driver panic once, when it logs an event that contains this text.
/// Other tests run at the same time, so the text must be unique to this test.
fn panic_at(text: String) {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| tracing::subscriber::set_global_default(Traps).expect("the only one"));
    TRAPS.lock().unwrap_or_else(PoisonError::into_inner).push(text);
}

/// Returns `true` if no such event was logged yet.
fn is_armed(text: &str) -> bool {
    TRAPS.lock().unwrap_or_else(PoisonError::into_inner).iter().any(|trap| trap == text)
}

struct Traps;

impl Subscriber for Traps {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let target = metadata.target();
        let ours = ["zklock::driver::connection::requests", "zklock::driver::directory"];
        target.starts_with("zookeeper_client") || ours.contains(&target)
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut text = Text::default();
        event.record(&mut text);
        let mut traps = TRAPS.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(trap) = traps.iter().position(|trap| text.0.contains(trap)) else { return };
        traps.remove(trap);
        drop(traps);
        panic!("as planned, at {:?}", text.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[derive(Default)]
struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, _: &Field, value: &dyn fmt::Debug) {
        write!(self.0, "{value:?} ").ok();
    }
}

#[test]
fn a_panic_of_the_task_that_serves_a_session_ends_the_session_immediately() {
    let directory = "/locks/served";
    let server = Server::start(directory, TIMEOUT);
    // After a lock was held for a while, the client watches the holder's own node. Panic in the
    // request for that watch.
    panic_at(format!("sending request: (GetData, Watch {{ path: \"{directory}/"));
    block_on(async {
        let client = client(&server);
        let began = Instant::now();
        let lock = Lock::new(&client, directory).expect("a path");
        let lease = lock.acquire_as(&Owner::new(), Timeout::Forever).await.expect("the lock");
        assert_eq!(lease.lost().await, LossReason::SessionExpired);
        let took = began.elapsed();
        assert!(took < TIMEOUT / 3, "not noticed by a watchdog, after {took:?}");
        // The server has not ended the session, so the session's node would still block the next
        // acquire.
        let again = lock.acquire_as(&Owner::new(), Timeout::For(TIMEOUT / 2)).await.expect("the lock");
        assert_ne!(again.session_id(), lease.session_id());
        let lost = tokio::time::timeout(TIMEOUT / 2, again.lost()).await;
        assert!(lost.is_err(), "{lost:?}");
    });
}

#[test]
fn a_panic_of_the_search_for_a_session_is_one_attempt_that_failed() {
    let server = Server::start(DIRECTORY, TIMEOUT);
    let port = format!(":{}", server.port);
    panic_at(port.clone());
    panic_at(port.clone());
    block_on(async {
        let client = client(&server);
        let began = Instant::now();
        drop(hold(&client).await);
        let took = began.elapsed();
        assert!(took < Duration::from_secs(2), "{took:?}");
    });
    assert!(!is_armed(&port));
}

#[test]
fn a_panic_of_a_request_ends_the_session_immediately() {
    let directory = "/locks/refused";
    let server = Server::start(directory, TIMEOUT);
    // The task that sends the delete logs this text. After the panic, the queue gets no reply to
    // the delete.
    panic_at("the server refuses to delete a node of this client".to_owned());
    block_on(async {
        let client = client(&server);
        let lock = ReadWriteLock::new(&client, directory).expect("a path").read_lock;
        let leaving = lock.acquire().await.expect("the lock");
        let staying = lock.acquire().await.expect("the lock");
        server.answer(|request| match request.op {
            Op::Delete => Answer::Error(code::NO_AUTH),
            _ => Answer::Truth,
        });
        let began = Instant::now();
        leaving.release_in_background().expect("it is held");
        assert_eq!(staying.lost().await, LossReason::SessionExpired);
        let took = began.elapsed();
        assert!(took < TIMEOUT / 3, "not noticed by a watchdog, after {took:?}");
        server.answer_truthfully();
        let again = lock.acquire().await.expect("the lock");
        assert_ne!(again.session_id(), staying.session_id());
    });
}

#[test]
fn a_panic_of_the_driver_closes_its_client() {
    let directory = "/locks/driven";
    let server = Server::start(directory, TIMEOUT);
    // The driver logs this when it watches the holder's node after a long hold.
    let trap = format!("{directory} Watch(");
    panic_at(trap.clone());
    block_on(async {
        let client = client(&server);
        let lock = Lock::new(&client, directory).expect("a path");
        let lease = lock.acquire().await.expect("the lock");
        let mut states = client.states();
        assert_eq!(lease.lost().await, LossReason::ClientClosed);
        assert!(!is_armed(&trap));
        // The state changes a moment later than the lease.
        assert_eq!(states.next().await, Some(ClientState::Closed));
        assert_eq!(lock.acquire().await.expect_err("no driver").kind(), ErrorKind::ClientClosed);
    });
}
