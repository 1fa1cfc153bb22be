//! The network between clients and servers: streams in memory, with latency, silence and cuts.
//!
//! A connection keeps the order of what it carries; two connections do not. What is sent into silence arrives when the
//! silence is over, as TCP sends it again; what is sent on a connection that is cut is lost.

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
use crate::fateful::Fateful;
use crate::schedule::Schedule;
use crate::witness::Witness;
use crate::{clock, names};

pub use crate::names::{CLIENTS, Id, server_of};

/// A server that there is not.
pub const NOWHERE: usize = usize::MAX;

/// What a connection carries.
#[derive(Debug)]
pub enum Packet {
    /// The client wants to connect; the server has accepted.
    Open,
    Bytes(Vec<u8>),
    /// The sender has closed it.
    Close,
    /// It is broken, or there is nobody.
    Reset,
}

/// Which way something goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Way {
    ToServer,
    ToClient,
}

/// How a server treats a client that it does not serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Nothing listens on its port.
    Refuses,
    /// It accepts connections, and closes them when something is sent.
    HangsUp,
}

/// A packet that arrives.
#[derive(Debug)]
pub struct Arrival {
    pub connection: Id,
    pub server: usize,
    pub way: Way,
    pub packet: Packet,
}

/// How far a connection is, as its client sees it.
#[derive(Debug, PartialEq, Eq)]
enum Stage {
    Opening,
    Open,
    /// The server has closed it.
    Closed,
    Reset,
}

#[derive(Debug)]
struct Connection {
    client: usize,
    /// What its client is called, see [`CLIENTS`].
    name: usize,
    server: usize,
    stage: Stage,
    /// What has arrived at the client.
    inbox: VecDeque<u8>,
    waker: Option<Waker>,
    /// When a packet last arrived at the client.
    heard: u64,
    /// When the last packet arrives, each way.
    last: [u64; 2],
    /// The request from which on its server answers nothing but pings.
    fateful: Option<Fateful>,
}

/// All connections.
#[derive(Debug)]
pub struct Network {
    chance: Chance,
    /// The latency of most packets is up to this, in milliseconds.
    latency: u64,
    /// The latency of the others.
    longest: u64,
    connections: BTreeMap<Id, Connection>,
    next: Id,
    /// Until when nothing arrives, from a client at a server or back.
    silence: BTreeMap<(usize, usize, Way), u64>,
    /// When each client last opened a connection, or closed one.
    looked: BTreeMap<usize, u64>,
    /// When each client last closed a connection, and for how long that had been silent although something was under way.
    left: BTreeMap<usize, (u64, u64)>,
    /// When each client last left a connection because a server had given it another session without a word.
    replaced: BTreeMap<usize, u64>,
    /// The clients that all servers refuse but one.
    refused: BTreeMap<usize, usize>,
    /// The servers that do not serve a client, by client and server. Their answers take a round trip.
    unserved: BTreeMap<(usize, usize), Refusal>,
    /// What is on its way.
    arrivals: Schedule<Arrival>,
    /// Told when something was sent.
    news: Rc<Notify>,
    /// Who listens.
    pub witness: Witness,
}

impl Network {
    /// Without connections.
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

    /// What arrives next, if it is due.
    pub fn due(&mut self, now: u64) -> Option<Arrival> {
        self.arrivals.due(now)
    }

    /// When something arrives next.
    pub fn next(&self) -> Option<u64> {
        self.arrivals.next()
    }

    /// Told when something was sent.
    pub fn news(&self) -> Rc<Notify> {
        Rc::clone(&self.news)
    }

    /// Puts a packet on its way. It arrives behind those that were sent before on its connection.
    pub fn send(&mut self, id: Id, way: Way, packet: Packet) {
        let mut latency = self.latency();
        let Some((client, server)) = self.ends(id) else { return };
        let refusal = self.unserved.get(&(client, server)).filter(|_| way == Way::ToServer);
        let (way, packet) = match (refusal, packet) {
            (Some(Refusal::Refuses), Packet::Open) => (Way::ToClient, Packet::Reset),
            (Some(Refusal::HangsUp), Packet::Bytes(_)) => (Way::ToClient, Packet::Close),
            (_, packet) => (way, packet),
        };
        if refusal.is_some() && way == Way::ToClient {
            latency += self.latency();
        }
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let until = self.silence.get(&(client, server, way)).copied().unwrap_or(0);
        let last = &mut connection.last[way as usize];
        *last = (*last).max(clock::now().max(until) + latency);
        self.arrivals.plan(*last, Arrival { connection: id, server, way, packet });
        self.news.notify_one();
    }

    /// The client and the server of a connection.
    fn ends(&self, id: Id) -> Option<(usize, usize)> {
        self.connections.get(&id).map(|connection| (connection.client, connection.server))
    }

    /// A server treats a client so from now on; with `None` it serves it.
    pub fn set_refusal(&mut self, client: usize, server: usize, refusal: Option<Refusal>) {
        match refusal {
            Some(refusal) => drop(self.unserved.insert((client, server), refusal)),
            None => drop(self.unserved.remove(&(client, server))),
        }
    }

    /// Whether nothing arrives on a connection.
    pub fn is_silent(&self, id: Id) -> bool {
        let ends = self.ends(id);
        let until = ends.and_then(|(client, server)| self.silence.get(&(client, server, Way::ToClient)));
        until.is_some_and(|until| *until > clock::now())
    }

    /// Whether a connection was accepted, and is not at its end.
    pub fn is_open(&self, id: Id) -> bool {
        self.connections.get(&id).is_some_and(|connection| connection.stage == Stage::Open)
    }

