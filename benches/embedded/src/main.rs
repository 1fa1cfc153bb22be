//! Measures the rate of create/delete pairs on a real server and on the embedded server,
//! alternately and with the same client. It also measures the memory of the embedded server.
//! `run.py` starts the real server.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::mpsc;
use std::time::Instant;
use std::{env, fs, future, thread};

use zklock_embedded::Server;

/// Number of pairs in flight.
const IN_FLIGHT: usize = 64;
const PAIRS: usize = 5_000;
const ROUNDS: usize = 7;

#[expect(clippy::print_stdout, reason = "a report")]
fn main() {
    let real = env::args().nth(1).expect("the address of a real server");
    let before = resident();
    let ours = start();
    Client::connect(&ours).pairs(1);
    let idle = resident() - before;
    println!("idle memory: {idle} KiB more with the server than without");
    let mut clients = [Client::connect(&real), Client::connect(&ours)];
    // Warm up the real server's just-in-time compiler.
    for client in &mut clients {
        client.pairs(PAIRS);
    }
    let mut rates = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        for (client, rates) in clients.iter_mut().zip(&mut rates) {
            let begun = Instant::now();
            client.pairs(PAIRS);
            rates.push(rate(begun.elapsed().as_secs_f64()));
        }
    }
    let [real, ours] = rates.map(|mut rates| {
        rates.sort_unstable();
        rates
    });
    println!("pairs of create and delete per second, {IN_FLIGHT} in flight, {ROUNDS} rounds in turns:");
    for (name, rates) in [("real", &real), ("embedded", &ours)] {
        println!("{name:9} median {:6}, {} to {}", rates[ROUNDS / 2], rates[0], rates[ROUNDS - 1]);
    }
    let tenths = ours[ROUNDS / 2] * 10 / real[ROUNDS / 2];
    println!("embedded / real = {}.{}", tenths / 10, tenths % 10);
    assert!(idle <= 5 * 1024, "more than 5 MiB of idle memory");
    assert!(tenths >= 20, "less than twice the real server's rate");
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "far fewer than 2^32 a second")]
fn rate(seconds: f64) -> u64 {
    (f64::from(u32::try_from(PAIRS).expect("a small number")) / seconds) as u64
}

fn start() -> String {
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let server = Server::start("127.0.0.1:0").await.expect("a free port");
            tell.send(server.hosts()).expect("somebody who waits");
            future::pending::<()>().await;
        });
    });
    told.recv().expect("a server that starts")
}

/// Returns this process's resident memory in KiB.
fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a size");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

struct Client {
    stream: TcpStream,
    received: Vec<u8>,
}

impl Client {
    fn connect(address: &str) -> Self {
        let stream = TcpStream::connect(address).expect("a server that listens");
        stream.set_nodelay(true).expect("a socket");
        let mut client = Client { stream, received: Vec::new() };
        // A connect request: no session yet, a timeout of 60 seconds, no password.
        let mut record = vec![0; 12];
        record.extend(60_000_i32.to_be_bytes());
        record.extend([0; 8]);
        record.extend(16_i32.to_be_bytes());
        record.extend([0; 16]);
        client.stream.write_all(&frame(&record)).expect("a server that listens");
        client.frames(1, false);
        client
    }

    /// Creates and deletes a node this many times.
    fn pairs(&mut self, count: usize) {
        let path: &[u8] = b"/bench-node";
        let mut pair = request(1, path, |record| {
            // No data, and one ACL rule: anyone may do anything.
            for number in [-1_i32, 1, 31] {
                record.extend(number.to_be_bytes());
            }
            string(record, b"world");
            string(record, b"anyone");
            record.extend(0_i32.to_be_bytes());
        });
        pair.extend(request(2, path, |record| record.extend((-1_i32).to_be_bytes())));
        let mut sent = 0;
        let mut done = 0;
        while done < count {
            let more = (IN_FLIGHT - (sent - done)).min(count - sent);
            self.stream.write_all(&pair.repeat(more)).expect("a server that listens");
            sent += more;
            // Wait for half of the requests in flight, so that the server always has requests to
            // execute.
            let replies = (sent - done).div_ceil(2);
            self.frames(2 * replies, true);
            done += replies;
        }
    }

    /// Reads this many frames. If `replies` is true, each frame must be a reply to a successful
    /// request.
    fn frames(&mut self, count: usize, replies: bool) {
        let mut left = count;
        let mut chunk = [0; 8 * 1024];
        while left > 0 {
            left -= self.take(left, replies);
            if left == 0 {
                return;
            }
            let read = self.stream.read(&mut chunk).expect("an answer");
            assert!(read > 0, "the server closed the connection");
            self.received.extend_from_slice(&chunk[..read]);
        }
    }

    /// Removes up to this many frames from the received bytes and returns the number of frames.
    fn take(&mut self, most: usize, replies: bool) -> usize {
        let (mut count, mut taken) = (0, 0);
        while count < most {
            let Some((length, rest)) = self.received[taken..].split_first_chunk::<4>() else { break };
            let length = usize::try_from(u32::from_be_bytes(*length)).expect("a length");
            let Some(frame) = rest.get(..length) else { break };
            assert!(!replies || frame[12..16] == [0; 4], "refused: {frame:?}");
            taken += 4 + length;
            count += 1;
        }
        self.received.drain(..taken);
        count
    }
}

fn frame(record: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    string(&mut frame, record);
    frame
}

fn string(record: &mut Vec<u8>, text: &[u8]) {
    record.extend(u32::try_from(text.len()).expect("a short text").to_be_bytes());
    record.extend(text);
}

fn request(number: i32, path: &[u8], rest: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut record = 1_i32.to_be_bytes().to_vec();
    record.extend(number.to_be_bytes());
    string(&mut record, path);
    rest(&mut record);
    frame(&record)
}
