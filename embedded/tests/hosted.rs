//! Tests of the server on its own thread.

#[cfg(target_os = "linux")]
use std::io::Write;
use std::io::{ErrorKind, Read};
use std::net::TcpStream;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use zklock::blocking::{Client, Mutex};
use zklock_embedded::{Settings, TestServer};

/// Generous timeout: even a loaded machine finishes earlier.
const LIMIT: Duration = Duration::from_secs(30);

fn server() -> TestServer {
    TestServer::start().expect("a free port")
}

fn wait(what: &str, mut done: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < LIMIT, "{what}");
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn every_control_reaches_it() {
    let server = server();
    let client = Client::connect(&server.hosts()).unwrap();
    let mutex = Mutex::new(&client, "/locks/x").unwrap();
    let lease = mutex.acquire().unwrap();
    let session = lease.session_id();
    assert!(server.tree().unwrap().contains_key(&lease.node()));
    assert!(server.disconnect(session).unwrap());
    wait("the client does not come back", || server.disconnect(session).unwrap());
    server.latency(Duration::from_millis(20)).unwrap();
    let begun = Instant::now();
    mutex.contenders().unwrap();
    assert!(begun.elapsed() >= Duration::from_millis(20));
    server.pause().unwrap();
    let (done, asked) = mpsc::channel();
    let asking = mutex.clone();
    let waiting = thread::spawn(move || done.send(asking.contenders().map(|all| all.len())).unwrap());
    asked.recv_timeout(Duration::from_millis(300)).unwrap_err();
    server.resume().unwrap();
    assert_eq!(asked.recv_timeout(LIMIT).unwrap().unwrap(), 1);
    waiting.join().unwrap();
    assert!(server.expire(session).unwrap());
    assert!(!server.expire(session).unwrap());
    wait("the lease is not lost", || lease.check().is_err());
}

#[test]
fn the_server_can_be_used_within_asynchronous_code() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let server = server();
        let client = zklock::Client::connect(&server.hosts()).await.unwrap();
        let lease = zklock::Mutex::new(&client, "/locks/x").unwrap().acquire().await.unwrap();
        assert!(server.expire(lease.session_id()).unwrap());
        lease.lost().await;
        server.stop().unwrap();
    });
}

#[test]
fn after_a_stop_every_method_returns_an_error() {
    let server = server();
    let hosts = server.hosts();
    server.pause().unwrap();
    let mut open = TcpStream::connect(&hosts).unwrap();
    server.stop().unwrap();
    server.stop().unwrap();
    assert_eq!(open.read(&mut [0; 8]).unwrap_or(0), 0);
    assert_eq!(TcpStream::connect(&hosts).unwrap_err().kind(), ErrorKind::ConnectionRefused);
    let error = server.tree().unwrap_err();
    assert_eq!(
        (error.kind(), error.to_string().as_str()),
        (ErrorKind::NotConnected, "the server was stopped")
    );
    for outcome in [server.expire(1), server.disconnect(1)] {
        assert_eq!(outcome.unwrap_err().kind(), ErrorKind::NotConnected);
    }
    for outcome in [server.pause(), server.resume(), server.latency(LIMIT)] {
        assert_eq!(outcome.unwrap_err().kind(), ErrorKind::NotConnected);
    }
    assert_eq!(server.hosts(), hosts);
}

#[test]
fn a_stopped_servers_port_can_be_used_again() {
    let first = server();
    let address = first.hosts();
    let taken = TestServer::start_on(&address, Settings::default()).unwrap_err();
    assert_eq!(taken.kind(), ErrorKind::AddrInUse);
    // Connect a client, so that the server restarts while the client's socket is still open.
    let client = Client::connect(&address).unwrap();
    let session = client.session_id();
    drop(first);
    let second = TestServer::start_on(&address, Settings::default()).unwrap();
    assert_eq!(second.hosts(), address);
    wait("the client does not come back", || client.session_id() != session);
    Mutex::new(&client, "/locks/x").unwrap().acquire().unwrap().release().unwrap();
}

#[cfg(target_os = "linux")]
fn count(of: &str) -> usize {
    std::fs::read_dir(of).expect("what Linux tells of processes").count()
}

#[cfg(target_os = "linux")]
#[test]
fn a_hundred_servers_leave_no_files_or_threads_open() {
    let figures = || (count("/proc/self/fd"), count("/proc/self/task"));
    drop(server());
    let before = figures();
    for stop in [true, false].repeat(50) {
        let server = server();
        let _open = TcpStream::connect(server.hosts()).unwrap();
        if stop {
            server.stop().unwrap();
        }
    }
    // Other tests in this process change these numbers too, so some difference is allowed.
    let after = figures();
    assert!(after.0 < before.0 + 50 && after.1 < before.1 + 50, "{before:?} {after:?}");
}

#[test]
fn the_server_starts_within_milliseconds() {
    let mut fastest = LIMIT;
    for _ in 0..10 {
        let begun = Instant::now();
        let server = server();
        fastest = fastest.min(begun.elapsed());
        drop(server);
    }
    assert!(fastest < Duration::from_millis(50), "{fastest:?}");
}

#[cfg(target_os = "linux")]
struct Child(libc::pid_t);

#[cfg(target_os = "linux")]
impl Drop for Child {
    fn drop(&mut self) {
        // SAFETY: the calls only concern our own child.
        unsafe {
            libc::kill(self.0, libc::SIGKILL);
            libc::waitpid(self.0, std::ptr::null_mut(), 0);
        }
    }
}

/// A child that is forked without `exec`, as Python's `multiprocessing` does, cannot use or harm
/// the server.
#[cfg(target_os = "linux")]
#[test]
fn a_forked_child_neither_uses_nor_harms_the_server() {
    let server = server();
    let hosts = server.hosts();
    // Open a session, so that the server has certainly accepted the connection.
    let mut open = TcpStream::connect(&hosts).unwrap();
    let mut connect = vec![0, 0, 0, 44];
    connect.resize(28, 0);
    connect.extend([0, 0, 0, 16]);
    connect.resize(48, 0);
    open.write_all(&connect).unwrap();
    open.read_exact(&mut [0; 40]).unwrap();
    let (mut told, mut tell) = std::io::pipe().unwrap();
    // SAFETY: the child calls nothing that takes a lock of another thread. Errors with text
    // allocate memory, which glibc allows after a fork.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let refused = server.tree().is_err() && server.stop().is_err();
        drop(server);
        tell.write_all(&[u8::from(refused)]).unwrap_or_default();
        // Keep the copies of the sockets until the parent kills this process.
        loop {
            thread::sleep(LIMIT);
        }
    }
    let _child = Child(child);
    drop(tell);
    let mut refused = [0];
    told.read_exact(&mut refused).unwrap();
    assert_eq!(refused, [1]);
    assert!(server.tree().unwrap().is_empty());
    server.stop().unwrap();
    open.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let read = open.read(&mut [0; 8]).map_err(|error| error.kind());
    assert!(matches!(read, Ok(0) | Err(ErrorKind::ConnectionReset)), "{read:?}");
    assert_eq!(TcpStream::connect(&hosts).unwrap_err().kind(), ErrorKind::ConnectionRefused);
    // The port is free again, so another server can use it.
    TestServer::start_on(&hosts, Settings::default()).map(drop).unwrap();
}
