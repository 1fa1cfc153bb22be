//! Tests of how a connection handles session events that arrive late.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use zklock_embedded::Server;

use crate::driver::connection::*;
use crate::driver::mailbox::{Checked, DirectoryId, OwnNode, SessionEvent};
use crate::queue::{NodeName, Outcome, Ticket};
use crate::runtime::supervise::Tasks;

async fn searching() -> (Server, Connection, mpsc::UnboundedReceiver<Input>) {
    let server = Server::start("127.0.0.1:0").await.expect("a free port");
    let (connection, receiver) = search(&server.hosts());
    (server, connection, receiver)
}

fn search(hosts: &str) -> (Connection, mpsc::UnboundedReceiver<Input>) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let options = ClientOptions::new(Some(hosts)).expect("hosts");
    let mut connection = Connection::new(options, Arc::default(), sender);
    assert!(connection.start());
    (connection, receiver)
}

/// Returns the next session event.
async fn session_event(receiver: &mut mpsc::UnboundedReceiver<Input>) -> SessionEvent {
    match receiver.recv().await {
        Some(Input::Session(session_event)) => session_event,
        _ => panic!("news"),
    }
}

/// Returns the next event for a queue.
async fn queue_event(receiver: &mut mpsc::UnboundedReceiver<Input>) -> Event {
    match receiver.recv().await {
        Some(Input::Queue { event, .. }) => event,
        _ => panic!("a reply"),
    }
}

fn serving(found: &SessionEvent) -> (Tasks, Duration) {
    let SessionEvent::Established(_, Ok(session)) = found else { panic!("a session") };
    (session.tasks.clone(), session.client.session_timeout())
}

async fn end_before_their_session((mut tasks, timeout): (Tasks, Duration)) {
    tokio::time::timeout(timeout / 2, tasks.ended()).await.expect("nothing serves it any more");
}

/// Starts a proxy that needs a permit for each frame from the server, and returns its address.
async fn gated(server: String) -> (String, Arc<Semaphore>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("an address").to_string();
    let gate = Arc::new(Semaphore::new(100));
    let permits = Arc::clone(&gate);
    tokio::spawn(async move {
        let (client, _) = listener.accept().await.expect("a client");
        let server = TcpStream::connect(server).await.expect("a server");
        let ((mut from_client, mut to_client), (mut from_server, mut to_server)) =
            (client.into_split(), server.into_split());
        tokio::spawn(async move { tokio::io::copy(&mut from_client, &mut to_server).await });
        while let Ok(length) = from_server.read_u32().await {
            let mut frame = vec![0; length as usize];
            from_server.read_exact(&mut frame).await.expect("a frame");
            // A closed gate closes the connection.
            let Ok(permit) = permits.acquire().await else { return };
            permit.forget();
            to_client.write_u32(length).await.expect("a client");
            to_client.write_all(&frame).await.expect("a client");
        }
    });
    (address, gate)
}

/// Runs the test on the runtime thread, where the client crate spawns its tasks.
async fn on_the_runtime(test: impl Future<Output = ()> + Send + 'static) {
    runtime::spawn(test).expect("a thread").await.expect("no panic");
}

#[tokio::test]
async fn a_session_that_is_found_when_nobody_wants_it_any_more_is_not_begun() {
    on_the_runtime(async {
        let (_server, mut connection, mut receiver) = searching().await;
        let found = session_event(&mut receiver).await;
        assert!(matches!(found, SessionEvent::Established(_, Ok(_))));
        // The caller stops waiting after the session is established, but before the driver handles
        // that event.
        assert!(connection.stop());
        assert!(matches!(connection.handle(found), ConnectionEvent::None) && !connection.is_live());
        assert!(connection.start());
        let found = session_event(&mut receiver).await;
        assert!(
            matches!(connection.handle(found), ConnectionEvent::Began { .. }) && connection.is_connected()
        );
    })
    .await;
}

/// The server is stopped, so the client crate would have to reconnect to close the session. The
/// tasks that try this must end when the connection is closed.
#[tokio::test]
async fn nothing_is_left_of_a_session_that_nobody_wants_when_its_link_closes() {
    on_the_runtime(async {
        let (server, mut connection, mut receiver) = searching().await;
        let found = session_event(&mut receiver).await;
        let serving = serving(&found);
        assert!(connection.stop());
        server.stop().await;
        assert!(matches!(connection.handle(found), ConnectionEvent::None));
        connection.close(Duration::ZERO).await;
        end_before_their_session(serving).await;
    })
    .await;
}

#[tokio::test]
async fn nothing_is_left_of_a_session_that_nobody_hears_of() {
    on_the_runtime(async {
        let (server, connection, mut receiver) = searching().await;
        let found = session_event(&mut receiver).await;
        let serving = serving(&found);
        server.stop().await;
        drop((found, connection));
        end_before_their_session(serving).await;
    })
    .await;
}

