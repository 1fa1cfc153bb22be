//! An in-memory server with the part of ZooKeeper's protocol that the engine uses. A test can
//! choose the server's replies. The server keeps sessions forever unless a test ends them, and
//! fires no watches.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Result, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use zklock_jute::{Reader, Writer};

/// Size of the largest accepted request, in bytes.
const LARGEST: usize = 0xf_ffff;

/// The type of a client's request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Create,
    Delete,
    Exists,
    GetData,
    GetChildren,
    Sync,
    Ping,
    Multi,
    Ephemerals,
    Sasl,
    Close,
    Other,
}

/// The error codes in the tests' replies.
pub(crate) mod code {
    pub(crate) const NOT_TRIED: i32 = -2;
    pub(crate) const NO_NODE: i32 = -101;
    pub(crate) const NO_AUTH: i32 = -102;
    pub(crate) const NODE_EXISTS: i32 = -110;
    pub(crate) const SESSION_EXPIRED: i32 = -112;
    pub(crate) const SESSION_MOVED: i32 = -118;
    pub(crate) const THROTTLED: i32 = -127;
}

/// The server's reply to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Replies like ZooKeeper.
    Truth,
    /// Replies like ZooKeeper, but after this delay. It also delays the client's next requests.
    Late(Duration),
    /// Sends no more replies on this connection, except to pings, until the test makes the server
    /// answer truthfully again.
    Silence,
    /// Replies with this number as the whole body.
    Number(i32),
    /// Replies with a body of this many zeros.
    Zeros(usize),
    /// Replies with a list of this many names.
    Names(usize),
    /// Replies to a login with this token.
    Token(Option<&'static str>),
    /// Replies with an error and does not carry out the request.
    Error(i32),
    /// Replies with an error although it carries out the request.
    DoneBut(i32),
    /// Replies that the first operation of a transaction failed with this error.
    FirstFailed(i32),
    /// Replies that the second operation of a transaction failed with this error, although the
    /// server executes the transaction.
    DoneButSecondFailed(i32),
    /// Replies like ZooKeeper, but for another session.
    Foreign,
    /// Replies with success and an empty list.
    Nothing,
    /// Closes the connection without carrying out the request.
    Close,
}

/// A request that the server received.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) at: Instant,
    pub(crate) op: Op,
    pub(crate) session: i64,
}

type Rule = Box<dyn FnMut(&Request) -> Answer + Send>;

struct Node {
    owner: i64,
    czxid: i64,
    data: Vec<u8>,
}

#[derive(Default)]
struct Inner {
    nodes: BTreeMap<String, Node>,
    sequence: u32,
    zxid: i64,
    sessions: Vec<i64>,
    /// Number of the last session that began.
    begun: i64,
    timeout: i32,
    connections: Vec<TcpStream>,
    /// Times of the connect requests.
    greetings: Vec<Instant>,
    requests: Vec<Request>,
    /// The sessions of closed connections.
    ended: Vec<i64>,
    /// The address at which the server is reachable now.
    address: Option<IpAddr>,
    rule: Option<Rule>,
}

#[derive(Default)]
struct Shared {
    inner: Mutex<Inner>,
    news: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The server. Its threads run until the process exits.
pub(crate) struct Server {
    shared: Arc<Shared>,
    pub(crate) hosts: String,
    pub(crate) port: u16,
}

impl Server {
    /// Starts a server with this lock directory and this session timeout.
    pub(crate) fn start(directory: &str, session_timeout: Duration) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let shared = Arc::new(Shared::default());
        let mut inner = shared.lock();
        inner.timeout = session_timeout.as_millis().try_into().expect("a time-out");
        for (at, _) in directory.match_indices('/').skip(1).chain([(directory.len(), "")]) {
            inner.nodes.insert(directory[..at].to_owned(), Node { owner: 0, czxid: 0, data: Vec::new() });
        }
        drop(inner);
        let server = Self { shared, hosts: address.to_string(), port: address.port() };
        server.listen(listener, address.ip());
        server
    }

