//! A TCP proxy that delays traffic, for `make bench-cluster`.
//!
//! The first argument is the delay of each direction in microseconds. Each further argument is a
//! server. The proxy writes its addresses to the standard output, in the order of the servers. For
//! each line on the standard input it writes the bytes since the previous line. It exits at the end
//! of the input.
//!
//! Each direction of a connection has two threads. One reads chunks and notes when they are due, and
//! the other one writes each chunk at its time. Therefore several chunks can be under way together.

use std::fs;
use std::io::{self, BufRead, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

/// Maximum size of a chunk in bytes.
const CHUNK: usize = 64 * 1024;

/// Stack size of a thread in bytes, because each connection has four threads.
const STACK: usize = 64 * 1024;

/// Bytes from clients to servers, and from servers to clients.
#[derive(Default)]
struct Bytes {
    sent: AtomicU64,
    received: AtomicU64,
}

fn main() -> io::Result<()> {
    // By default, the kernel ends a sleep up to 50 µs late. Threads inherit this setting. Without
    // it, the proxy works less precisely.
    fs::write("/proc/self/timerslack_ns", "1").ok();
    let mut arguments = std::env::args().skip(1);
    let delay = Duration::from_micros(arguments.next().expect("a delay").parse().expect("microseconds"));
    let bytes = Arc::new(Bytes::default());
    let mut hosts = Vec::new();
    for server in arguments {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        hosts.push(listener.local_addr()?.to_string());
        let bytes = bytes.clone();
        start(move || {
            for client in listener.incoming().flatten() {
                // The client sees a closed connection if the server is not there.
                connect(client, &server, delay, &bytes).ok();
            }
        });
    }
    tell(&json!({ "hosts": hosts }))?;
    for line in io::stdin().lock().lines() {
        line?;
        let taken = |count: &AtomicU64| count.swap(0, Ordering::Relaxed);
        tell(&json!({ "sent": taken(&bytes.sent), "received": taken(&bytes.received) }))?;
    }
    Ok(())
}

fn tell(fields: &serde_json::Value) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{fields}")?;
    out.flush()
}

fn start(body: impl FnOnce() + Send + 'static) {
    thread::Builder::new().stack_size(STACK).spawn(body).expect("a thread");
}

/// Connects a client with the server.
fn connect(client: TcpStream, server: &str, delay: Duration, bytes: &Arc<Bytes>) -> io::Result<()> {
    let server = TcpStream::connect(server)?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let both = (client.try_clone()?, server.try_clone()?);
    carry(client, server, delay, bytes.clone(), |bytes| &bytes.sent);
    carry(both.1, both.0, delay, bytes.clone(), |bytes| &bytes.received);
    Ok(())
}

/// Carries one direction of a connection.
fn carry(
    from: TcpStream,
    to: TcpStream,
    delay: Duration,
    bytes: Arc<Bytes>,
    direction: fn(&Bytes) -> &AtomicU64,
) {
    let (send, under_way) = channel();
    start(move || read(from, delay, &send, direction(&bytes)));
    start(move || write(to, &under_way));
}

/// Reads chunks until the connection is closed.
fn read(mut from: TcpStream, delay: Duration, to: &Sender<(Instant, Vec<u8>)>, count: &AtomicU64) {
    let mut buffer = vec![0; CHUNK];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        let due = Instant::now() + delay;
        count.fetch_add(length as u64, Ordering::Relaxed);
        if to.send((due, buffer[..length].to_vec())).is_err() {
            break;
        }
    }
}

/// Writes each chunk when it is due.
fn write(mut to: TcpStream, under_way: &Receiver<(Instant, Vec<u8>)>) {
    while let Ok((due, chunk)) = under_way.recv() {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        if to.write_all(&chunk).is_err() {
            break;
        }
    }
    to.shutdown(Shutdown::Both).ok();
}
