//! Tests of the engine with replies that a server sends only when something is wrong. An in-memory
//! server in the test sends them on demand. `tests/scenarios` tests real servers.
//!
//! The program replaces functions of the C library, which resolves names on Unix only.
#![cfg(unix)]

mod heartbeats;
mod lies;
mod names;
mod panics;
mod server;
mod sessions;
mod storms;

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::pin::{Pin, pin};
use std::time::{Duration, Instant};

use server::{Answer, Op, Server, code};
use zklock::{
    Client, ClientOptions, ClientState, ErrorKind, Lease, LeaseState, LockOptions, LossReason, Mutex, Owner,
    Permits, ReadWriteLock, Semaphore, Timeout,
};

const DIRECTORY: &str = "/locks/a";
const TIMEOUT: Duration = Duration::from_secs(3);

fn block_on<F: Future>(future: F) -> F::Output {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let limited = async { tokio::time::timeout(Duration::from_secs(30), future).await };
    runtime.enable_time().build().expect("a runtime").block_on(limited).expect("no hang")
}

fn client(server: &Server) -> Client {
    let options = ClientOptions::new(Some(&server.hosts)).expect("hosts");
    Client::new(options.session_timeout(TIMEOUT).expect("a time-out"))
}

async fn hold(client: &Client) -> Lease {
    mutex(client).acquire_as(&Owner::new(), Timeout::Forever).await.expect("the lock")
}

fn mutex(client: &Client) -> Mutex {
    Mutex::new(client, DIRECTORY).expect("a path")
}

/// Returns `true` if a future is still pending after this time.
async fn waits<F: Future>(future: Pin<&mut F>, time: Duration) -> bool {
    tokio::time::timeout(time, future).await.is_err()
}

/// Holds a lock while every heartbeat gets this reply. Returns the reason for the loss of the
/// lease, and the time until the loss.
fn lost_through(answer: Answer) -> (LossReason, Duration) {
    let server = Server::start(DIRECTORY, TIMEOUT);
    block_on(async {
        let client = client(&server);
        let lease = hold(&client).await;
        let granted = Instant::now();
        server.answer(move |request| if request.op == Op::Multi { answer } else { Answer::Truth });
        let lost = tokio::time::timeout(TIMEOUT * 2, lease.lost()).await;
        (lost.expect("the lease is lost"), granted.elapsed())
    })
}

#[test]
fn a_heartbeat_of_an_ended_session_is_the_session_s_end() {
    let (reason, after) = lost_through(Answer::FirstFailed(code::SESSION_EXPIRED));
    assert_eq!(reason, LossReason::SessionExpired);
    assert!(after < TIMEOUT / 3, "with the first heartbeat, not after {after:?}");
}

#[test]
fn a_heartbeat_with_an_unrelated_error_proves_nothing() {
    let moved = [code::SESSION_MOVED, -2].map(Answer::FirstFailed);
    // A server may refuse a request without asking the leader (`enableEagerACLCheck`), so a refusal
    // does not show that the session is alive.
    for answer in moved.into_iter().chain([Answer::Error(code::NO_AUTH)]) {
        let (reason, after) = lost_through(answer);
        assert_eq!(reason, LossReason::TermEnded, "{answer:?}");
        assert!(after < TIMEOUT * 3 / 4, "{answer:?}: with the term, not after {after:?}");
    }
}

#[test]
fn a_heartbeat_that_misses_a_node_leaves_the_session() {
    let server = Server::start(DIRECTORY, TIMEOUT);
    block_on(async {
        let client = client(&server);
        let lease = hold(&client).await;
        server.clear();
        assert_eq!(lease.lost().await, LossReason::NodeDeleted);
        let again = hold(&client).await;
        assert_eq!(again.session_id(), lease.session_id());
    });
}

#[test]
fn a_transaction_of_an_ended_session_is_the_session_s_end() {
    let server = Server::start(DIRECTORY, TIMEOUT);
    block_on(async {
        let client = client(&server);
        let lease = hold(&client).await;
        server.answer(|request| match request.op {
            Op::Multi => Answer::FirstFailed(code::SESSION_EXPIRED),
            _ => Answer::Truth,
        });
        let refused = lease.transaction().set_data("/x", b"", None).commit().await.expect_err("a refusal");
        assert_eq!(refused.kind(), ErrorKind::LockLost, "{refused}");
        let lost = tokio::time::timeout(TIMEOUT / 12, lease.lost()).await;
        assert_eq!(lost, Ok(LossReason::SessionExpired));
        assert_eq!(lease.state(), LeaseState::Lost(LossReason::SessionExpired));
    });
}

