//! A proxy between a client and a server. It applies the test's rule to each request: for example,
//! it can refuse the request or lose its reply.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// The operation numbers of ZooKeeper's protocol.
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

/// The error codes.
pub(crate) mod code {
    pub(crate) const UNIMPLEMENTED: i32 = -6;
    pub(crate) const NO_NODE: i32 = -101;
    pub(crate) const NO_AUTH: i32 = -102;
}

/// The type of a watch event.
const NODE_DELETED: i32 = 2;

/// A request on its way to the server.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) op: i32,
    /// The whole request.
    pub(crate) bytes: Vec<u8>,
    /// Number of the connection, counted from the first.
    pub(crate) connection: usize,
}

impl Request {
    /// Returns `true` if the request contains this path or part of a path.
    pub(crate) fn names(&self, path: &str) -> bool {
        position(&self.bytes, path.as_bytes()).is_some()
    }
}

/// Handling of a request by the proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestEffect {
    Pass,
    /// The request gets this error as its reply and does not reach the server. The order of replies
    /// is kept.
    Refuse(i32),
    /// The request reaches the server, but its reply is lost, because the connection is closed
    /// instead.
    LoseReply,
    /// The request and all later ones on the connection are held back until [`Proxy::open`].
    Wait,
    /// The request gets no reply and does not reach the server. The connection seems to work.
    Vanish,
}

/// The server's messages to the clients.
#[derive(Clone, Debug, Default)]
pub(crate) struct Replies {
    /// Total number of bytes, including the replies to pings.
    pub(crate) bytes: usize,
    /// The connection and the node of each watch event that reported a deletion.
    pub(crate) told: Vec<(usize, String)>,
}

type Rule = Box<dyn FnMut(&Request) -> RequestEffect + Send>;

#[derive(Default)]
struct Inner {
    rule: Option<Rule>,
    requests: Vec<Request>,
    replies: Replies,
    /// Number of connections so far.
    connections: usize,
    /// A text that the server sends, and the text that clients receive instead. Both have the same
    /// length.
    renamed: Option<(&'static str, &'static str)>,
    /// `true` if no client can connect.
    away: bool,
}

struct Shared {
    inner: Mutex<Inner>,
    /// Number of times that the connections were cut.
    cuts: watch::Sender<u64>,
    open: watch::Sender<bool>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A running proxy. Dropping it stops it.
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

    /// Sets the rule that decides what happens to each request.
    pub(crate) fn rule(&self, rule: impl FnMut(&Request) -> RequestEffect + Send + 'static) {
        self.shared.lock().rule = Some(Box::new(rule));
    }

    /// Applies this effect to the next request of this kind. All other requests pass.
    pub(crate) fn once(&self, op: i32, effect: RequestEffect) {
        let mut done = false;
        self.rule(move |request| {
            let now = request.op == op && !done;
            done |= now;
            if now { effect } else { RequestEffect::Pass }
        });
    }

    /// Lets waiting requests pass.
    pub(crate) fn open(&self) {
        self.shared.open.send_replace(true);
    }

    /// Replaces the text `theirs` in the server's messages with `ours`.
    pub(crate) fn rename(&self, theirs: &'static str, ours: &'static str) {
        assert_eq!(theirs.len(), ours.len());
        self.shared.lock().renamed = Some((theirs, ours));
    }

    /// Cuts every connection. If `back` is `false`, no client can connect until `come_back`.
    pub(crate) fn cut(&self, back: bool) {
        self.shared.lock().away = !back;
        self.shared.cuts.send_modify(|cuts| *cuts += 1);
    }

    /// Lets clients connect again.
    pub(crate) fn come_back(&self) {
        self.shared.lock().away = false;
    }

    /// Returns the requests received so far, including refused ones but without pings.
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.shared.lock().requests.clone()
    }

    /// Returns the number of requests of a kind so far.
    pub(crate) fn asked(&self, op: i32) -> usize {
        self.shared.lock().requests.iter().filter(|request| request.op == op).count()
    }

    /// Returns the server's messages so far.
    pub(crate) fn replies(&self) -> Replies {
        self.shared.lock().replies.clone()
    }

    /// Waits until a matching request has arrived.
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

type Fates = Mutex<HashMap<i32, RequestEffect>>;

async fn serve(shared: &Shared, client: TcpStream, server: &str) -> io::Result<()> {
    let server = TcpStream::connect(server).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let ((client_in, client_out), (server_in, server_out)) = (client.into_split(), server.into_split());
    let (effects, mut cuts) = (Fates::default(), shared.cuts.subscribe());
    let connection = shared.next_connection();
    tokio::select! {
        up = carry_up(shared, connection, &effects, client_in, server_out) => up,
        down = carry_down(shared, connection, &effects, server_in, client_out) => down,
        _ = cuts.changed() => Ok(()),
    }
}

async fn carry_up(
    shared: &Shared,
    connection: usize,
    effects: &Fates,
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
) -> io::Result<()> {
    write(&mut to, &read(&mut from).await?).await?;
    loop {
        let mut bytes = read(&mut from).await?;
        let (xid, op) = (number(&bytes, 0), number(&bytes, 4));
        let effect =
            if op == op::PING { RequestEffect::Pass } else { shared.judge(connection, op, &mut bytes) };
        if effect == RequestEffect::Vanish {
            continue;
        }
        if effect == RequestEffect::Wait {
            shared.open.subscribe().wait_for(|open| *open).await.map_err(io::Error::other)?;
        }
        if let RequestEffect::Refuse(_) = effect {
            // Send the server a harmless request instead, so that the error reply keeps its
            // position in the order of replies.
            bytes.truncate(4);
            bytes.extend(op::EXISTS.to_be_bytes());
            bytes.extend(b"\0\0\0\x01/\0");
        }
        effects.lock().unwrap_or_else(PoisonError::into_inner).insert(xid, effect);
        write(&mut to, &bytes).await?;
    }
}

async fn carry_down(
    shared: &Shared,
    connection: usize,
    effects: &Fates,
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
) -> io::Result<()> {
    write(&mut to, &read(&mut from).await?).await?;
    loop {
        let mut bytes = read(&mut from).await?;
        let xid = number(&bytes, 0);
        shared.note_reply(connection, &bytes);
        let effect = effects.lock().unwrap_or_else(PoisonError::into_inner).remove(&xid);
        match effect {
            Some(RequestEffect::Refuse(error)) => {
                bytes.truncate(12);
                bytes.extend(error.to_be_bytes());
            }
            Some(RequestEffect::LoseReply) => return Ok(()),
            _ => {}
        }
        shared.rename(&mut bytes);
        write(&mut to, &bytes).await?;
    }
}

impl Shared {
    /// Replaces the server's text with the text that clients see.
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
        // A watch event consists of the number -1, a header of 16 bytes, its type, the session's
        // state, and a path.
        if number(bytes, 0) == -1 && number(bytes, 16) == NODE_DELETED {
            let path = bytes.get(28..).unwrap_or_default();
            inner.replies.told.push((connection, String::from_utf8_lossy(path).into_owned()));
        }
    }

    fn judge(&self, connection: usize, op: i32, bytes: &mut [u8]) -> RequestEffect {
        let mut inner = self.lock();
        let request = Request { op, bytes: bytes.to_vec(), connection };
        let effect = inner.rule.as_mut().map_or(RequestEffect::Pass, |rule| rule(&request));
        inner.requests.push(request);
        if let Some((theirs, ours)) = inner.renamed {
            replace(bytes, ours, theirs);
        }
        effect
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

/// Returns the number at this position.
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