    /// Cuts a connection: its client sees it at once, its server a moment later. What the client has sent still arrives,
    /// but no answer.
    pub fn cut(&mut self, id: Id) {
        self.send(id, Way::ToServer, Packet::Close);
        self.deliver(id, Packet::Reset);
    }

    /// Cuts all connections of a client.
    pub fn cut_all(&mut self, client: usize) {
        for id in self.of(client) {
            self.cut(id);
        }
    }

    /// A random latency, in milliseconds.
    pub fn latency(&mut self) -> u64 {
        let most = if self.chance.percent(2) { self.longest } else { self.latency };
        self.chance.number(1..=most.max(1))
    }

    /// What the client is called that a connection is from, while it has a use for it.
    pub fn name(&self, id: Id) -> Option<usize> {
        self.connections.get(&id).map(|connection| connection.name)
    }

    /// When a client last looked for a server: now, if it has a connection, or tries to have one.
    pub fn looked(&self, name: usize) -> Option<u64> {
        let any = self.connections.values().any(|connection| connection.name == name);
        if any { Some(clock::now()) } else { self.looked.get(&name).copied() }
    }

    /// Whether a client has opened a connection since then, later than at that instant.
    pub fn has_opened_since(&self, name: usize, then: u64) -> bool {
        self.looked.get(&name).is_some_and(|opened| *opened > then)
    }

    /// From now on every server but one refuses a client's connections; with `None` none does.
    pub fn refuse(&mut self, client: usize, all_but: Option<usize>) {
        match all_but {
            Some(server) => drop(self.refused.insert(client, server)),
            None => drop(self.refused.remove(&client)),
        }
    }

    /// On a client's connections nothing but pings is answered any more, from such a request on.
    pub fn deafen(&mut self, client: usize, request: Fateful) {
        for connection in self.connections.values_mut().filter(|connection| connection.client == client) {
            connection.fateful = Some(request);
        }
    }

    /// From which request on nothing but pings is answered on a connection.
    pub fn fateful(&self, id: Id) -> Option<Fateful> {
        self.connections.get(&id)?.fateful
    }

    /// From now on no latency is longer than this, nor than the longest before.
    pub fn calm(&mut self, longest: u64) {
        self.longest = longest.min(self.longest);
        self.latency = longest.min(self.latency);
    }

    /// A client's connections.
    pub fn of(&self, client: usize) -> Vec<Id> {
        let own = self.connections.iter().filter(|(_, connection)| connection.client == client);
        own.map(|(id, _)| *id).collect()
    }

    /// Nothing arrives any more in these ways, until then.
    pub fn silence(&mut self, client: usize, server: usize, ways: &[Way], until: u64) {
        for way in ways {
            let end = self.silence.entry((client, server, *way)).or_default();
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
            fateful: None,
        };
        self.connections.insert(id, connection);
        self.looked.insert(name, clock::now());
        self.witness.opens(id, name);
        id
    }

    /// A packet arrives at the client.
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

    /// The client has no use for a connection any more.
    fn close(&mut self, id: Id) {
        self.send(id, Way::ToServer, Packet::Close);
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

    /// When a client last closed a connection, and for how long nothing had arrived on it although something was under way.
    pub fn left(&self, name: usize) -> Option<(u64, u64)> {
        self.left.get(&name).copied()
    }

    /// When a client last left a connection because a server had given it another session.
    pub fn replaced(&self, name: usize) -> Option<u64> {
        self.replaced.get(&name).copied()
    }

    /// Whether a client has any connection, as far as it can know.
    pub fn is_connected(&self, name: usize) -> bool {
        let open = |connection: &&Connection| connection.name == name && connection.stage == Stage::Open;
        self.connections.values().any(|connection| open(&connection))
    }
}

thread_local! {
    static NETWORK: RefCell<Option<Network>> = const { RefCell::new(None) };
}

/// Gives this thread a network, or takes it away.
pub fn set(network: Option<Network>) {
    drop(NETWORK.replace(network));
}

/// Uses this thread's network.
///
/// # Panics
/// Without one.
pub fn with<R>(use_it: impl FnOnce(&mut Network) -> R) -> R {
    NETWORK.with_borrow_mut(|network| use_it(network.as_mut().expect("a simulation has a network")))
}

/// The client's end of a connection. Closes it when it is dropped.
#[derive(Debug)]
struct Stream(Id);

impl Drop for Stream {
    fn drop(&mut self) {
        // At the end of a simulation there is no network any more.
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
            network.send(self.0, Way::ToServer, Packet::Bytes(buf.to_vec()));
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

/// What the transport below zklock asks for connections. A host's name says who connects to whom.
pub struct Here;

/// The name by which a client calls a server.
pub fn host(name: usize, server: usize) -> String {
    format!("c{name}.s{server}")
}

fn ends(host: &str) -> Option<(usize, usize)> {
    let (name, server) = host.strip_prefix('c')?.split_once(".s")?;
    Some((name.parse().ok()?, server.parse().ok()?))
}

impl Networks for Here {
    fn connect(&self, host: &str, _port: u16) -> Connecting {
        let ends = ends(host);
        Box::pin(async move {
            let (name, server) = ends.ok_or(ErrorKind::NotFound)?;
            // From here on dropping it closes the connection.
            let stream = with(|network| {
                let id = network.open(name, server);
                network.send(id, Way::ToServer, Packet::Open);
                Stream(id)
            });
            std::future::poll_fn(|cx| with(|network| network.opened(stream.0, cx))).await?;
            Ok(Box::new(stream) as Box<dyn AnyStream>)
        })
    }
}

/// The transport's handle on this thread's network.
pub fn here() -> Rc<dyn Networks> {
    Rc::new(Here)
}
