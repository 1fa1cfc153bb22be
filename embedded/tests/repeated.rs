//! Tests that call the server's controls, such as `pause` and `latency`, repeatedly and with many
//! clients.

#![expect(clippy::unwrap_used, reason = "a test ends with a panic, also in its helpers")]

mod bare;
mod common;

use std::time::Duration;

use bare::{EVENT, Session};
use common::{LIMIT, client, run, server};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};
use zklock::{ClientState, ErrorKind, LeaseState, LossReason, Mutex};
use zklock_embedded::{Server, TestServer};

/// Time to wait before a test concludes that nothing happens.
const SILENCE: Duration = Duration::from_millis(300);

/// Opens sessions that watch `/x`.
async fn watchers(server: &Server, count: usize) -> Vec<Session> {
    let mut watchers = Vec::new();
    for _ in 0..count {
        let mut watcher = Session::open(&server.hosts()).await;
        watcher.watch("/x").await;
        watchers.push(watcher);
    }
    watchers
}

/// Waits until the server has created a node, even if its reply is delayed.
async fn until_there(server: &Server, path: &str) {
    while !server.tree().await.contains_key(path) {
        sleep(Duration::from_millis(1)).await;
    }
}

#[test]
fn one_resume_ends_any_number_of_pauses() {
    run(async {
        let server = server().await;
        let mut stream = Session::open(&server.hosts()).await;
        for _ in 0..2 {
            server.pause().await;
            server.pause().await;
            stream.ping().await;
            timeout(SILENCE, stream.hear()).await.unwrap_err();
            server.resume().await;
            assert_eq!(stream.hear().await, Some(bare::PING));
            // While the server is not paused, `resume` has no effect. In particular, it does not
            // cancel the next pause.
            server.resume().await;
            stream.ping().await;
            assert_eq!(stream.hear().await, Some(bare::PING));
        }
    });
}

#[test]
fn the_clock_stops_from_each_first_pause_to_the_resume() {
    run(async {
        let server = server().await;
        let time_out = Duration::from_secs(2);
        let mut session = Session::with_timeout(&server.hosts(), time_out).await;
        session.create_ephemeral("/x").await;
        for _ in 0..2 {
            for _ in 0..2 {
                server.pause().await;
                sleep(time_out * 3 / 5).await;
            }
            server.resume().await;
        }
        // If the server wrongly expires the session, it does so within this time.
        sleep(Duration::from_millis(250)).await;
        assert!(server.tree().await.contains_key("/x"), "it expired");
    });
}

#[test]
fn the_clock_continues_after_a_pause_where_it_stopped() {
    run(async {
        let server = server().await;
        let time_out = Duration::from_secs(2);
        let mut older = Session::with_timeout(&server.hosts(), time_out).await;
        older.create_ephemeral("/older").await;
        sleep(time_out / 2).await;
        let mut younger = Session::with_timeout(&server.hosts(), time_out).await;
        younger.create_ephemeral("/younger").await;
        server.pause().await;
        sleep(time_out).await;
        server.resume().await;
        assert_eq!(server.tree().await.len(), 2);
        // If the pause had restarted both session timeouts, both sessions would expire on the same
        // tick.
        while server.tree().await.contains_key("/older") {
            sleep(Duration::from_millis(5)).await;
        }
        assert!(server.tree().await.contains_key("/younger"), "both ended together");
    });
}

#[test]
fn the_newest_latency_counts() {
    run(async {
        let server = server().await;
        let mut stream = Session::open(&server.hosts()).await;
        // If the server added these latencies, or used the longest one, the reply would not arrive
        // within the test's time limit.
        server.latency(2 * LIMIT).await;
        server.latency(SILENCE).await;
        server.latency(SILENCE).await;
        let begun = Instant::now();
        stream.ping().await;
        assert_eq!(stream.hear().await, Some(bare::PING));
        assert!(begun.elapsed() >= SILENCE, "{:?}", begun.elapsed());
        server.latency(Duration::ZERO).await;
        server.latency(Duration::ZERO).await;
        server.latency(2 * SILENCE).await;
        let begun = Instant::now();
        stream.ping().await;
        assert_eq!(stream.hear().await, Some(bare::PING));
        assert!(begun.elapsed() >= 2 * SILENCE, "{:?}", begun.elapsed());
        server.latency(2 * LIMIT).await;
        server.latency(Duration::ZERO).await;
        stream.ping().await;
        assert_eq!(stream.hear().await, Some(bare::PING));
    });
}

#[test]
fn events_are_as_late_as_replies_for_every_client() {
    run(async {
        let server = server().await;
        let mut holder = Session::open(&server.hosts()).await;
        holder.create_ephemeral("/x").await;
        let mut watchers = watchers(&server, 20).await;
        server.latency(SILENCE).await;
        let begun = Instant::now();
        assert!(server.expire(holder.id).await);
        for watcher in &mut watchers {
            assert_eq!(watcher.hear().await, Some(EVENT));
            assert!(begun.elapsed() >= SILENCE, "{:?}", begun.elapsed());
        }
        // All clients wait for the same delay at the same time.
        assert!(begun.elapsed() < SILENCE * 20, "{:?}", begun.elapsed());
    });
}

