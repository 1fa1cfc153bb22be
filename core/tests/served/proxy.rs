//! Stands between a client and a server, and does to single requests what happens to them in bad moments. All that it
//! lets through is answered by the server, with its own nodes and sessions.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// The numbers of requests in ZooKeeper's protocol.
pub(crate) mod op {
    pub(crate) const CLOSE: i32 = -11;
    pub(crate) const DELETE: i32 = 2;
    pub(crate) const EXISTS: i32 = 3;
    pub(crate) const GET_DATA: i32 = 4;
    pub(crate) const SET_DATA: i32 = 5;
    pub(crate) const LIST: i32 = 8;
    pub(crate) const SYNC: i32 = 9;
    pub(crate) const PING: i32 = 11;
    pub(crate) const MULTI: i32 = 14;
    pub(crate) const CREATE: i32 = 15;
    pub(crate) const CREATE_CONTAINER: i32 = 19;
    pub(crate) const MULTI_READ: i32 = 22;
}

/// The numbers of errors.
pub(crate) mod code {
    pub(crate) const UNIMPLEMENTED: i32 = -6;
    pub(crate) const NO_NODE: i32 = -101;
    pub(crate) const NO_AUTH: i32 = -102;
}

/// The kind of a watch's event.
const NODE_DELETED: i32 = 2;

/// A request on its way to the server.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) op: i32,
    /// All of it.
    pub(crate) bytes: Vec<u8>,
    /// The connection, counted from the first.
    pub(crate) connection: usize,
}

impl Request {
    /// Whether it speaks of this path, or of part of it.
    pub(crate) fn names(&self, path: &str) -> bool {
        position(&self.bytes, path.as_bytes()).is_some()
    }
}

/// What happens to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Pass,
    /// It is answered with this error, in its turn, and does not reach the server.
    Refuse(i32),
    /// It reaches the server, but its reply does not come back: the connection ends instead.
    LoseReply,
    /// It waits, and all behind it on the connection, until [`Proxy::open`].
    Wait,
    /// It is not answered, and does not reach the server; the connection seems well.
    Vanish,
}

/// What came back to the clients.
#[derive(Clone, Debug, Default)]
pub(crate) struct Replies {
    /// How many bytes all of it has, pings' answers among them.
    pub(crate) bytes: usize,
    /// On which connection a watch told of which node's end.
    pub(crate) told: Vec<(usize, String)>,
}

type Rule = Box<dyn FnMut(&Request) -> Fate + Send>;

#[derive(Default)]
struct Inner {
    rule: Option<Rule>,
    requests: Vec<Request>,
    replies: Replies,
    /// How many connections there were.
    connections: usize,
    /// What is called one way by the server and another way by clients; both have the same length.
    renamed: Option<(&'static str, &'static str)>,
    /// Whether nobody gets through.
    away: bool,
}

