//! The network between clients and servers: streams in memory that can be delayed, silent or cut.
//!
//! Packets of one connection keep their order. A packet that is sent during a silence arrives after
//! the silence, because TCP retransmits it. A packet that is sent on a cut connection is lost.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::io::{ErrorKind, Result};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;
use zklock::simulation::{Connecting, Network as Networks, Stream as AnyStream};

use crate::chance::Chance;
use crate::critical_request::CriticalRequest;
use crate::schedule::Schedule;
use crate::witness::Witness;
use crate::{clock, names};

pub use crate::names::{CLIENTS, Id, server_of};

/// A server that does not exist.
pub const NOWHERE: usize = usize::MAX;

/// A packet on a connection.
#[derive(Debug)]
pub enum Packet {
    /// The client wants to connect, or the server has accepted.
    Open,
    Bytes(Vec<u8>),
    /// The sender has closed the connection.
    Close,
    /// The connection is broken, or no process listens on the port.
    Reset,
}

/// The direction of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Direction {
    ToServer,
    ToClient,
}

/// How a server refuses a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// No process listens on the server's port.
    Refuses,
    /// The server accepts connections and closes them as soon as it receives data.
    HangsUp,
}

/// A packet with its connection and direction, at its arrival.
#[derive(Debug)]
pub struct Arrival {
    pub connection: Id,
    pub server: usize,
    pub direction: Direction,
    pub packet: Packet,
}

/// The state of a connection, as the client knows it.
#[derive(Debug, PartialEq, Eq)]
enum Stage {
    Opening,
    Open,
    /// The server has closed the connection.
    Closed,
    Reset,
}

#[derive(Debug)]
struct Connection {
    client: usize,
    /// Name of the client, see [`CLIENTS`].
    name: usize,
    server: usize,
    stage: Stage,
    /// Bytes that have arrived at the client.
    inbox: VecDeque<u8>,
    waker: Option<Waker>,
    /// Time at which the last packet arrived at the client.
    heard: u64,
    /// Arrival time of the last packet in each direction.
    last: [u64; 2],
    /// The kind of request after which the server replies only to pings.
    critical_request: Option<CriticalRequest>,
}

/// All connections.
#[derive(Debug)]
pub struct Network {
    chance: Chance,
    /// Maximum latency of most packets, in milliseconds.
    latency: u64,
    /// Maximum latency of the other packets.
    longest: u64,
    connections: BTreeMap<Id, Connection>,
    next: Id,
    /// Time until which no packet arrives, by client, server and direction.
    silence: BTreeMap<(usize, usize, Direction), u64>,
    /// Time at which each client last opened or closed a connection.
    looked: BTreeMap<usize, u64>,
    /// For each client, the time at which it last closed a connection, and for how long that
    /// connection had received nothing while a packet was in flight (0 if none was).
    left: BTreeMap<usize, (u64, u64)>,
    /// Time at which each client last left a connection because it noticed that the server had
    /// given it another session.
    replaced: BTreeMap<usize, u64>,
    /// The clients that only one server accepts, with that server.
    refused: BTreeMap<usize, usize>,
    /// The way in which a server refuses a client, by client and server. A refusal takes one round
    /// trip.
    unserved: BTreeMap<(usize, usize), Refusal>,
    /// Packets in flight.
    arrivals: Schedule<Arrival>,
    /// Notified when a packet is sent.
    news: Rc<Notify>,
    /// Observes all packets.
    pub witness: Witness,
}

impl Network {
    /// Creates a network without connections.
    pub fn new(chance: Chance, latency: u64) -> Self {
        Self {
            chance,
            latency,
            longest: 20 * latency,
            connections: BTreeMap::new(),
            next: 1,
            silence: BTreeMap::new(),
            looked: BTreeMap::new(),
            left: BTreeMap::new(),
            replaced: BTreeMap::new(),
            refused: BTreeMap::new(),
            unserved: BTreeMap::new(),
            arrivals: Schedule::new(),
            news: Rc::default(),
            witness: Witness::default(),
        }
    }