#[tokio::test]
async fn a_session_that_nobody_wants_is_closed_on_its_server() {
    on_the_runtime(async {
        let (server, mut connection, mut receiver) = searching().await;
        let found = session_event(&mut receiver).await;
        let serving = serving(&found);
        let SessionEvent::Established(_, Ok(session)) = &found else { panic!("a session") };
        let id = session.client.session_id().0;
        assert!(connection.stop());
        assert!(matches!(connection.handle(found), ConnectionEvent::None));
        end_before_their_session(serving).await;
        assert!(!server.expire(id).await, "the server keeps it");
    })
    .await;
}

/// Sends a create and a listing in one task, and lets only the reply to the create pass the gate.
async fn created_but_not_listed() -> (Server, Connection, mpsc::UnboundedReceiver<Input>, Arc<Semaphore>) {
    let server = Server::start("127.0.0.1:0").await.expect("a free port");
    let (address, gate) = gated(server.hosts()).await;
    let (mut connection, mut receiver) = search(&address);
    let found = session_event(&mut receiver).await;
    assert!(matches!(connection.handle(found), ConnectionEvent::Began { .. }));
    let directory_client =
        connection.directory_client(DirectoryId::default(), &"/zookeeper".into()).expect("a session");
    gate.forget_permits(100);
    connection.spawn_proof_and_request(|unanswered| {
        let data = Arc::from(&b""[..]);
        directory_client.create_and_list((Ticket(1), Ticket(2)), "lock-".into(), data, unanswered)
    });
    gate.add_permits(1);
    let event = queue_event(&mut receiver).await;
    assert!(matches!(event, Event::Created(Ticket(1), Outcome::Done(_))));
    (server, connection, receiver, gate)
}

/// The create is a proof. If it counted as unanswered until the reply to the listing, the driver could
/// give up a session that is alive.
#[tokio::test]
async fn a_create_is_answered_before_the_listing_in_the_same_task() {
    on_the_runtime(async {
        let (_server, mut connection, mut receiver, gate) = created_but_not_listed().await;
        connection.note_proof_reply();
        assert!(connection.unanswered.since().is_some(), "the listing is not answered");
        gate.add_permits(1);
        let Event::Listed(Ticket(2), Outcome::Done(children)) = queue_event(&mut receiver).await else {
            panic!("a listing");
        };
        assert!(children.contains(&"lock-0000000000".to_owned()), "{children:?}");
        tokio::task::yield_now().await;
        assert_eq!(connection.unanswered.since(), None);
    })
    .await;
}

#[tokio::test]
async fn a_listing_is_lost_with_the_connection_after_the_create_in_the_same_task() {
    on_the_runtime(async {
        let (_server, _connection, mut receiver, gate) = created_but_not_listed().await;
        gate.close();
        let event = tokio::time::timeout(Duration::from_secs(60), async {
            loop {
                if let Some(Input::Queue { event, .. }) = receiver.recv().await {
                    return event;
                }
            }
        });
        assert_eq!(event.await.expect("a reply"), Event::Listed(Ticket(2), Outcome::Lost));
    })
    .await;
}

#[tokio::test]
async fn what_is_asked_without_a_connection_is_asked_on_the_next_one() {
    on_the_runtime(async {
        let (_server, mut connection, mut receiver) = searching().await;
        let found = session_event(&mut receiver).await;
        assert!(matches!(connection.handle(found), ConnectionEvent::Began { .. }));
        assert!(matches!(connection.changed(zk::SessionState::Disconnected), ConnectionEvent::Disconnected));
        let (end, ended) = tokio::sync::oneshot::channel::<()>();
        connection.spawn_proof_request(async { drop(ended.await) });
        assert_eq!(connection.give_up_in(), None);
        assert!(matches!(connection.changed(zk::SessionState::SyncConnected), ConnectionEvent::Reconnected));
        assert!(connection.give_up_in().is_some(), "a delete has no answer");
        assert!(matches!(connection.changed(zk::SessionState::Disconnected), ConnectionEvent::Disconnected));
        drop(end);
        tokio::task::yield_now().await;
        assert!(matches!(connection.changed(zk::SessionState::SyncConnected), ConnectionEvent::Reconnected));
        assert_eq!(connection.give_up_in(), None);
    })
    .await;
}

#[tokio::test]
async fn a_heartbeat_is_answered_even_if_another_write_was_answered_in_between() {
    on_the_runtime(async {
        let (_server, mut connection, mut receiver) = searching().await;
        let found = session_event(&mut receiver).await;
        assert!(matches!(connection.handle(found), ConnectionEvent::Began { .. }));
        let SessionStage::Live(live) = &connection.stage else { panic!("a session") };
        let client = live.session.client.clone();
        let (ephemeral, persistent) = (zk::CreateMode::Ephemeral, zk::CreateMode::Persistent);
        let [ephemeral, persistent] =
            [ephemeral, persistent].map(|mode| mode.with_acls(zk::Acls::anyone_all()));
        client.create("/l", b"", &persistent).await.expect("a directory");
        client.create("/l/lock-0000000001", b"", &ephemeral).await.expect("a node");
        let node = OwnNode {
            directory: DirectoryId::default(),
            path: Arc::from("/l"),
            name: NodeName::parse("lock-0000000001").expect("a node"),
        };
        connection.send_heartbeat(vec![node]);
        tokio::task::yield_now().await;
        // A reply to an earlier delete arrives after the heartbeat was sent.
        connection.note_proof_reply();
        assert!(connection.give_up_in().is_some(), "the heartbeat is under way");
        let beaten = session_event(&mut receiver).await;
        assert!(connection.term().expect("a session").runs(), "it has proven the session");
        assert!(matches!(connection.handle(beaten), ConnectionEvent::Checked(_)));
        assert_eq!(connection.give_up_in(), None, "nothing is asked any more");
    })
    .await;
}

