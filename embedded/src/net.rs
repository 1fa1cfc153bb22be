//! Sockets around the state machine: one task for it, one for each connection, one that accepts.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, ToSocketAddrs};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::connection::ConnectionId;
use crate::frames::{Decoder, Inbound};
use crate::machine::Machine;
use crate::replies::Output;
use crate::settings::{Settings, Time};

/// How many inputs may wait for the machine before connections are no longer read.
const INPUTS: usize = 1024;
/// How long a client may take nothing of what it is sent. Then its connection is closed: its session may be gone, and
/// events would pile up for nobody.
const WRITE_PATIENCE: Duration = Duration::from_secs(10);
/// The number of bytes read at once.
const CHUNK: usize = 64 * 1024;

enum Input {
    Opened(ConnectionId, IpAddr, mpsc::UnboundedSender<Vec<u8>>),
    Message(ConnectionId, Inbound),
    Closed(ConnectionId),
    Expire(i64, oneshot::Sender<bool>),
}

/// A server that listens on a port, for development and tests only. It runs on the tokio runtime that it was started on,
/// until it is stopped or dropped; its nodes end with it.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    inputs: mpsc::Sender<Input>,
    tasks: [JoinHandle<()>; 2],
}

impl Server {
    /// Listens on an address; port 0 is any free one. When it returns, clients can connect.
    ///
    /// # Errors
    /// The address cannot be resolved or is taken.
    pub async fn start(address: impl ToSocketAddrs) -> io::Result<Self> {
        let seed = RandomState::new().hash_one(0);
        Self::start_with(address, Settings { seed, ..Settings::default() }).await
    }

    /// The same with settings. [`Settings::seed`] should be random.
    ///
    /// # Errors
    /// The address cannot be resolved or is taken.
    pub async fn start_with(address: impl ToSocketAddrs, settings: Settings) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let (inputs, received) = mpsc::channel(INPUTS);
        let accepting = accept(listener, settings.max_frame, inputs.clone());
        let tasks = [tokio::spawn(run(settings, received)), tokio::spawn(accepting)];
        Ok(Server { address, inputs, tasks })
    }

    /// Where it listens, as a client wants it: `127.0.0.1:40000`.
    #[must_use]
    pub fn hosts(&self) -> String {
        self.address.to_string()
    }

    /// Ends a session now, as if its client had been silent for its time-out; tells whether there was one. Its nodes are
    /// gone when it returns. Dropping the future may leave it done or not.
    pub async fn expire(&self, session: i64) -> bool {
        let (done, answer) = oneshot::channel();
        self.inputs.send(Input::Expire(session, done)).await.is_ok() && answer.await.unwrap_or(false)
    }

    /// Closes the port and all connections. Clients see a server that went away.
    pub async fn stop(mut self) {
        for task in &mut self.tasks {
            task.abort();
            // An aborted task ends with an error that says so.
            task.await.unwrap_or_default();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

async fn accept(listener: TcpListener, limit: usize, inputs: mpsc::Sender<Input>) {
    // Ends the connections with itself.
    let mut connections = JoinSet::new();
    let mut next = 0;
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => {
                    next += 1;
                    connections.spawn(serve(ConnectionId(next), stream, peer.ip(), limit, inputs.clone()));
                }
                // Out of file descriptors, most likely: leave others the time to close theirs.
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

/// One connection. Reads nothing while something is to be written, so that a client that does not read cannot pile up
/// replies.
async fn serve(
    id: ConnectionId,
    mut stream: TcpStream,
    peer: IpAddr,
    limit: usize,
    inputs: mpsc::Sender<Input>,
) {
    let (output, mut outputs) = mpsc::unbounded_channel();
    if stream.set_nodelay(true).is_err() || inputs.send(Input::Opened(id, peer, output)).await.is_err() {
        return;
    }
    let mut decoder = Decoder::new(limit);
    let mut chunk = vec![0; CHUNK];
    loop {
        tokio::select! {
            biased;
            bytes = outputs.recv() => {
                let Some(mut bytes) = bytes else { break };
                while let Ok(more) = outputs.try_recv() {
                    bytes.extend(more);
                }
                if write_all(&mut stream, &bytes).await.is_err() {
                    break;
                }
            }
            read = stream.read(&mut chunk) => {
                let Ok(count @ 1..) = read else { break };
                decoder.extend(&chunk[..count]);
                if !pass_on(id, &mut decoder, &inputs).await {
                    break;
                }
            }
        }
    }
    // Nobody is left to tell if the machine is gone.
    inputs.send(Input::Closed(id)).await.unwrap_or_default();
    stream.shutdown().await.unwrap_or_default();
}

/// Fails as soon as nothing was taken for a while.
async fn write_all(stream: &mut TcpStream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let count = timeout(WRITE_PATIENCE, stream.write(bytes)).await??;
        if count == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        bytes = &bytes[count..];
    }
    Ok(())
}

/// Hands all complete messages over; false when the connection is of no more use.
async fn pass_on(id: ConnectionId, decoder: &mut Decoder, inputs: &mpsc::Sender<Input>) -> bool {
    loop {
        match decoder.next_message() {
            Ok(Some(message)) => {
                if inputs.send(Input::Message(id, message)).await.is_err() {
                    return false;
                }
            }
            Ok(None) => return true,
            Err(_) => return false,
        }
    }
}

/// The machine's task.
async fn run(settings: Settings, mut inputs: mpsc::Receiver<Input>) {
    let begun = Instant::now();
    let now = || Time {
        wall: SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX)),
        elapsed: milliseconds(begun.elapsed()),
    };
    let mut ticks = interval(Duration::from_millis(settings.tick.max(1)));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut machine = Machine::new(settings, now());
    let mut connections: BTreeMap<ConnectionId, mpsc::UnboundedSender<Vec<u8>>> = BTreeMap::new();
    loop {
        tokio::select! {
            _ = ticks.tick() => machine.tick(now()),
            input = inputs.recv() => match input {
                None => return,
                Some(Input::Opened(id, peer, output)) => {
                    machine.connect(id, peer);
                    connections.insert(id, output);
                }
                Some(Input::Message(id, message)) => machine.receive(id, message, now()),
                Some(Input::Closed(id)) => {
                    machine.disconnect(id);
                    connections.remove(&id);
                }
                Some(Input::Expire(session, done)) => {
                    // Who asked may have gone.
                    done.send(machine.expire(session)).unwrap_or_default();
                }
            },
        }
        for output in machine.take_outputs() {
            match output {
                Output::Send(id, message) => {
                    if let Some(connection) = connections.get(&id) {
                        // A connection that has just ended tells so with its next input.
                        connection.send(message.frame()).unwrap_or_default();
                    }
                }
                // Without a sender the connection's task writes what is left and ends.
                Output::Close(id) => {
                    connections.remove(&id);
                }
            }
        }
    }
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
