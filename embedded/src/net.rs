//! The server on a tokio runtime: one task for the state machine, one for each connection, and one
//! that accepts connections.

use std::collections::BTreeMap;
use std::io;
use std::net::{Shutdown, SocketAddr};
use std::time::Duration;

use socket2::SockRef;
use tokio::net::{TcpListener, ToSocketAddrs};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{JoinHandle, JoinSet};

use crate::connection_task::{Line, serve};
use crate::connections::ConnectionId;
use crate::host::{Control, Host};
use crate::settings::Settings;

/// Maximum number of inputs that wait for the machine. At this limit, the server stops reading from
/// connections.
const INPUTS: usize = 1024;

/// A server that listens on a port, for development and tests only. It runs on the tokio runtime on
/// which it was started, until it is stopped or dropped. Its nodes are then lost.
///
/// An operation such as [`expire`](Server::expire) is complete when its future is ready. If the
/// future is dropped earlier, the operation may or may not happen.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    controls: mpsc::UnboundedSender<Control>,
    tasks: [JoinHandle<()>; 2],
}

impl Server {
    /// Starts a server on an address. Port 0 selects a free port. Clients can connect when this
    /// returns.
    ///
    /// # Errors
    /// The address cannot be resolved or is taken.
    pub async fn start(address: impl ToSocketAddrs) -> io::Result<Self> {
        Self::start_with(address, Settings::random()).await
    }

    /// Starts a server on an address, with settings. [`Settings::random`] is a good basis for them.
    ///
    /// # Errors
    /// The address cannot be resolved or is taken.
    pub async fn start_with(address: impl ToSocketAddrs, settings: Settings) -> io::Result<Self> {
        Self::start_on(TcpListener::bind(address).await?, settings)
    }

    /// Starts a server on a listening socket.
    pub(crate) fn start_on(listener: TcpListener, settings: Settings) -> io::Result<Self> {
        let address = listener.local_addr()?;
        let (gate, open) = watch::channel(true);
        let (inputs, received) = mpsc::channel(INPUTS);
        let (controls, asked) = mpsc::unbounded_channel();
        let line = Line {
            inputs,
            gate: open,
            limit: settings.max_frame,
            slow_peer_timeout: Duration::from_millis(settings.slow_peer_timeout),
        };
        let tick = Duration::from_millis(settings.tick.max(1));
        let host = Host::new(settings, gate).run(tick, received, asked);
        let tasks = [tokio::spawn(host), tokio::spawn(accept(Listener(listener), line))];
        Ok(Server { address, controls, tasks })
    }

    /// Returns the server's address in the form that clients expect: `127.0.0.1:40000`.
    #[must_use]
    pub fn hosts(&self) -> String {
        self.address.to_string()
    }

    /// Ends a session now, as if its client had been silent for the session timeout. Returns
    /// whether the session existed. When this returns, the session's nodes are deleted and its
    /// connection is closed.
    pub async fn expire(&self, session: i64) -> bool {
        self.ask(move |host| host.expire(session)).await
    }

    /// Closes the connection of a session. Returns whether the session had a connection. Bytes on
    /// their way to the client are lost. The session continues, and its client can reconnect
    /// immediately.
    pub async fn disconnect(&self, session: i64) -> bool {
        self.ask(move |host| host.disconnect(session)).await
    }

    /// Stops all traffic until [`resume`](Server::resume), like a server that hangs. Connections
    /// stay open, but the server reads and sends nothing. It accepts new connections and does not
    /// reply on them. The clock for session timeouts stops, so no session expires during the pause.
    /// The other methods still work. If `expire` ends a session during the pause, its client
    /// notices this after the pause.
    pub async fn pause(&self) {
        self.ask(Host::pause).await;
    }

    /// Ends a pause. The server then reads what arrived during the pause, and sends what was due.
    /// Without a pause this does nothing.
    pub async fn resume(&self) {
        self.ask(Host::resume).await;
    }

    /// Delays every reply and event by `delay`, at most a day, and keeps their order. A round trip
    /// then takes at least that long. Zero removes the delay. Messages already on their way keep
    /// their delay.
    pub async fn latency(&self, delay: Duration) {
        self.ask(move |host| host.set_latency(delay)).await;
    }

    /// Returns the data of all nodes by path, without ZooKeeper's own nodes.
    pub async fn tree(&self) -> BTreeMap<String, Vec<u8>> {
        self.ask(|host| host.tree()).await
    }

    /// Closes the port and all connections. Clients can no longer reach the server.
    pub async fn stop(mut self) {
        for task in &mut self.tasks {
            task.abort();
            // An aborted task returns a cancellation error.
            task.await.unwrap_or_default();
        }
    }

    /// Returns a sender for requests from other threads. It works while the server runs.
    pub(crate) fn controls(&self) -> mpsc::UnboundedSender<Control> {
        self.controls.clone()
    }

    async fn ask<T: Default + Send + 'static>(
        &self,
        control: impl FnOnce(&mut Host) -> T + Send + 'static,
    ) -> T {
        let (done, answer) = oneshot::channel();
        // The send fails if the caller dropped its future.
        let control: Control = Box::new(move |host| drop(done.send(control(host))));
        if self.controls.send(control).is_err() {
            return T::default();
        }
        answer.await.unwrap_or_default()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

struct Listener(TcpListener);

impl Drop for Listener {
    fn drop(&mut self) {
        // A forked child has a copy of the socket. Without this call the copy would keep listening.
        SockRef::from(&self.0).shutdown(Shutdown::Both).unwrap_or_default();
    }
}

async fn accept(listener: Listener, line: Line) {
    // Dropping the set closes the connections.
    let mut connections = JoinSet::new();
    let mut next = 0;
    loop {
        tokio::select! {
            accepted = listener.0.accept() => match accepted {
                Ok((stream, peer)) => {
                    next += 1;
                    connections.spawn(serve(ConnectionId(next), stream, peer, line.clone()));
                }
                // Most likely the process has no file descriptor left. Wait, so that other code can
                // close some.
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
}
