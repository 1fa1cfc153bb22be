//! Tests of how a driver handles single replies and session events.

use std::fmt::{self, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Metadata, Subscriber};
use zklock_embedded::Server;
use zklock_transport::Urgency;
use zookeeper_client as zk;

use crate::driver::event_loop::*;
use crate::driver::mailbox::Mailbox;
use crate::queue::Ticket;
use crate::runtime;

/// Returns a driver without a session, its inbox and its mailbox. The requested session timeout is
/// one minute.
fn driver(hosts: &str) -> (Driver, Inbox, Mailbox) {
    let (mailbox, inbox) = Mailbox::new();
    let options = ClientOptions::new(Some(hosts)).expect("hosts");
    let options = options.session_timeout(MINUTE).expect("a time-out");
    (Driver::new(options, Arc::clone(&inbox.status), inbox.sender.clone()), inbox, mailbox)
}

const MINUTE: Duration = Duration::from_secs(60);

#[test]
fn the_log_writes_sessions_as_zookeeper_does() {
    assert_eq!(SessionId(0x0100_0a2b).to_string(), "0x1000a2b");
}

#[tokio::test]
async fn a_session_that_answers_only_questions_is_still_waited_for() {
    let test = async {
        let server = Server::start("127.0.0.1:0").await.expect("a free port");
        let (mut driver, mut inbox, _mailbox) = driver(&server.hosts());
        driver.start_connection();
        while !driver.connection.is_connected() {
            let input = inbox.receiver.recv().await.expect("news");
            assert!(driver.drain_inbox(std::iter::once(input)).is_continue());
        }
        let current = (0..9)
            .find(|connection_number| driver.connection.is_current(*connection_number))
            .expect("the first ones");
        let ticket = Ticket::default();
        let read = Event::Watched(ticket, Outcome::Done(()));
        let written = || Event::Deleted(ticket, Outcome::Done(()));
        assert_eq!(driver.connection.give_up_in(), None);
        driver.connection.note_proof_request();
        driver.on_queue_event(DirectoryId::default(), current, read);
        driver.on_queue_event(DirectoryId::default(), current + 1, written());
        assert!(driver.connection.give_up_in().is_some(), "neither answers a write of this connection");
        driver.on_queue_event(DirectoryId::default(), current, written());
        assert_eq!(driver.connection.give_up_in(), None);
        // A reply proves nothing about a later request.
        let (end, ended) = tokio::sync::oneshot::channel::<()>();
        driver.connection.spawn_proof_request(async { drop(ended.await) });
        driver.on_queue_event(DirectoryId::default(), current, written());
        assert!(driver.connection.give_up_in().is_some(), "a write is not answered yet");
        drop(end);
        tokio::task::yield_now().await;
        driver.on_queue_event(DirectoryId::default(), current, written());
        assert_eq!(driver.connection.give_up_in(), None);
    };
    runtime::spawn(test).expect("a thread").await.expect("no panic");
}

#[tokio::test]
async fn a_question_that_is_not_answered_counts_and_its_answer_proves_nothing() {
    let test = async {
        let server = Server::start("127.0.0.1:0").await.expect("a free port");
        let (mut driver, mut inbox, _mailbox) = driver(&server.hosts());
        driver.start_connection();
        while !driver.connection.is_connected() {
            let input = inbox.receiver.recv().await.expect("news");
            assert!(driver.drain_inbox(std::iter::once(input)).is_continue());
        }
        let whole = driver.connection.term().expect("a session").give_up_after();
        let [(first, one), (second, other), (third, last)] =
            [(); 3].map(|()| tokio::sync::oneshot::channel::<()>());
        driver.connection.spawn_request(async { drop(one.await) });
        let left = driver.connection.give_up_in().expect("a question is asked");
        assert!(left <= whole);
        // The pause does not count as time without a reply.
        driver.connection.spawn_request_later(Duration::from_secs(1), async { drop(other.await) });
        driver.connection.spawn_request(async { drop(last.await) });
        assert!(driver.connection.give_up_in().expect("questions are asked") <= left);
        drop(first);
        tokio::task::yield_now().await;
        assert_eq!(driver.connection.give_up_in(), Some(whole));
        drop((second, third));
        while driver.connection.give_up_in().is_some() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        // An answered question proves nothing about writes.
        driver.connection.note_proof_request();
        driver.connection.spawn_request(async {});
        tokio::task::yield_now().await;
        assert!(driver.connection.give_up_in().is_some());
    };
    runtime::spawn(test).expect("a thread").await.expect("no panic");
}