#[tokio::test]
async fn a_node_that_is_missing_is_told_of_although_the_connection_was_lost_with_the_answer() {
    on_the_runtime(async {
        let (_server, mut connection, mut receiver) = searching().await;
        let found = session_event(&mut receiver).await;
        assert!(matches!(connection.handle(found), ConnectionEvent::Began { .. }));
        let (epoch, connection_number) = (connection.epoch, connection.number);
        assert!(matches!(connection.changed(zk::SessionState::Disconnected), ConnectionEvent::Disconnected));
        let node = |name: &str| OwnNode {
            directory: DirectoryId::default(),
            path: Arc::from("/l"),
            name: NodeName::parse(name).expect("a node"),
        };
        let beaten = |missing, last| {
            SessionEvent::HeartbeatAnswered(
                epoch,
                connection_number,
                Checked { missing, last, answered: true },
            )
        };
        let told = connection.handle(beaten(vec![node("lock-0000000001")], Some(node("lock-0000000002"))));
        let ConnectionEvent::Checked(Checked { missing, last: None, .. }) = told else {
            panic!("it is told")
        };
        assert_eq!(missing, [node("lock-0000000001")]);
        // The next connection's heartbeat checks the other nodes.
        assert!(matches!(
            connection.handle(beaten(Vec::new(), Some(node("lock-0000000002")))),
            ConnectionEvent::None
        ));
    })
    .await;
}

#[tokio::test]
async fn news_of_a_session_that_is_over_leave_the_next_one_alone() {
    on_the_runtime(async {
        let (_server, mut connection, mut receiver) = searching().await;
        let found = session_event(&mut receiver).await;
        assert!(matches!(connection.handle(found), ConnectionEvent::Began { .. }));
        let (first, old) = (connection.session_id(), connection.epoch);
        assert!(matches!(connection.lose(), ConnectionEvent::Lost));
        let found = loop {
            let session_event = session_event(&mut receiver).await;
            if matches!(session_event, SessionEvent::Established(..)) {
                break session_event;
            }
        };
        assert!(matches!(connection.handle(found), ConnectionEvent::Began { .. }));
        let second = connection.session_id();
        assert_ne!(second, first);
        for late in [
            SessionEvent::SessionTaskEnded(old),
            SessionEvent::Over(old),
            SessionEvent::Panicked(old, "late".to_owned()),
        ] {
            assert!(matches!(connection.handle(late), ConnectionEvent::None));
            assert!(connection.is_connected());
        }
        assert_eq!(connection.session_id(), second);
        // The connection handles an event of its own session.
        assert!(matches!(
            connection.handle(SessionEvent::SessionTaskEnded(connection.epoch)),
            ConnectionEvent::Lost
        ));
    })
    .await;
}

/// Fails if a new version of the client crate pauses in other places between its connection
/// attempts. The crate's own pauses grow without limit, so a client could reconnect too late and
/// lose its leases.
#[tokio::test]
async fn the_client_crates_pauses_between_rounds_of_servers_are_over_at_once() {
    on_the_runtime(async {
        let (server, mut connection, mut receiver) = searching().await;
        let found = session_event(&mut receiver).await;
        assert!(matches!(connection.handle(found), ConnectionEvent::Began { .. }));
        let settings = connection.settings();
        server.stop().await;
        // The first round has no pause.
        for _ in 0..4 {
            settings.attempt_failed().await;
        }
        assert!(settings.skipped_pauses() >= 2, "{}", settings.skipped_pauses());
    })
    .await;
}

#[tokio::test]
async fn the_log_is_told_when_all_servers_have_turned_the_client_away_and_that_ends_with_the_outage() {
    on_the_runtime(async {
        let (server, mut connection, mut receiver) = searching().await;
        let found = session_event(&mut receiver).await;
        assert!(matches!(connection.handle(found), ConnectionEvent::Began { .. }));
        server.stop().await;
        assert!(matches!(connection.changed(zk::SessionState::Disconnected), ConnectionEvent::Disconnected));
        while connection.outages.warned().is_none() {
            connection.settings().attempt_failed().await;
            tokio::task::yield_now().await;
        }
        let warned = connection.outages.warned().unwrap_or_default();
        assert!(warned.contains("refused the connection"), "{warned}");
        assert!(matches!(connection.changed(zk::SessionState::SyncConnected), ConnectionEvent::Reconnected));
        assert_eq!(connection.outages.warned(), None);
    })
    .await;
}