    fn listen(&self, listener: TcpListener, address: IpAddr) {
        self.shared.lock().address = Some(address);
        let shared = Arc::clone(&self.shared);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if shared.lock().address == Some(address) {
                    let shared = Arc::clone(&shared);
                    thread::spawn(move || drop(serve(&shared, stream)));
                }
            }
        });
    }

    /// Moves the server with all its sessions to another address, and cuts all connections.
    pub(crate) fn move_to(&self, address: IpAddr) {
        let listener = TcpListener::bind((address, self.port)).expect("the same port");
        self.listen(listener, address);
        self.cut();
    }

    /// Makes the server unreachable until `come_back`, and cuts all connections. The sessions
    /// remain.
    pub(crate) fn go_away(&self) {
        self.shared.lock().address = None;
        self.cut();
    }

    /// Makes the server reachable again at its first address.
    pub(crate) fn come_back(&self) {
        self.shared.lock().address = Some(Ipv4Addr::LOCALHOST.into());
    }

    /// Sets the rule that chooses the replies.
    pub(crate) fn answer(&self, rule: impl FnMut(&Request) -> Answer + Send + 'static) {
        self.shared.lock().rule = Some(Box::new(rule));
    }

    /// Replies truthfully to every request from now on.
    pub(crate) fn answer_truthfully(&self) {
        self.shared.lock().rule = None;
    }

    /// Deletes the nodes of all sessions, without firing watches.
    pub(crate) fn clear(&self) {
        self.shared.lock().nodes.retain(|_, node| node.owner == 0);
    }

    /// Cuts every connection.
    pub(crate) fn cut(&self) {
        for stream in self.shared.lock().connections.drain(..) {
            stream.shutdown(Shutdown::Both).ok();
        }
    }

    /// Returns the requests received so far.
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.shared.lock().requests.clone()
    }

    /// Returns the times at which clients connected.
    pub(crate) fn greetings(&self) -> Vec<Instant> {
        self.shared.lock().greetings.clone()
    }

    /// Waits for a matching request after the first `known` ones.
    pub(crate) fn await_request(&self, known: usize, wanted: impl Fn(&Request) -> bool) -> Request {
        self.eventually("the request did not come", |inner| {
            inner.requests.iter().skip(known).find(|request| wanted(request)).copied()
        })
    }

    /// Waits until this many connections of a session are closed.
    pub(crate) fn await_ends(&self, session: i64, count: usize) {
        self.eventually("a connection lives on", |inner| {
            (inner.ended.iter().filter(|ended| **ended == session).count() >= count).then_some(())
        });
    }

    fn eventually<T>(&self, otherwise: &str, wanted: impl Fn(&Inner) -> Option<T>) -> T {
        let deadline = Instant::now() + Duration::from_secs(20);
        let mut inner = self.shared.lock();
        loop {
            if let Some(found) = wanted(&inner) {
                return found;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "{otherwise}");
            (inner, _) = self.shared.news.wait_timeout(inner, left).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Reads requests of the client crate, which are always valid.
trait Fields {
    fn flag(&mut self) -> bool;
    fn number(&mut self) -> i32;
    fn path(&mut self) -> String;
    fn data(&mut self) -> Vec<u8>;
    fn skip_acl(&mut self);
}

impl Fields for Reader<'_> {
    fn flag(&mut self) -> bool {
        self.boolean().expect("a boolean")
    }

    fn number(&mut self) -> i32 {
        self.int().expect("a number")
    }

    fn path(&mut self) -> String {
        self.text().expect("a text").to_owned()
    }

    fn data(&mut self) -> Vec<u8> {
        self.buffer().expect("a buffer").unwrap_or_default().to_vec()
    }

    fn skip_acl(&mut self) {
        for _ in 0..self.number() {
            self.number();
            self.data();
            self.data();
        }
    }
}

fn write_texts(writer: &mut Writer, values: &[impl AsRef<str>]) {
    writer.list(values, |writer, value| {
        writer.text(value.as_ref());
    });
}

fn write_stat(writer: &mut Writer, node: &Node) {
    writer.long(node.czxid).long(node.czxid).long(0).long(0).int(0).int(0).int(0).long(node.owner);
    writer.int(0).int(0).long(node.czxid);
}

fn read_frame(stream: &mut TcpStream) -> Result<Vec<u8>> {
    let mut size = [0; 4];
    stream.read_exact(&mut size)?;
    let size = u32::from_be_bytes(size) as usize;
    if size > LARGEST {
        stream.shutdown(Shutdown::Both)?;
        return Err(ErrorKind::InvalidData.into());
    }
    let mut frame = vec![0; size];
    stream.read_exact(&mut frame)?;
    Ok(frame)
}

fn write_frame(stream: &mut TcpStream, reply: Writer) -> Result<()> {
    stream.write_all(&reply.into_frame())
}

fn serve(shared: &Shared, mut stream: TcpStream) -> Result<()> {
    stream.set_nodelay(true)?;
    let Some(session) = greet(shared, &mut stream)? else { return Ok(()) };
    let end = converse(shared, &mut stream, session);
    shared.lock().ended.push(session);
    shared.news.notify_all();
    end
}

fn converse(shared: &Shared, stream: &mut TcpStream, session: i64) -> Result<()> {
    let mut unanswered: Vec<Vec<u8>> = Vec::new();
    loop {
        let frame = read_frame(stream)?;
        let op = op(Reader::new(&frame[4..]).number());
        let request = Request { at: Instant::now(), op, session };
        let mut inner = shared.lock();
        let answer = inner.rule.as_mut().map(|rule| rule(&request));
        inner.requests.push(request);
        shared.news.notify_all();
        if answer.is_none() {
            for frame in unanswered.drain(..) {
                write_frame(stream, inner.reply(session, &frame, Answer::Truth))?;
            }
        }
        let answer = answer.unwrap_or(Answer::Truth);
        if answer == Answer::Silence || !unanswered.is_empty() && op != Op::Ping {
            unanswered.push(frame);
            continue;
        }
        if let Answer::Late(time) = answer {
            drop(inner);
            // The test measures the effect of a late reply.
            thread::sleep(time);
            inner = shared.lock();
        }
        if answer == Answer::Close {
            return stream.shutdown(Shutdown::Both);
        }
        let reply = inner.reply(session, &frame, answer);
        drop(inner);
        write_frame(stream, reply)?;
        if op == Op::Close {
            return Ok(());
        }
    }
}

fn greet(shared: &Shared, stream: &mut TcpStream) -> Result<Option<i64>> {
    let greeting = read_frame(stream)?;
    let mut reader = Reader::new(&greeting);
    // Skip the protocol version, the last seen zxid and the requested timeout.
    reader.bytes(16).expect("a greeting");
    let asked = reader.long().expect("a session");
    let mut inner = shared.lock();
    let session = match asked {
        0 => {
            inner.begun += 1;
            let session = inner.begun;
            inner.sessions.push(session);
            session
        }
        asked if inner.sessions.contains(&asked) => asked,
        _ => 0,
    };
    let mut reply = Writer::default();
    let timeout = if session == 0 { 0 } else { inner.timeout };
    reply.int(0).int(timeout).long(session).buffer(&[7; 16]).boolean(false);
    inner.connections.push(stream.try_clone()?);
    inner.greetings.push(Instant::now());
    drop(inner);
    write_frame(stream, reply)?;
    Ok((session != 0).then_some(session))
}

fn op(number: i32) -> Op {
    match number {
        1 | 15 | 19 => Op::Create,
        2 => Op::Delete,
        3 => Op::Exists,
        4 => Op::GetData,
        8 | 12 => Op::GetChildren,
        9 => Op::Sync,
        11 => Op::Ping,
        14 => Op::Multi,
        102 => Op::Sasl,
        103 => Op::Ephemerals,
        -11 => Op::Close,
        _ => Op::Other,
    }
}

fn empty() -> Writer {
    let mut body = Writer::default();
    body.int(0);
    body
}

/// Returns the number of operations in a transaction.
fn operations(reader: &mut Reader<'_>) -> usize {
    let mut count = 0;
    loop {
        let (op, done, _) = (reader.number(), reader.flag(), reader.number());
        if done {
            return count;
        }
        count += 1;
        reader.path();
        if op != 2 && op != 13 {
            reader.data();
        }
        if matches!(op, 1 | 15 | 19) {
            reader.skip_acl();
        }
        reader.number();
    }
}

/// Returns the results of a failed transaction with `count` operations: these errors, and then
/// `NOT_TRIED` for each remaining operation.
fn failed(errors: &[i32], count: usize) -> Writer {
    let mut body = Writer::default();
    for error in errors.iter().chain(std::iter::repeat(&code::NOT_TRIED)).take(count) {
        body.int(-1).boolean(false).int(*error).int(*error);
    }
    body.int(-1).boolean(true).int(-1);
    body
}

impl Inner {
    fn reply(&mut self, session: i64, frame: &[u8], answer: Answer) -> Writer {
        let mut reader = Reader::new(frame);
        let (xid, op) = (reader.number(), op(reader.number()));
        let (error, body) = match answer {
            Answer::Error(error) => (error, Writer::default()),
            Answer::Number(number) => (0, std::mem::take(Writer::default().int(number))),
            Answer::Zeros(count) => (0, {
                let mut body = Writer::default();
                body.bytes(&vec![0; count]);
                body
            }),
            Answer::Names(count) => {
                let mut body = Writer::default();
                write_texts(&mut body, &vec!["x"; count]);
                (0, body)
            }
            Answer::Token(token) => {
                let mut body = Writer::default();
                match token {
                    Some(token) => body.buffer(token.as_bytes()),
                    None => body.int(-1),
                };
                (0, body)
            }
            Answer::FirstFailed(error) => (0, failed(&[error], operations(&mut reader))),
            Answer::DoneBut(error) => {
                self.carry_out(op, session, &mut reader);
                (error, Writer::default())
            }
            Answer::DoneButSecondFailed(error) => {
                self.carry_out(op, session, &mut reader);
                (0, failed(&[0, error], 2))
            }
            Answer::Foreign => self.carry_out(op, -1, &mut reader),
            Answer::Nothing => (0, empty()),
            _ => self.carry_out(op, session, &mut reader),
        };
        let mut reply = Writer::default();
        reply.int(xid).long(self.zxid).int(error).bytes(&body.into_bytes());
        reply
    }

    fn carry_out(&mut self, op: Op, session: i64, reader: &mut Reader<'_>) -> (i32, Writer) {
        let mut body = Writer::default();
        let error = match op {
            Op::Create => self.create(session, reader, &mut body),
            Op::Delete => match self.nodes.remove(&reader.path()) {
                Some(_) => 0,
                None => code::NO_NODE,
            },
            Op::Exists | Op::GetData => match self.nodes.get(&reader.path()) {
                Some(node) if op == Op::GetData => {
                    write_stat(body.buffer(&node.data), node);
                    0
                }
                Some(node) => {
                    write_stat(&mut body, node);
                    0
                }
                None => code::NO_NODE,
            },
            Op::GetChildren => {
                let parent = format!("{}/", reader.path());
                let children: Vec<_> =
                    self.nodes.keys().filter_map(|path| path.strip_prefix(&parent)).collect();
                write_texts(&mut body, &children);
                0
            }
            Op::Ephemerals => {
                let prefix = reader.path();
                let own =
                    |(path, node): &(&String, &Node)| node.owner == session && path.starts_with(&prefix);
                let own: Vec<_> = self.nodes.iter().filter(own).map(|(path, _)| path).collect();
                write_texts(&mut body, &own);
                0
            }
            Op::Sync => {
                body.text(&reader.path());
                0
            }
            Op::Multi => {
                body = self.multi(session, reader);
                0
            }
            Op::Close => {
                self.sessions.retain(|other| *other != session);
                self.nodes.retain(|_, node| node.owner != session);
                0
            }
            Op::Ping | Op::Sasl | Op::Other => 0,
        };
        (error, body)
    }

    fn create(&mut self, session: i64, reader: &mut Reader<'_>, body: &mut Writer) -> i32 {
        let (path, data) = (reader.path(), reader.data());
        reader.skip_acl();
        let flags = reader.number();
        let sequential = (flags == 2 || flags == 3).then(|| {
            self.sequence += 1;
            format!("{:010}", self.sequence)
        });
        let path = path + sequential.as_deref().unwrap_or("");
        if !path.rsplit_once('/').is_some_and(|(parent, _)| self.nodes.contains_key(parent)) {
            return code::NO_NODE;
        }
        if self.nodes.contains_key(&path) {
            return code::NODE_EXISTS;
        }
        self.zxid += 1;
        let owner = if flags & 1 == 1 { session } else { 0 };
        let node = Node { owner, czxid: self.zxid, data };
        write_stat(body.text(&path), &node);
        self.nodes.insert(path, node);
        0
    }

    /// Carries out a transaction of checks, followed by at most one create.
    fn multi(&mut self, session: i64, reader: &mut Reader<'_>) -> Writer {
        let count = operations(&mut reader.clone());
        let (mut body, mut errors) = (Writer::default(), Vec::new());
        loop {
            let (op, done, _) = (reader.number(), reader.flag(), reader.number());
            if done {
                break;
            }
            let error = match op {
                13 => {
                    let found = self.nodes.contains_key(&reader.path());
                    reader.number();
                    body.int(13).boolean(false).int(0);
                    if found { 0 } else { code::NO_NODE }
                }
                15 if errors.iter().all(|error| *error == 0) => {
                    body.int(15).boolean(false).int(0);
                    self.create(session, reader, &mut body)
                }
                _ => return failed(&errors, count),
            };
            errors.push(error);
        }
        self.zxid += 1;
        if errors.iter().any(|error| *error != 0) {
            return failed(&errors, count);
        }
        body.int(-1).boolean(true).int(-1);
        body
    }
}