    /// Returns the next packet, if it is due.
    pub fn due(&mut self, now: u64) -> Option<Arrival> {
        self.arrivals.due(now)
    }

    /// Returns the time at which the next packet arrives.
    pub fn next(&self) -> Option<u64> {
        self.arrivals.next()
    }

    /// Returns the notification that a packet was sent.
    pub fn news(&self) -> Rc<Notify> {
        Rc::clone(&self.news)
    }

    /// Sends a packet. It arrives after all earlier packets of its connection.
    pub fn send(&mut self, id: Id, direction: Direction, packet: Packet) {
        let mut latency = self.latency();
        let Some((client, server)) = self.ends(id) else { return };
        let refusal = self.unserved.get(&(client, server)).filter(|_| direction == Direction::ToServer);
        let (direction, packet) = match (refusal, packet) {
            (Some(Refusal::Refuses), Packet::Open) => (Direction::ToClient, Packet::Reset),
            (Some(Refusal::HangsUp), Packet::Bytes(_)) => (Direction::ToClient, Packet::Close),
            (_, packet) => (direction, packet),
        };
        if refusal.is_some() && direction == Direction::ToClient {
            latency += self.latency();
        }
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let until = self.silence.get(&(client, server, direction)).copied().unwrap_or(0);
        let last = &mut connection.last[direction as usize];
        *last = (*last).max(clock::now().max(until) + latency);
        self.arrivals.plan(*last, Arrival { connection: id, server, direction, packet });
        self.news.notify_one();
    }

    /// Returns the client and the server of a connection.
    fn ends(&self, id: Id) -> Option<(usize, usize)> {
        self.connections.get(&id).map(|connection| (connection.client, connection.server))
    }

    /// Sets how a server refuses a client. With `None`, the server serves the client.
    pub fn set_refusal(&mut self, client: usize, server: usize, refusal: Option<Refusal>) {
        match refusal {
            Some(refusal) => drop(self.unserved.insert((client, server), refusal)),
            None => drop(self.unserved.remove(&(client, server))),
        }
    }

    /// Returns `true` if packets on a connection are currently held back.
    pub fn is_silent(&self, id: Id) -> bool {
        let ends = self.ends(id);
        let until =
            ends.and_then(|(client, server)| self.silence.get(&(client, server, Direction::ToClient)));
        until.is_some_and(|until| *until > clock::now())
    }

    /// Returns `true` if a connection was accepted and is not closed.
    pub fn is_open(&self, id: Id) -> bool {
        self.connections.get(&id).is_some_and(|connection| connection.stage == Stage::Open)
    }

    /// Cuts a connection. The client notices it immediately. The server notices it later, because
    /// the client's packets that are in flight still arrive first. The server's packets are lost.
    pub fn cut(&mut self, id: Id) {
        self.send(id, Direction::ToServer, Packet::Close);
        self.deliver(id, Packet::Reset);
    }

    /// Cuts all connections of a client.
    pub fn cut_all(&mut self, client: usize) {
        for id in self.of(client) {
            self.cut(id);
        }
    }

    /// Returns a random latency, in milliseconds.
    pub fn latency(&mut self) -> u64 {
        let most = if self.chance.percent(2) { self.longest } else { self.latency };
        self.chance.number(1..=most.max(1))
    }

    /// Returns the name of a connection's client, or `None` if the client has closed the
    /// connection.
    pub fn name(&self, id: Id) -> Option<usize> {
        self.connections.get(&id).map(|connection| connection.name)
    }

    /// Returns the time at which a client last opened or closed a connection. If the client has a
    /// connection or is opening one, returns the current time.
    pub fn looked(&self, name: usize) -> Option<u64> {
        let any = self.connections.values().any(|connection| connection.name == name);
        if any { Some(clock::now()) } else { self.looked.get(&name).copied() }
    }

    /// Returns `true` if a client has opened a connection after that instant.
    pub fn has_opened_since(&self, name: usize, then: u64) -> bool {
        self.looked.get(&name).is_some_and(|opened| *opened > then)
    }