#[test]
fn nothing_is_granted_at_the_end_of_a_term() {
    let server = Server::start(DIRECTORY, TIMEOUT);
    block_on(async {
        let client = client(&server);
        client.ready().await.expect("a connection");
        // After the client has sent a request, its reply lets it rely on the session for a limited
        // time. This reply arrives when that time is almost over. The reply to the heartbeat is late,
        // too, so that a grant without it is noticed even if this thread runs late.
        server.answer(|request| match request.op {
            Op::Create => Answer::Late(TIMEOUT * 19 / 50),
            Op::Multi => Answer::Late(TIMEOUT / 15),
            _ => Answer::Truth,
        });
        let lease = hold(&client).await;
        assert!(lease.remaining() > TIMEOUT / 8, "{:?} left", lease.remaining());
        assert!(server.requests().iter().any(|request| request.op == Op::Multi), "a heartbeat came first");
    });
}

#[test]
fn nothing_is_granted_before_a_proof_on_a_new_connection() {
    let server = Server::start(DIRECTORY, TIMEOUT);
    block_on(async {
        let client = client(&server);
        let first = hold(&client).await;
        let mut second = pin!(hold(&client));
        assert!(waits(second.as_mut(), Duration::from_millis(100)).await);
        server.answer(|request| if request.op == Op::Multi { Answer::Silence } else { Answer::Truth });
        let known = server.requests().len();
        server.cut();
        server.await_request(known, |request| request.op == Op::GetChildren);
        first.release().await.expect("the end of the hold");
        assert!(
            waits(second.as_mut(), TIMEOUT / 8).await,
            "granted through a connection that has proven nothing"
        );
        server.answer_truthfully();
        assert_eq!(second.await.state(), LeaseState::Held);
    });
}

/// Tests a server that seems to work, but executes no write of this session: neither a holder's
/// heartbeat nor the create of a new contender.
fn deaf(hold_first: bool) {
    let server = Server::start(DIRECTORY, TIMEOUT);
    block_on(async {
        let client = client(&server);
        client.ready().await.expect("a connection");
        let before = client.session_id();
        let held = if hold_first { Some(hold(&client).await) } else { None };
        server.answer(move |request| match request.op {
            Op::Multi if request.session == before => Answer::Error(code::THROTTLED),
            Op::Create | Op::Delete if request.session == before => Answer::Silence,
            _ => Answer::Truth,
        });
        let began = Instant::now();
        if let Some(lease) = held {
            assert_eq!(lease.lost().await, LossReason::TermEnded);
        }
        let after = hold(&client).await;
        assert_ne!(after.session_id(), before);
        let took = began.elapsed();
        assert!(took > TIMEOUT * 6 / 5 && took < TIMEOUT * 9 / 5, "{took:?}");
    });
}

#[test]
fn a_session_that_no_longer_proves_anything_is_given_up() {
    deaf(true);
}

#[test]
fn a_session_that_no_longer_creates_anything_is_given_up() {
    deaf(false);
}

#[test]
fn a_session_in_which_the_number_of_permits_is_asked_for_in_vain_is_given_up() {
    let server = Server::start(DIRECTORY, TIMEOUT);
    block_on(async {
        let client = client(&server);
        client.ready().await.expect("a connection");
        let before = client.session_id();
        server.answer(move |request| match request.op {
            Op::GetData | Op::Exists if request.session == before => Answer::Silence,
            _ => Answer::Truth,
        });
        let count = Permits::SharedCount("/count".to_owned());
        let permits =
            Semaphore::with_options(&client, DIRECTORY, count, LockOptions::default()).expect("a path");
        // In the next session, the server replies that the node does not exist.
        let refused = permits.acquire().await.expect_err("there is no number");
        assert_eq!(refused.kind(), ErrorKind::BadArgument, "{refused}");
        assert_ne!(client.session_id(), before);
    });
}

#[test]
fn a_session_that_has_nothing_left_to_prove_is_kept() {
    let server = Server::start(DIRECTORY, TIMEOUT);
    block_on(async {
        let client = client(&server);
        let lease = hold(&client).await;
        // The first heartbeat on the new connection gets a reply that does not show whether the
        // session is alive. The second reply arrives after the lease is lost, when there is no node
        // left to check.
        server.answer(|request| match request.op {
            Op::Ephemerals => Answer::Late(TIMEOUT / 20),
            _ => Answer::Truth,
        });
        server.clear();
        server.cut();
        assert_eq!(lease.lost().await, LossReason::NodeDeleted);
        tokio::time::sleep(TIMEOUT * 8 / 5).await;
        assert_eq!(client.session_id(), lease.session_id());
    });
}

#[test]
fn throttled_requests_are_repeated_less_and_less_often() {
    let server = Server::start(DIRECTORY, TIMEOUT);
    block_on(async {
        let client = client(&server);
        client.ready().await.expect("a connection");
        server.answer(|request| match request.op {
            Op::GetChildren => Answer::Error(code::THROTTLED),
            _ => Answer::Truth,
        });
        let mut waiting = pin!(hold(&client));
        assert!(waits(waiting.as_mut(), Duration::from_secs(6)).await);
        let requests = server.requests();
        let listings: Vec<_> = requests.iter().filter(|request| request.op == Op::GetChildren).collect();
        assert!((4..20).contains(&listings.len()), "{} listings", listings.len());
        let pauses: Vec<_> = listings.windows(2).map(|pair| pair[1].at - pair[0].at).collect();
        assert!(pauses[pauses.len() - 1] > pauses[0] * 4, "{pauses:?}");
        server.answer_truthfully();
        drop(waiting.await);
    });
}

