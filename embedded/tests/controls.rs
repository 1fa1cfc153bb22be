//! Tests of the faults that a test can inject, seen by a `zklock` client and by a bare socket.

#![expect(clippy::unwrap_used, reason = "a test ends with a panic, also in its helpers")]

mod common;

use std::time::Duration;

use common::{LIMIT, client, run, server};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};
use zklock::{Client, ClientOptions, ClientState, LeaseState, Mutex};
use zklock_embedded::{Server, Settings};

/// Time to wait before a test concludes that nothing happens.
const SILENCE: Duration = Duration::from_millis(300);

async fn word(stream: &mut TcpStream) -> String {
    stream.write_all(b"ruok").await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[test]
fn a_client_that_closed_its_writing_half_still_gets_replies() {
    run(async {
        let server = server().await;
        // During this delay, the server notices that the client has closed its half of the
        // connection. The reply is due later.
        server.latency(Duration::from_millis(50)).await;
        let mut stream = TcpStream::connect(server.hosts()).await.unwrap();
        stream.write_all(b"ruok").await.unwrap();
        stream.shutdown().await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert_eq!(answer, "imok");
    });
}

#[test]
fn a_refused_client_gets_the_error_before_an_orderly_close() {
    run(async {
        let frame =
            |record: &[u8]| [&u32::try_from(record.len()).unwrap().to_be_bytes()[..], record].concat();
        let server = server().await;
        let mut stream = TcpStream::connect(server.hosts()).await.unwrap();
        let mut said = frame(&[&[0; 12][..], &6000_i32.to_be_bytes(), &[0; 8], &frame(&[0; 16])].concat());
        let (xid, op, kind) = (-4_i32, 100_i32, 0_i32);
        let credentials =
            [&xid.to_be_bytes()[..], &op.to_be_bytes(), &kind.to_be_bytes(), &frame(b"x"), &frame(b"y")];
        said.extend(frame(&credentials.concat()));
        // Send more bytes than the server reads in one call, so that it closes the connection while
        // some bytes are unread.
        for _ in 0..20_000 {
            said.extend(frame(&[(-2_i32).to_be_bytes(), 11_i32.to_be_bytes()].concat()));
        }
        stream.write_all(&said).await.unwrap();
        // The connect reply and the error reply.
        let mut heard = [0; 40 + 20];
        stream.read_exact(&mut heard).await.unwrap();
        assert_eq!(heard[44..48], xid.to_be_bytes());
        assert_eq!(heard[56..], (-115_i32).to_be_bytes());
        assert_eq!(stream.read(&mut heard).await.unwrap(), 0);
        // This would fail after a reset.
        stream.write_all(&said).await.unwrap();
    });
}

#[test]
fn a_client_that_is_cut_off_keeps_its_session_and_its_lock() {
    run(async {
        let server = server().await;
        let client = client(&server).await;
        let mut states = client.states();
        let lease = Mutex::new(&client, "/locks/x").unwrap().acquire().await.unwrap();
        assert!(server.disconnect(lease.session_id()).await);
        while states.next().await != Some(ClientState::Suspended) {}
        while states.next().await != Some(ClientState::Connected) {}
        assert_eq!(client.session_id(), lease.session_id());
        while lease.state() != LeaseState::Held {
            sleep(Duration::from_millis(1)).await;
        }
        lease.release().await.unwrap();
        assert!(!server.disconnect(1).await);
    });
}

#[test]
fn messages_in_flight_to_a_disconnected_client_are_lost() {
    run(async {
        let server = server().await;
        let client = client(&server).await;
        let lock = Mutex::new(&client, "/locks/x").unwrap();
        lock.acquire().await.unwrap().release().await.unwrap();
        server.latency(LIMIT).await;
        let acquiring = tokio::spawn(async move { lock.acquire().await });
        // The create is done, but its reply is delayed.
        while server.tree().await.len() < 3 {
            sleep(Duration::from_millis(1)).await;
        }
        server.latency(Duration::ZERO).await;
        assert!(server.disconnect(client.session_id()).await);
        let lease = acquiring.await.unwrap().unwrap();
        let nodes: Vec<String> =
            server.tree().await.into_keys().filter(|path| path.contains("-lock-")).collect();
        assert_eq!(nodes, [lease.node()]);
    });
}

#[test]
fn a_paused_server_sends_nothing() {
    run(async {
        let server = server().await;
        let client = client(&server).await;
        let lock = Mutex::new(&client, "/locks/x").unwrap();
        lock.acquire().await.unwrap().release().await.unwrap();
        let before = server.tree().await;
        let mut old = TcpStream::connect(server.hosts()).await.unwrap();
        server.pause().await;
        server.pause().await;
        let mut new = TcpStream::connect(server.hosts()).await.unwrap();
        let acquiring = tokio::spawn(async move { lock.acquire().await });
        for stream in [&mut old, &mut new] {
            timeout(SILENCE, word(stream)).await.unwrap_err();
        }
        assert!(!acquiring.is_finished());
        assert_eq!(server.tree().await, before);
        server.resume().await;
        server.resume().await;
        for stream in [&mut old, &mut new] {
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
            assert_eq!(answer, "imok");
        }
        acquiring.await.unwrap().unwrap().release().await.unwrap();
    });
}

#[test]
fn no_session_expires_while_the_server_is_paused() {
    run(async {
        let server = server().await;
        let short = ClientOptions::new(Some(&server.hosts())).unwrap();
        let client =
            Client::connect_with(short.session_timeout(Duration::from_millis(500)).unwrap()).await.unwrap();
        let lease = Mutex::new(&client, "/locks/x").unwrap().acquire().await.unwrap();
        server.pause().await;
        // The client cannot know that no session expires during the pause, so it reports the lease
        // as lost.
        lease.lost().await;
        sleep(Duration::from_secs(2)).await;
        // This test cannot check the session after the pause, because the client then closes it. A
        // test in `repeated.rs` checks that sessions do not expire right after a pause either.
        assert!(server.tree().await.contains_key(&lease.node()));
    });
}

#[test]
fn the_client_learns_of_an_expiry_during_a_pause_after_the_pause() {
    run(async {
        let server = server().await;
        let client = client(&server).await;
        let lease = Mutex::new(&client, "/locks/x").unwrap().acquire().await.unwrap();
        server.pause().await;
        assert!(server.expire(lease.session_id()).await);
        assert!(!server.tree().await.contains_key(&lease.node()));
        sleep(SILENCE).await;
        assert_eq!(lease.state(), LeaseState::Held);
        server.resume().await;
        lease.lost().await;
    });
}

#[test]
fn latency_delays_each_reply_and_not_the_next_request() {
    run(async {
        let server = server().await;
        let client = client(&server).await;
        let delay = Duration::from_millis(200);
        let locks: Vec<Mutex> =
            (0..50).map(|n| Mutex::new(&client, format!("/locks/{n}")).unwrap()).collect();
        // Create the directories first.
        for lock in &locks {
            lock.acquire().await.unwrap().release().await.unwrap();
        }
        server.latency(delay).await;
        let begun = Instant::now();
        let acquiring: Vec<_> = locks
            .into_iter()
            .map(|lock| tokio::spawn(async move { lock.acquire().await.unwrap() }))
            .collect();
        for acquired in acquiring {
            let lease = acquired.await.unwrap();
            assert!(begun.elapsed() >= delay);
            lease.release_in_background().unwrap();
        }
        // In sequence, the acquires would take ten seconds.
        assert!(begun.elapsed() < 10 * delay, "{:?}", begun.elapsed());
        server.latency(Duration::ZERO).await;
        // Four-letter words use their own connections, which have no delayed messages.
        let begun = Instant::now();
        assert_eq!(word(&mut TcpStream::connect(server.hosts()).await.unwrap()).await, "imok");
        assert!(begun.elapsed() < delay, "{:?}", begun.elapsed());
    });
}

#[test]
fn each_reply_has_its_own_delay() {
    run(async {
        let server = server().await;
        let mut stream = session(&server).await;
        server.latency(SILENCE).await;
        stream.write_all(&ping(1)).await.unwrap();
        sleep(SILENCE / 2).await;
        let begun = Instant::now();
        stream.write_all(&ping(2)).await.unwrap();
        for xid in [1, 2] {
            assert_eq!(reply(&mut stream).await, xid);
        }
        assert!(begun.elapsed() >= SILENCE, "{:?}", begun.elapsed());
    });
}

#[test]
fn requests_are_read_while_replies_are_late() {
    run(async {
        let server = server().await;
        let client = client(&server).await;
        let locks =
            ["/locks/w", "/locks/x", "/locks/y", "/locks/z"].map(|path| Mutex::new(&client, path).unwrap());
        for lock in &locks {
            lock.acquire().await.unwrap().release().await.unwrap();
        }
        server.latency(LIMIT).await;
        for (count, lock) in (1..).zip(locks) {
            tokio::spawn(async move { lock.acquire().await });
            while server.tree().await.keys().filter(|path| path.contains("-lock-")).count() < count {
                sleep(Duration::from_millis(1)).await;
            }
        }
    });
}

#[test]
fn replies_keep_their_order_when_the_latency_ends() {
    run(async {
        let server = server().await;
        let mut stream = session(&server).await;
        server.latency(SILENCE).await;
        let begun = Instant::now();
        stream.write_all(&ping(1)).await.unwrap();
        // Wait until the server has the ping.
        sleep(SILENCE / 3).await;
        server.latency(Duration::ZERO).await;
        stream.write_all(&ping(2)).await.unwrap();
        for xid in [1, 2] {
            assert_eq!(reply(&mut stream).await, xid);
            assert!(begun.elapsed() >= SILENCE);
        }
    });
}

#[test]
fn replies_that_are_late_stay_unsaid_during_a_pause() {
    run(async {
        let server = server().await;
        let mut stream = session(&server).await;
        server.latency(SILENCE).await;
        stream.write_all(&ping(1)).await.unwrap();
        sleep(SILENCE / 3).await;
        server.pause().await;
        timeout(2 * SILENCE, reply(&mut stream)).await.unwrap_err();
        server.resume().await;
        assert_eq!(reply(&mut stream).await, 1);
    });
}

#[test]
fn the_tree_has_all_nodes_but_the_servers_own() {
    run(async {
        let server = server().await;
        assert!(server.tree().await.is_empty());
        let client = client(&server).await;
        let lease = Mutex::new(&client, "/locks/x").unwrap().acquire().await.unwrap();
        let tree = server.tree().await;
        let paths: Vec<&str> = tree.keys().map(String::as_str).collect();
        assert_eq!(paths, ["/locks", "/locks/x", &lease.node()]);
        assert!(String::from_utf8_lossy(&tree[&lease.node()]).contains("\"pid\":"));
    });
}

#[test]
fn a_client_that_reads_nothing_is_disconnected() {
    run(async {
        let settings = Settings { slow_peer_timeout: 500, max_timeout: 3_600_000, ..Settings::default() };
        let server = Server::start_with("127.0.0.1:0", settings).await.unwrap();
        let mut stream = session(&server).await;
        let begun = Instant::now();
        // Replies fill the sockets' buffers. Then the server stops reading, and closes the
        // connection after the timeout.
        let pings = ping(1).repeat(10_000);
        while stream.write_all(&pings).await.is_ok() {}
        assert!(begun.elapsed() >= Duration::from_millis(500));
        // The server still serves another client.
        assert_eq!(word(&mut TcpStream::connect(server.hosts()).await.unwrap()).await, "imok");
    });
}

#[test]
fn a_stop_ends_a_pause_and_drops_messages_in_flight() {
    run(async {
        let server = server().await;
        let mut late = session(&server).await;
        server.latency(LIMIT).await;
        late.write_all(&ping(1)).await.unwrap();
        sleep(SILENCE / 3).await;
        server.pause().await;
        let mut silent = TcpStream::connect(server.hosts()).await.unwrap();
        server.stop().await;
        for stream in [&mut late, &mut silent] {
            assert_eq!(stream.read(&mut [0; 8]).await.unwrap_or(0), 0);
        }
    });
}

/// Opens a bare connection with a session.
async fn session(server: &Server) -> TcpStream {
    let mut stream = TcpStream::connect(server.hosts()).await.unwrap();
    let mut connect = 44_i32.to_be_bytes().to_vec();
    connect.extend([0; 12]);
    connect.extend(60_000_i32.to_be_bytes());
    connect.extend([0; 8]);
    connect.extend(16_i32.to_be_bytes());
    connect.extend([0; 16]);
    stream.write_all(&connect).await.unwrap();
    let length = stream.read_i32().await.unwrap();
    stream.read_exact(&mut vec![0; usize::try_from(length).unwrap()]).await.unwrap();
    stream
}

fn ping(xid: i32) -> Vec<u8> {
    [8, xid, 11].into_iter().flat_map(i32::to_be_bytes).collect()
}

/// Returns the `xid` of the next reply.
async fn reply(stream: &mut TcpStream) -> i32 {
    let length = stream.read_i32().await.unwrap();
    let xid = stream.read_i32().await.unwrap();
    stream.read_exact(&mut vec![0; usize::try_from(length - 4).unwrap()]).await.unwrap();
    xid
}