    /// Makes all servers except this one refuse a client's connections. With `None`, all servers
    /// accept them again.
    pub fn refuse(&mut self, client: usize, all_but: Option<usize>) {
        match all_but {
            Some(server) => drop(self.refused.insert(client, server)),
            None => drop(self.refused.remove(&client)),
        }
    }

    /// Makes a client's connections deaf at the next request of this kind: from then on, the
    /// servers reply only to pings.
    pub fn deafen(&mut self, client: usize, request: CriticalRequest) {
        for connection in self.connections.values_mut().filter(|connection| connection.client == client) {
            connection.critical_request = Some(request);
        }
    }

    pub fn critical_request(&self, id: Id) -> Option<CriticalRequest> {
        self.connections.get(&id)?.critical_request
    }

    /// Limits all further latencies to `longest`.
    pub fn calm(&mut self, longest: u64) {
        self.longest = longest.min(self.longest);
        self.latency = longest.min(self.latency);
    }

    /// Returns a client's connections.
    pub fn of(&self, client: usize) -> Vec<Id> {
        let own = self.connections.iter().filter(|(_, connection)| connection.client == client);
        own.map(|(id, _)| *id).collect()
    }

    /// Holds back all packets in these directions until the given time.
    pub fn silence(&mut self, client: usize, server: usize, directions: &[Direction], until: u64) {
        for direction in directions {
            let end = self.silence.entry((client, server, *direction)).or_default();
            *end = until.max(*end);
        }
    }

    fn open(&mut self, name: usize, server: usize) -> Id {
        let client = name % CLIENTS;
        let id = names::connection(self.next, server);
        self.next += 1;
        let refused = self.refused.get(&client).is_some_and(|only| *only != server);
        let connection = Connection {
            client,
            name,
            server,
            stage: if refused { Stage::Reset } else { Stage::Opening },
            inbox: VecDeque::new(),
            waker: None,
            heard: clock::now(),
            last: [0; 2],
            critical_request: None,
        };
        self.connections.insert(id, connection);
        self.looked.insert(name, clock::now());
        self.witness.opens(id, name);
        id
    }