#[test]
fn a_node_of_ours_that_is_there_already_is_taken_for_ours() {
    let server = Server::start(DIRECTORY, TIMEOUT);
    block_on(async {
        let client = client(&server);
        let (lock, owner) = (ReadWriteLock::new(&client, DIRECTORY).expect("a path"), Owner::new());
        let writer = lock.write_lock.acquire_as(&owner, Timeout::Forever).await.expect("the lock");
        // The server executes the request, but replies that the node already exists, as if it had
        // executed an earlier attempt before.
        server.answer(|request| match request.op {
            Op::Create => Answer::DoneBut(code::NODE_EXISTS),
            Op::Multi => Answer::DoneButSecondFailed(code::NODE_EXISTS),
            _ => Answer::Truth,
        });
        let known = server.requests().len();
        let reader = lock.read_lock.acquire_as(&owner, Timeout::Forever).await.expect("the lock");
        assert_eq!(reader.fencing_token(), writer.fencing_token());
        // The client does not treat the reply as throttling, so it does not pause.
        let asked: Vec<_> = server.requests()[known..].iter().map(|request| request.op).collect();
        assert!(asked.contains(&Op::Create) || asked.contains(&Op::Multi), "{asked:?}");
        assert!(!asked.contains(&Op::Sync), "{asked:?}");
    });
}

/// For a downgrade, the client sends two requests together. If the first reply reports that the
/// writer's node does not exist, the client does not need the second reply, which may never arrive.
#[test]
fn a_writer_whose_place_is_gone_is_lost_with_the_first_answer() {
    let server = Server::start(DIRECTORY, TIMEOUT);
    block_on(async {
        let client = client(&server);
        let (lock, owner) = (ReadWriteLock::new(&client, DIRECTORY).expect("a path"), Owner::new());
        let writer = lock.write_lock.acquire_as(&owner, Timeout::Forever).await.expect("the lock");
        let mut told = false;
        server.answer(move |request| match request.op {
            Op::Multi if !told => {
                told = true;
                Answer::FirstFailed(code::NO_NODE)
            }
            _ if told => Answer::Silence,
            _ => Answer::Truth,
        });
        let mut reader = pin!(lock.read_lock.acquire_as(&owner, Timeout::Forever));
        assert!(waits(reader.as_mut(), Duration::from_millis(1)).await);
        assert_eq!(writer.lost().await, LossReason::NodeDeleted);
        // The client reports the loss before it gives up the connection because of the missing
        // second reply.
        assert_eq!(client.state(), ClientState::Connected);
        server.answer_truthfully();
    });
}

/// Creates a client that knows the server by its host name.
fn named_client(server: &Server) -> Client {
    let options = ClientOptions::new(Some(&format!("{}:{}", names::NAME, server.port))).expect("hosts");
    Client::new(options.session_timeout(TIMEOUT).expect("a time-out"))
}

async fn becomes(lease: &Lease, state: LeaseState) {
    let deadline = Instant::now() + TIMEOUT / 3;
    while lease.state() != state {
        assert!(Instant::now() < deadline, "it is {:?}", lease.state());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[test]
fn a_server_whose_address_changes_is_found_by_its_name() {
    let server = Server::start(DIRECTORY, TIMEOUT);
    let (elsewhere, silent) = (Ipv4Addr::new(127, 0, 0, 2), Ipv4Addr::new(127, 0, 0, 3));
    block_on(async {
        names::set(&[Ipv4Addr::LOCALHOST]);
        let client = named_client(&server);
        let lease = hold(&client).await;
        server.move_to(elsewhere.into());
        becomes(&lease, LeaseState::Suspended).await;
        names::set(&[elsewhere]);
        becomes(&lease, LeaseState::Held).await;
        // If an address does not respond at all, not even with a refusal, the client tries the next
        // one.
        let _crowded = crowded(silent, server.port);
        names::set(&[silent, elsewhere]);
        server.cut();
        becomes(&lease, LeaseState::Suspended).await;
        becomes(&lease, LeaseState::Held).await;
    });
}

/// Opens a listener with a full queue of connections, so that the system does not respond to
/// further clients.
fn crowded(ip: Ipv4Addr, port: u16) -> (TcpListener, Vec<TcpStream>) {
    let listener = TcpListener::bind((ip, port)).expect("the same port");
    // SAFETY: the socket is open.
    assert_eq!(unsafe { libc::listen(listener.as_raw_fd(), 0) }, 0);
    let wait = Duration::from_millis(100);
    let connect = || TcpStream::connect_timeout(&SocketAddr::from((ip, port)), wait).ok();
    let clients: Vec<_> = std::iter::from_fn(connect).collect();
    assert!(!clients.is_empty());
    (listener, clients)
}