#[test]
fn a_delayed_event_arrives_before_a_later_reply() {
    run(async {
        let server = server().await;
        let mut holder = Session::open(&server.hosts()).await;
        holder.create_ephemeral("/x").await;
        let mut watcher = Session::open(&server.hosts()).await;
        watcher.watch("/x").await;
        server.latency(SILENCE).await;
        let begun = Instant::now();
        assert!(server.expire(holder.id).await);
        server.latency(Duration::ZERO).await;
        watcher.ping().await;
        assert_eq!([watcher.hear().await, watcher.hear().await], [Some(EVENT), Some(bare::PING)]);
        assert!(begun.elapsed() >= SILENCE, "{:?}", begun.elapsed());
    });
}

#[test]
fn events_are_held_back_by_a_pause_for_every_client_that_is_not_cut_off() {
    run(async {
        let server = server().await;
        let mut holder = Session::open(&server.hosts()).await;
        holder.create_ephemeral("/x").await;
        let mut watchers = watchers(&server, 20).await;
        // The second pause changes nothing.
        server.pause().await;
        server.pause().await;
        assert!(server.expire(holder.id).await);
        assert!(!server.tree().await.contains_key("/x"));
        for cut in &watchers[..5] {
            assert!(server.disconnect(cut.id).await);
            assert!(!server.disconnect(cut.id).await);
        }
        for cut in &mut watchers[..5] {
            assert_eq!(cut.hear().await, None, "it is cut off at once, and hears nothing");
        }
        sleep(SILENCE).await;
        for waiting in &mut watchers[5..] {
            timeout(Duration::from_millis(1), waiting.hear()).await.unwrap_err();
        }
        server.resume().await;
        for waiting in &mut watchers[5..] {
            assert_eq!(waiting.hear().await, Some(EVENT));
        }
    });
}

#[test]
fn delayed_messages_keep_their_delay_after_a_pause() {
    run(async {
        let server = server().await;
        let mut stream = Session::open(&server.hosts()).await;
        server.latency(3 * SILENCE).await;
        let begun = Instant::now();
        stream.begin_create("/x").await;
        until_there(&server, "/x").await;
        server.pause().await;
        server.resume().await;
        assert_eq!(stream.hear().await, Some(bare::REPLY));
        assert!(begun.elapsed() >= 3 * SILENCE, "{:?}", begun.elapsed());
    });
}

#[test]
fn a_latency_that_is_set_during_a_pause_applies_to_requests_read_after_it() {
    run(async {
        let server = server().await;
        let mut stream = Session::open(&server.hosts()).await;
        server.latency(2 * LIMIT).await;
        server.pause().await;
        stream.ping().await;
        server.latency(SILENCE).await;
        let begun = Instant::now();
        server.resume().await;
        assert_eq!(stream.hear().await, Some(bare::PING));
        assert!(begun.elapsed() >= SILENCE, "{:?}", begun.elapsed());
    });
}

#[test]
fn a_session_that_ends_during_a_pause_ends_once_and_its_connection_after_it() {
    run(async {
        let server = server().await;
        let mut stream = Session::open(&server.hosts()).await;
        server.pause().await;
        assert!(server.expire(stream.id).await);
        assert!(!server.expire(stream.id).await);
        assert!(!server.disconnect(stream.id).await, "its connection is not its own any more");
        timeout(SILENCE, stream.hear()).await.unwrap_err();
        server.resume().await;
        assert_eq!(stream.hear().await, None);
        assert!(!server.expire(stream.id).await);
    });
}

#[test]
fn a_client_that_is_cut_off_during_a_pause_reconnects_after_it() {
    run(async {
        let server = server().await;
        let client = client(&server).await;
        let lease = Mutex::new(&client, "/locks/x").unwrap().acquire().await.unwrap();
        let mut states = client.states();
        server.pause().await;
        assert!(server.disconnect(lease.session_id()).await);
        while states.next().await != Some(ClientState::Suspended) {}
        sleep(SILENCE).await;
        assert!(!server.disconnect(lease.session_id()).await, "it hears nothing, and has no connection");
        assert_eq!(client.state(), ClientState::Suspended);
        server.resume().await;
        while states.next().await != Some(ClientState::Connected) {}
        assert_eq!(client.session_id(), lease.session_id());
        while lease.state() != LeaseState::Held {
            sleep(Duration::from_millis(1)).await;
        }
    });
}