    /// Delivers a packet to the client.
    pub fn deliver(&mut self, id: Id, packet: Packet) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        match packet {
            _ if matches!(connection.stage, Stage::Closed | Stage::Reset) => return,
            _ => connection.heard = clock::now(),
        }
        match packet {
            Packet::Open => connection.stage = Stage::Open,
            Packet::Bytes(bytes) => {
                self.witness.hears(id, &bytes, clock::now());
                connection.inbox.extend(bytes);
            }
            Packet::Close => connection.stage = Stage::Closed,
            Packet::Reset => {
                connection.stage = Stage::Reset;
                connection.inbox.clear();
            }
        }
        if let Some(waker) = connection.waker.take() {
            waker.wake();
        }
    }

    fn read(&mut self, id: Id, cx: &Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<Result<()>> {
        let Some(connection) = self.connections.get_mut(&id) else {
            return Poll::Ready(Err(ErrorKind::ConnectionReset.into()));
        };
        let count = buf.remaining().min(connection.inbox.len());
        if count > 0 {
            let taken: Vec<u8> = connection.inbox.drain(..count).collect();
            buf.put_slice(&taken);
            return Poll::Ready(Ok(()));
        }
        match connection.stage {
            Stage::Closed => Poll::Ready(Ok(())),
            Stage::Reset => Poll::Ready(Err(ErrorKind::ConnectionReset.into())),
            Stage::Opening | Stage::Open => {
                connection.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    fn opened(&mut self, id: Id, cx: &Context<'_>) -> Poll<Result<()>> {
        match self.connections.get_mut(&id) {
            Some(connection) if connection.stage == Stage::Opening => {
                connection.waker = Some(cx.waker().clone());
                Poll::Pending
            }
            Some(connection) if connection.stage == Stage::Open => Poll::Ready(Ok(())),
            _ => Poll::Ready(Err(ErrorKind::ConnectionRefused.into())),
        }
    }

    fn writable(&self, id: Id) -> Result<()> {
        match self.connections.get(&id).map(|connection| &connection.stage) {
            Some(Stage::Open | Stage::Closed) => Ok(()),
            _ => Err(ErrorKind::BrokenPipe.into()),
        }
    }

    /// Closes a connection on the client's side.
    fn close(&mut self, id: Id) {
        self.send(id, Direction::ToServer, Packet::Close);
        let foreign = self.witness.closes(id);
        if let Some(connection) = self.connections.remove(&id) {
            let now = clock::now();
            if foreign {
                self.replaced.insert(connection.name, now);
            }
            let under_way = connection.last.iter().any(|arrival| *arrival > now);
            let silent = if under_way { now.saturating_sub(connection.heard) } else { 0 };
            self.left.insert(connection.name, (now, silent));
        }
    }

    pub fn left(&self, name: usize) -> Option<(u64, u64)> {
        self.left.get(&name).copied()
    }

    pub fn replaced(&self, name: usize) -> Option<u64> {
        self.replaced.get(&name).copied()
    }

    /// Returns `true` if a client has a connection that it believes to be open.
    pub fn is_connected(&self, name: usize) -> bool {
        let open = |connection: &&Connection| connection.name == name && connection.stage == Stage::Open;
        self.connections.values().any(|connection| open(&connection))
    }
}

thread_local! {
    static NETWORK: RefCell<Option<Network>> = const { RefCell::new(None) };
}

/// Sets or removes this thread's network.
pub fn set(network: Option<Network>) {
    drop(NETWORK.replace(network));
}

/// Calls a function with this thread's network.
///
/// # Panics
/// Panics if this thread has no network.
pub fn with<R>(use_it: impl FnOnce(&mut Network) -> R) -> R {
    NETWORK.with_borrow_mut(|network| use_it(network.as_mut().expect("a simulation has a network")))
}

/// The client's end of a connection. Dropping it closes the connection.
#[derive(Debug)]
struct Stream(Id);

impl Drop for Stream {
    fn drop(&mut self) {
        // The network no longer exists after a simulation.
        NETWORK.with_borrow_mut(|network| network.as_mut().map(|network| network.close(self.0)));
    }
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<Result<()>> {
        with(|network| network.read(self.0, cx, buf))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, buf: &[u8]) -> Poll<Result<usize>> {
        Poll::Ready(with(|network| {
            network.writable(self.0)?;
            network.witness.sends(self.0, buf, clock::now());
            network.send(self.0, Direction::ToServer, Packet::Bytes(buf.to_vec()));
            Ok(buf.len())
        }))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// The network interface for zklock's transport. A host name contains the numbers of the client and
/// the server.
pub struct SimulatedNetwork;

/// Returns the host name under which a client knows a server.
pub fn host(name: usize, server: usize) -> String {
    format!("c{name}.s{server}")
}

fn ends(host: &str) -> Option<(usize, usize)> {
    let (name, server) = host.strip_prefix('c')?.split_once(".s")?;
    Some((name.parse().ok()?, server.parse().ok()?))
}

impl Networks for SimulatedNetwork {
    fn connect(&self, host: &str, _port: u16) -> Connecting {
        let ends = ends(host);
        Box::pin(async move {
            let (name, server) = ends.ok_or(ErrorKind::NotFound)?;
            // From here on, dropping the stream closes the connection.
            let stream = with(|network| {
                let id = network.open(name, server);
                network.send(id, Direction::ToServer, Packet::Open);
                Stream(id)
            });
            std::future::poll_fn(|cx| with(|network| network.opened(stream.0, cx))).await?;
            Ok(Box::new(stream) as Box<dyn AnyStream>)
        })
    }
}

/// Returns the transport's handle to this thread's network.
pub fn here() -> Rc<dyn Networks> {
    Rc::new(SimulatedNetwork)
}