struct Shared {
    inner: Mutex<Inner>,
    /// How often the connections were cut.
    cuts: watch::Sender<u64>,
    open: watch::Sender<bool>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The proxy. It runs on the runtime on which it was started, until it is dropped.
pub(crate) struct Proxy {
    pub(crate) hosts: String,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

impl Proxy {
    pub(crate) async fn start(server: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let hosts = listener.local_addr().expect("an address").to_string();
        let shared = Arc::new(Shared {
            inner: Mutex::default(),
            cuts: watch::Sender::new(0),
            open: watch::Sender::new(false),
        });
        let accepting = Arc::clone(&shared);
        let task = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (shared, server) = (Arc::clone(&accepting), server.clone());
                if !shared.lock().away {
                    tokio::spawn(async move { serve(&shared, client, &server).await.unwrap_or_default() });
                }
            }
        });
        Self { hosts, shared, task }
    }

    /// From now on this rule says what happens to requests.
    pub(crate) fn rule(&self, rule: impl FnMut(&Request) -> Fate + Send + 'static) {
        self.shared.lock().rule = Some(Box::new(rule));
    }

    /// This happens to the next request of this kind, and nothing to the others.
    pub(crate) fn once(&self, op: i32, fate: Fate) {
        let mut done = false;
        self.rule(move |request| {
            let now = request.op == op && !done;
            done |= now;
            if now { fate } else { Fate::Pass }
        });
    }

    /// Lets what waits go on.
    pub(crate) fn open(&self) {
        self.shared.open.send_replace(true);
    }

    /// What the server calls `theirs` is `ours` to clients.
    pub(crate) fn rename(&self, theirs: &'static str, ours: &'static str) {
        assert_eq!(theirs.len(), ours.len());
        self.shared.lock().renamed = Some((theirs, ours));
    }

    /// Cuts every connection; whether clients may come back at once.
    pub(crate) fn cut(&self, back: bool) {
        self.shared.lock().away = !back;
        self.shared.cuts.send_modify(|cuts| *cuts += 1);
    }

    /// Lets clients come back.
    pub(crate) fn come_back(&self) {
        self.shared.lock().away = false;
    }

    /// The requests that came so far, those that were refused among them, but no pings.
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.shared.lock().requests.clone()
    }

    /// How many requests of a kind came so far.
    pub(crate) fn asked(&self, op: i32) -> usize {
        self.shared.lock().requests.iter().filter(|request| request.op == op).count()
    }

    /// What came back so far.
    pub(crate) fn replies(&self) -> Replies {
        self.shared.lock().replies.clone()
    }

    /// Waits until a request like this has come.
    pub(crate) async fn saw(&self, wanted: impl Fn(&Request) -> bool) {
        while !self.requests().iter().any(&wanted) {
            tokio::task::yield_now().await;
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

type Fates = Mutex<HashMap<i32, Fate>>;

async fn serve(shared: &Shared, client: TcpStream, server: &str) -> io::Result<()> {
    let server = TcpStream::connect(server).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let ((client_in, client_out), (server_in, server_out)) = (client.into_split(), server.into_split());
    let (fates, mut cuts) = (Fates::default(), shared.cuts.subscribe());
    let connection = shared.next_connection();
    tokio::select! {
        up = carry_up(shared, connection, &fates, client_in, server_out) => up,
        down = carry_down(shared, connection, &fates, server_in, client_out) => down,
        _ = cuts.changed() => Ok(()),
    }
}

async fn carry_up(
    shared: &Shared,
    connection: usize,
    fates: &Fates,
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
) -> io::Result<()> {
    write(&mut to, &read(&mut from).await?).await?;
    loop {
        let mut bytes = read(&mut from).await?;
        let (xid, op) = (number(&bytes, 0), number(&bytes, 4));
        let fate = if op == op::PING { Fate::Pass } else { shared.judge(connection, op, &mut bytes) };
        if fate == Fate::Vanish {
            continue;
        }
        if fate == Fate::Wait {
            shared.open.subscribe().wait_for(|open| *open).await.map_err(io::Error::other)?;
        }
        if let Fate::Refuse(_) = fate {
            // A question without consequences in its place, so that the answer comes in turn.
            bytes.truncate(4);
            bytes.extend(op::EXISTS.to_be_bytes());
            bytes.extend(b"\0\0\0\x01/\0");
        }
        fates.lock().unwrap_or_else(PoisonError::into_inner).insert(xid, fate);
        write(&mut to, &bytes).await?;
    }
}

async fn carry_down(
    shared: &Shared,
    connection: usize,
    fates: &Fates,
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
) -> io::Result<()> {
    write(&mut to, &read(&mut from).await?).await?;
    loop {
        let mut bytes = read(&mut from).await?;
        let xid = number(&bytes, 0);
        shared.note_reply(connection, &bytes);
        let fate = fates.lock().unwrap_or_else(PoisonError::into_inner).remove(&xid);
        match fate {
            Some(Fate::Refuse(error)) => {
                bytes.truncate(12);
                bytes.extend(error.to_be_bytes());
            }
            Some(Fate::LoseReply) => return Ok(()),
            _ => {}
        }
        shared.rename(&mut bytes);
        write(&mut to, &bytes).await?;
    }
}

impl Shared {
    /// Gives what the server says the names that clients use.
    fn rename(&self, bytes: &mut [u8]) {
        if let Some((theirs, ours)) = self.lock().renamed {
            replace(bytes, theirs, ours);
        }
    }

    fn next_connection(&self) -> usize {
        let mut inner = self.lock();
        inner.connections += 1;
        inner.connections
    }

    fn note_reply(&self, connection: usize, bytes: &[u8]) {
        let mut inner = self.lock();
        inner.replies.bytes += 4 + bytes.len();
        // A watch's event has the number -1, a head of 16 bytes, its kind, the session's state, and a path.
        if number(bytes, 0) == -1 && number(bytes, 16) == NODE_DELETED {
            let path = bytes.get(28..).unwrap_or_default();
            inner.replies.told.push((connection, String::from_utf8_lossy(path).into_owned()));
        }
    }

    fn judge(&self, connection: usize, op: i32, bytes: &mut [u8]) -> Fate {
        let mut inner = self.lock();
        let request = Request { op, bytes: bytes.to_vec(), connection };
        let fate = inner.rule.as_mut().map_or(Fate::Pass, |rule| rule(&request));
        inner.requests.push(request);
        if let Some((theirs, ours)) = inner.renamed {
            replace(bytes, ours, theirs);
        }
        fate
    }
}

async fn read(from: &mut OwnedReadHalf) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; from.read_u32().await? as usize];
    from.read_exact(&mut bytes).await?;
    Ok(bytes)
}

async fn write(to: &mut OwnedWriteHalf, bytes: &[u8]) -> io::Result<()> {
    let size = u32::try_from(bytes.len()).map_err(io::Error::other)?;
    to.write_all(&[&size.to_be_bytes(), bytes].concat()).await
}

/// The number at this place.
fn number(bytes: &[u8], at: usize) -> i32 {
    let four = bytes.get(at..at + 4).and_then(|four| four.try_into().ok());
    four.map_or(0, i32::from_be_bytes)
}

fn position(bytes: &[u8], text: &[u8]) -> Option<usize> {
    bytes.windows(text.len()).position(|window| window == text)
}

fn replace(bytes: &mut [u8], from: &str, to: &str) {
    while let Some(at) = position(bytes, from.as_bytes()) {
        bytes[at..at + to.len()].copy_from_slice(to.as_bytes());
    }
}