#[test]
fn a_client_that_is_cut_off_and_expired_during_a_pause_gets_a_new_session_after_it() {
    run(async {
        let server = server().await;
        let (client, other) = (client(&server).await, client(&server).await);
        let lease = Mutex::new(&client, "/locks/x").unwrap().acquire().await.unwrap();
        let lock = Mutex::new(&other, "/locks/x").unwrap();
        let waiting = tokio::spawn(async move { lock.acquire().await });
        while server.tree().await.len() < 4 {
            sleep(Duration::from_millis(1)).await;
        }
        server.pause().await;
        assert!(server.disconnect(lease.session_id()).await);
        assert!(server.expire(lease.session_id()).await);
        assert!(!server.tree().await.contains_key(&lease.node()));
        sleep(SILENCE).await;
        assert!(!waiting.is_finished(), "it has finished already");
        assert!(lease.loss_reason().is_none());
        server.resume().await;
        assert_eq!(lease.lost().await, LossReason::SessionExpired);
        assert_eq!(waiting.await.unwrap().unwrap().state(), LeaseState::Held);
        client.ready().await.unwrap();
        assert_ne!(client.session_id(), lease.session_id());
    });
}

#[test]
fn cutting_a_connection_again_and_again_loses_nothing() {
    run(async {
        let server = server().await;
        let client = client(&server).await;
        let lease = Mutex::new(&client, "/locks/x").unwrap().acquire().await.unwrap();
        let mut states = client.states();
        for _ in 0..5 {
            assert!(server.disconnect(lease.session_id()).await);
            while states.next().await != Some(ClientState::Suspended) {}
            while states.next().await != Some(ClientState::Connected) {}
        }
        assert_eq!(client.session_id(), lease.session_id());
        lease.check().unwrap();
        lease.release().await.unwrap();
    });
}

#[test]
fn messages_in_flight_are_lost_with_their_connection() {
    run(async {
        let server = server().await;
        let mut stream = Session::open(&server.hosts()).await;
        server.latency(SILENCE).await;
        stream.begin_create("/x").await;
        until_there(&server, "/x").await;
        assert!(server.disconnect(stream.id).await);
        server.latency(Duration::ZERO).await;
        assert_eq!(stream.hear().await, None);
        let mut again = stream.reopen(&server.hosts()).await;
        assert_eq!(again.id, stream.id);
        sleep(2 * SILENCE).await;
        again.ping().await;
        assert_eq!(again.hear().await, Some(bare::PING));
        timeout(SILENCE, again.hear()).await.unwrap_err();
    });
}

#[test]
fn closing_a_client_does_not_wait_for_a_paused_server() {
    run(async {
        let server = server().await;
        let client = client(&server).await;
        let lease = Mutex::new(&client, "/locks/x").unwrap().acquire().await.unwrap();
        server.pause().await;
        // The client may return an error because the server does not reply, but it returns in time.
        timeout(LIMIT / 2, client.close()).await.expect("it waits for the server").unwrap_or_default();
        assert_eq!(lease.loss_reason(), Some(LossReason::ClientClosed));
        assert!(server.tree().await.contains_key(&lease.node()), "the server has read nothing");
        server.resume().await;
        // The client's close request had arrived.
        while server.tree().await.contains_key(&lease.node()) {
            sleep(Duration::from_millis(1)).await;
        }
        assert!(!server.expire(lease.session_id()).await);
    });
}

#[test]
fn clients_that_connect_during_a_pause_are_served_after_it() {
    run(async {
        let server = server().await;
        server.pause().await;
        let mut streams = Vec::new();
        for _ in 0..20 {
            streams.push(TcpStream::connect(server.hosts()).await.unwrap());
        }
        for stream in &mut streams {
            bare::greet(stream, LIMIT).await;
        }
        sleep(SILENCE).await;
        for stream in &mut streams {
            timeout(Duration::from_millis(1), stream.readable()).await.unwrap_err();
        }
        server.pause().await;
        server.resume().await;
        let mut ids = Vec::new();
        for stream in &mut streams {
            ids.push(bare::greeting(stream).await.0);
        }
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), 20, "each has a session of its own");
    });
}

#[test]
fn a_server_that_is_paused_and_late_can_be_stopped_twice_at_once() {
    let server = TestServer::start().unwrap();
    let client = zklock::blocking::Client::connect(&server.hosts()).unwrap();
    let session = client.session_id();
    server.latency(2 * LIMIT).unwrap();
    server.pause().unwrap();
    server.pause().unwrap();
    assert!(server.disconnect(session).unwrap());
    assert!(server.expire(session).unwrap());
    std::thread::scope(|scope| {
        let stops: Vec<_> = (0..4).map(|_| scope.spawn(|| server.stop())).collect();
        for stop in stops {
            stop.join().unwrap().unwrap();
        }
    });
    assert_eq!(server.resume().unwrap_err().kind(), std::io::ErrorKind::NotConnected);
    // The client's close may fail, because the server was stopped.
    let closed = client.close();
    assert!(closed.is_ok() || closed.is_err_and(|error| error.kind() == ErrorKind::ConnectionFailed));
}
