//! The server on a tokio runtime: one task for the state machine, one for each connection, one that accepts.

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

/// How many inputs may wait for the machine before connections are no longer read.
const INPUTS: usize = 1024;

/// A server that listens on a port, for development and tests only. It runs on the tokio runtime that it was started on,
/// until it is stopped or dropped; its nodes end with it.
///
/// What it can do to its clients, such as [`expire`](Server::expire), is done when the future is ready. Dropping the
/// future earlier may leave it done or not.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    controls: mpsc::UnboundedSender<Control>,
    tasks: [JoinHandle<()>; 2],
}

impl Server {
    /// Listens on an address; port 0 is any free one. When it returns, clients can connect.
    ///
    /// # Errors
    /// The address cannot be resolved or is taken.
    pub async fn start(address: impl ToSocketAddrs) -> io::Result<Self> {
        Self::start_with(address, Settings::random()).await
    }

    /// The same with settings. Those of [`Settings::random`] are a good beginning.
    ///
    /// # Errors
    /// The address cannot be resolved or is taken.
    pub async fn start_with(address: impl ToSocketAddrs, settings: Settings) -> io::Result<Self> {
        Self::start_on(TcpListener::bind(address).await?, settings)
    }

    /// On a socket that listens already.
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

    /// Where it listens, as a client wants it: `127.0.0.1:40000`.
    #[must_use]
    pub fn hosts(&self) -> String {
        self.address.to_string()
    }

    /// Ends a session now, as if its client had been silent for its time-out; tells whether there was one. Its nodes are
    /// gone when it returns, and its connection is closed.
    pub async fn expire(&self, session: i64) -> bool {
        self.ask(move |host| host.expire(session)).await
    }

    /// Cuts the connection of a session; tells whether it had one. What was on its way to the client is lost. The
    /// session lives on, and its client may connect again at once.
    pub async fn disconnect(&self, session: i64) -> bool {
        self.ask(move |host| host.disconnect(session)).await
    }

    /// Falls silent until [`resume`](Server::resume), as a server that hangs: connections stay open, but nothing is
    /// read, answered or sent; new connections are accepted and hear nothing. The time of the sessions stands still,
    /// so that none expires meanwhile. The other methods of the server go on working; the clients of sessions that
    /// are expired hear of it after the pause.
    pub async fn pause(&self) {
        self.ask(Host::pause).await;
    }

    /// Ends a pause; does nothing without one. What was received meanwhile is read, and what was to be sent is sent.
    pub async fn resume(&self) {
        self.ask(Host::resume).await;
    }

    /// Sends every reply and event this much later, up to a day, and in order: a round trip takes at least that long.
    /// Zero ends it. What is on its way already keeps its delay.
    pub async fn latency(&self, delay: Duration) {
        self.ask(move |host| host.set_latency(delay)).await;
    }

    /// The data of all nodes but ZooKeeper's own, by their paths.
    pub async fn tree(&self) -> BTreeMap<String, Vec<u8>> {
        self.ask(|host| host.tree()).await
    }

    /// Closes the port and all connections. Clients see a server that went away.
    pub async fn stop(mut self) {
        for task in &mut self.tasks {
            task.abort();
            // An aborted task ends with an error that says so.
            task.await.unwrap_or_default();
        }
    }

    /// Who may ask for things from other threads, as long as the server runs.
    pub(crate) fn controls(&self) -> mpsc::UnboundedSender<Control> {
        self.controls.clone()
    }

    async fn ask<T: Default + Send + 'static>(
        &self,
        control: impl FnOnce(&mut Host) -> T + Send + 'static,
    ) -> T {
        let (done, answer) = oneshot::channel();
        // Who asked may have gone.
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
        // A forked child has a copy of the socket, which would go on listening.
        SockRef::from(&self.0).shutdown(Shutdown::Both).unwrap_or_default();
    }
}

async fn accept(listener: Listener, line: Line) {
    // Ends the connections with itself.
    let mut connections = JoinSet::new();
    let mut next = 0;
    loop {
        tokio::select! {
            accepted = listener.0.accept() => match accepted {
                Ok((stream, peer)) => {
                    next += 1;
                    connections.spawn(serve(ConnectionId(next), stream, peer, line.clone()));
                }
                // Out of file descriptors, most likely: leave others the time to close theirs.
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
}