#[tokio::test]
async fn a_connection_is_urgent_while_something_is_at_stake() {
    let test = async {
        let server = Server::start("127.0.0.1:0").await.expect("a free port");
        let (mut driver, mut inbox, _mailbox) = driver(&server.hosts());
        let path: Arc<str> = "/l".into();
        assert_eq!(driver.connection.urgency(), Urgency::Wanted, "the first session is somebody's wish");
        driver.start_connection();
        while !driver.connection.is_connected() {
            let input = inbox.receiver.recv().await.expect("news");
            assert!(driver.drain_inbox(std::iter::once(input)).is_continue());
        }
        let lose_connection = |driver: &mut Driver| {
            let change = driver.connection.changed(zk::SessionState::Disconnected);
            driver.on_connection_event(change);
            driver.flush();
        };
        lose_connection(&mut driver);
        assert_eq!(driver.connection.urgency(), Urgency::Idle);
        driver.heartbeat.set_node_count(DirectoryId::default(), 1);
        driver.flush();
        assert_eq!(
            driver.connection.urgency(),
            Urgency::Idle,
            "nothing is known of a queue during an outage"
        );
        let change = driver.connection.changed(zk::SessionState::SyncConnected);
        driver.on_connection_event(change);
        lose_connection(&mut driver);
        let timeout = driver.connection.term().expect("a session").session_timeout();
        assert_eq!(driver.connection.urgency(), Urgency::Session(timeout));
        driver.heartbeat.set_node_count(DirectoryId::default(), 0);
        driver.flush();
        assert_eq!(driver.connection.urgency(), Urgency::Idle);
        driver.directories.open(&path, &driver.connection, false);
        driver.heartbeat.maintain_term(&mut driver.connection, &driver.directories, &mut driver.timers);
        assert_eq!(driver.connection.urgency(), Urgency::Wanted, "somebody waits for a lock");
        driver.connection.lose();
        driver.flush();
        assert_eq!(driver.connection.urgency(), Urgency::Wanted);
    };
    runtime::spawn(test).expect("a thread").await.expect("no panic");
}

/// Counts the warnings that contain a text.
#[derive(Clone)]
struct Warnings {
    text: &'static str,
    count: Arc<AtomicUsize>,
}

impl Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == tracing::Level::WARN
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        let mut said = Said(String::new());
        event.record(&mut said);
        self.count.fetch_add(usize::from(said.0.contains(self.text)), Ordering::Relaxed);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

struct Said(String);

impl Visit for Said {
    fn record_debug(&mut self, _: &Field, value: &dyn fmt::Debug) {
        write!(self.0, "{value:?} ").ok();
    }
}

#[tokio::test]
async fn the_log_warns_of_a_session_time_out_that_a_server_shortened_once_for_each() {
    let warnings = Warnings { text: "the server shortened", count: Arc::default() };
    let (mut driver, _inbox, _mailbox) = driver("h");
    let _recorded = tracing::subscriber::set_default(warnings.clone());
    // Each entry: the timeout of the next session, and the expected total number of warnings.
    for (timeout, warned) in
        [(MINUTE * 2, 0), (MINUTE, 0), (MINUTE / 2, 1), (MINUTE / 2, 1), (MINUTE / 3, 2), (MINUTE, 2)]
    {
        driver.on_connection_event(ConnectionEvent::Began { session_id: 1, timeout });
        assert_eq!(warnings.count.load(Ordering::Relaxed), warned, "{timeout:?}");
    }
}
