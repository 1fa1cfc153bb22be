//! One connection: bytes in, bytes out; and what a test does to it.

use std::io;
use std::net::{Shutdown, SocketAddr};
use std::time::Duration;

use socket2::SockRef;
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep_until, timeout};

use crate::connections::ConnectionId;
use crate::frames::{Decoder, Inbound};

/// The number of bytes read at once.
const CHUNK: usize = 64 * 1024;

/// What connections tell the server.
pub(crate) enum Input {
    Opened(ConnectionId, SocketAddr, Peer),
    Message(ConnectionId, Inbound),
    Closed(ConnectionId),
}

/// What the server needs of a connection. Once `parcels` is dropped, what was sent before is written, and the connection
/// ends.
pub(crate) struct Peer {
    pub(crate) parcels: mpsc::UnboundedSender<Parcel>,
    /// Ends the connection at once; what is on its way is lost.
    pub(crate) cut: oneshot::Sender<()>,
}

/// Something to send, not before an instant.
pub(crate) struct Parcel {
    pub(crate) due: Option<Instant>,
    pub(crate) bytes: Vec<u8>,
}

impl Parcel {
    fn is_due(&self) -> bool {
        self.due.is_none_or(|due| due <= Instant::now())
    }
}

/// Whether bytes may pass, in either direction. What passes looks at it under its lock: once it is shut, nothing does.
pub(crate) type Gate = watch::Receiver<bool>;

/// What all connections have in common.
#[derive(Clone)]
pub(crate) struct Line {
    pub(crate) inputs: mpsc::Sender<Input>,
    pub(crate) gate: Gate,
    /// The longest frame.
    pub(crate) limit: usize,
    /// How long a client may take nothing of what it is sent, or leave open a connection that was closed here.
    pub(crate) slow_peer_timeout: Duration,
}

/// Serves a connection to its end.
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
    // Nobody is left to tell if the server is gone.
    inputs.send(Input::Closed(id)).await.unwrap_or_default();
}

async fn cut_off(cutting: oneshot::Receiver<()>) {
    if cutting.await.is_err() {
        // It will not be cut any more, for it ends by itself.
        std::future::pending::<()>().await;
    }
}

/// Reads nothing while something is being written, so that a client that does not read cannot pile up replies. What is
/// not due yet holds up no reading: requests that follow each other closely are all delayed by the same time.
async fn converse(
    id: ConnectionId,
    mut socket: Socket,
    mut arriving: mpsc::UnboundedReceiver<Parcel>,
    line: Line,
) {
    let Line { inputs, limit, .. } = line;
    if socket.stream.set_nodelay(true).is_err() {
        return;
    }
    let mut decoder = Decoder::new(limit);
    let mut chunk = vec![0; CHUNK];
    // Others wait behind it in the channel, even if they are due: the order is kept.
    let mut next: Option<Parcel> = None;
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
                    // One that has said all may still listen, as `nc` does: it gets its answers before the end.
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
    // The end of a connection is something to be heard as well.
    socket.gate.wait_for(|open| *open).await.map(drop).unwrap_or_default();
}

/// The next bytes, once they are due; none after the last. May be dropped and called again.
async fn parcel(
    next: &mut Option<Parcel>,
    arriving: &mut mpsc::UnboundedReceiver<Parcel>,
) -> Option<Vec<u8>> {
    if next.is_none() {
        *next = Some(arriving.recv().await?);
    }
    if let Some(due) = next.as_ref().and_then(|parcel| parcel.due) {
        sleep_until(due).await;
    }
    next.take().map(|parcel| parcel.bytes)
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

struct Socket {
    stream: TcpStream,
    gate: Gate,
    slow_peer_timeout: Duration,
}

impl Socket {
    /// Says that nothing more comes, and reads on until the client has hung up too. To close at once, with something that
    /// arrives and is not read, would be a reset, which on some systems takes with it what the client has not read yet:
    /// why it is refused.
    async fn hang_up(&mut self, chunk: &mut [u8]) {
        // The end of a connection is something to be heard as well.
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

    /// Fails as soon as nothing was taken for a while.
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
        // A forked child has a copy of the socket, which closing ours would leave open.
        SockRef::from(&self.stream).shutdown(Shutdown::Both).unwrap_or_default();
    }
}
