//! One client connection: reads messages, writes replies, and applies the faults that a test
//! requests.

use std::io;
use std::net::{Shutdown, SocketAddr};
use std::time::Duration;

use socket2::SockRef;
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep_until, timeout};

use crate::connections::ConnectionId;
use crate::frames::{Decoder, Inbound};

/// Maximum number of bytes that one read returns.
const CHUNK: usize = 64 * 1024;

/// A message from a connection to the server.
pub(crate) enum Input {
    Opened(ConnectionId, SocketAddr, Peer),
    Message(ConnectionId, Inbound),
    Closed(ConnectionId),
}

/// The server's handle to a connection. After `parcels` is dropped, the connection writes the bytes
/// that were sent before, and then closes.
pub(crate) struct Peer {
    pub(crate) parcels: mpsc::UnboundedSender<DelayedBytes>,
    /// Closes the connection immediately. Bytes that are not delivered yet are lost.
    pub(crate) cut: oneshot::Sender<()>,
}

/// Bytes to send, but not before the instant `due`.
pub(crate) struct DelayedBytes {
    pub(crate) due: Option<Instant>,
    pub(crate) bytes: Vec<u8>,
}

impl DelayedBytes {
    fn is_due(&self) -> bool {
        self.due.is_none_or(|due| due <= Instant::now())
    }
}

/// `false` during a pause. A connection holds the lock of this value during each read and write.
/// Therefore no byte is read or written after the value has become `false`.
pub(crate) type Gate = watch::Receiver<bool>;

/// The settings and channels that all connections share.
#[derive(Clone)]
pub(crate) struct Line {
    pub(crate) inputs: mpsc::Sender<Input>,
    pub(crate) gate: Gate,
    /// Maximum frame length in bytes.
    pub(crate) limit: usize,
    /// Time after which a connection is dropped if its client reads nothing, or does not close its
    /// half of the connection after the server has closed the other half.
    pub(crate) slow_peer_timeout: Duration,
}

/// Serves a connection until it closes.
pub(crate) async fn serve(id: ConnectionId, stream: TcpStream, peer: SocketAddr, line: Line) {
    let (parcels, arriving) = mpsc::unbounded_channel();
    let (cut, cutting) = oneshot::channel();
    let inputs = line.inputs.clone();
    let socket = Socket { stream, gate: line.gate.clone(), slow_peer_timeout: line.slow_peer_timeout };
    if inputs.send(Input::Opened(id, peer, Peer { parcels, cut })).await.is_err() {
        return;
    }
    tokio::select! {
        () = converse(id, socket, arriving, line) => {}
        () = cut_off(cutting) => {}
    }
    // The send fails only if the server has stopped. The message is then unnecessary.
    inputs.send(Input::Closed(id)).await.unwrap_or_default();
}

async fn cut_off(cutting: oneshot::Receiver<()>) {
    if cutting.await.is_err() {
        // The sender was dropped without a cut, so the connection closes in the normal way.
        std::future::pending::<()>().await;
    }
}

/// Runs the connection. It does not read while it writes. Otherwise a client that reads nothing
/// could make replies pile up. It does read while a delayed reply is not due yet, so that every
/// request is delayed by the same time.
async fn converse(
    id: ConnectionId,
    mut socket: Socket,
    mut arriving: mpsc::UnboundedReceiver<DelayedBytes>,
    line: Line,
) {
    let Line { inputs, limit, .. } = line;
    if socket.stream.set_nodelay(true).is_err() {
        return;
    }
    let mut decoder = Decoder::new(limit);
    let mut chunk = vec![0; CHUNK];
    // The parcel at the head of the queue. Later parcels wait in the channel even if they are due,
    // which keeps the order.
    let mut next: Option<DelayedBytes> = None;
    let mut ended = false;
    loop {
        tokio::select! {
            biased;
            parcel = parcel(&mut next, &mut arriving) => {
                let Some(mut bytes) = parcel else { break socket.hang_up(&mut chunk).await };
                while let Ok(more) = arriving.try_recv() {
                    if !more.is_due() {
                        next = Some(more);
                        break;
                    }
                    bytes.extend(more.bytes);
                }
                if socket.write_all(&bytes).await.is_err() {
                    break;
                }
            }
            read = socket.read(&mut chunk), if !ended => {
                let Ok(count) = read else { break };
                if count == 0 {
                    // The client has closed its writing half. It may still read, as `nc` does, so
                    // it gets its replies before the connection closes.
                    ended = true;
                    inputs.send(Input::Closed(id)).await.unwrap_or_default();
                    continue;
                }
                decoder.extend(&chunk[..count]);
                if !pass_on(id, &mut decoder, &inputs).await {
                    break;
                }
            }
        }
    }
    // The client must not see the connection close during a pause.
    socket.gate.wait_for(|open| *open).await.map(drop).unwrap_or_default();
}

/// Returns the next bytes when they are due, or `None` after the last ones. Cancel safe.
async fn parcel(
    next: &mut Option<DelayedBytes>,
    arriving: &mut mpsc::UnboundedReceiver<DelayedBytes>,
) -> Option<Vec<u8>> {
    if next.is_none() {
        *next = Some(arriving.recv().await?);
    }
    if let Some(due) = next.as_ref().and_then(|parcel| parcel.due) {
        sleep_until(due).await;
    }
    next.take().map(|parcel| parcel.bytes)
}

/// Returns `false` if the connection must be closed.
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

struct Socket {
    stream: TcpStream,
    gate: Gate,
    slow_peer_timeout: Duration,
}

impl Socket {
    /// Closes the writing half, then reads until the client has closed its half too. Closing
    /// immediately, with unread bytes in the receive buffer, would reset the connection. On some
    /// systems a reset discards the bytes that the client has not read yet, and with them the
    /// reason of the refusal.
    async fn hang_up(&mut self, chunk: &mut [u8]) {
        // The client must not see the connection close during a pause.
        if self.gate.wait_for(|open| *open).await.is_err() {
            return;
        }
        if SockRef::from(&self.stream).shutdown(Shutdown::Write).is_ok() {
            let slow_peer_timeout = self.slow_peer_timeout;
            let rest = async { while self.read(chunk).await.is_ok_and(|count| count > 0) {} };
            timeout(slow_peer_timeout, rest).await.unwrap_or_default();
        }
    }

    async fn read(&mut self, chunk: &mut [u8]) -> io::Result<usize> {
        loop {
            self.stream.readable().await?;
            let open = self.gate.wait_for(|open| *open).await.map_err(io::Error::other)?;
            match self.stream.try_read(chunk) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => drop(open),
                done => return done,
            }
        }
    }

    /// Writes all bytes. Fails if the client takes no bytes for `slow_peer_timeout`.
    async fn write_all(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let written = {
                let _open = self.gate.wait_for(|open| *open).await.map_err(io::Error::other)?;
                self.stream.try_write(bytes)
            };
            match written {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => bytes = &bytes[count..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    timeout(self.slow_peer_timeout, self.stream.writable()).await??;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // A forked child has a copy of the socket. Closing only our copy would leave the connection
        // open.
        SockRef::from(&self.stream).shutdown(Shutdown::Both).unwrap_or_default();
    }
}
