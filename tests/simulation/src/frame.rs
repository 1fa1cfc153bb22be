//! The parts of the wire protocol that the ensemble's model and the checks need: request kinds, the
//! contents of replies, and the few requests that the operator sends.

use zklock_jute::{Reader, Writer};

use crate::critical_request::CriticalRequest;

/// The kind of a request, by the way in which a server processes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An operator's four-letter word, on a connection without a session.
    Word,
    /// A handshake. It contains the last transaction that the client has seen. It also contains the
    /// client's session, or 0 if the client wants a new one.
    Connect {
        last_zxid: i64,
        session: i64,
    },
    Ping,
    /// The server answers from its replica.
    Read,
    /// A `sync`. The server answers it after it has applied all changes that the leader knew.
    Sync,
    /// A write. All servers execute writes in the same order.
    Write,
    /// A write that ends the session.
    Close,
}

const SYNC: i32 = 9;
const CHECK: i32 = 13;
const MULTI: i32 = 14;

/// If the position is beyond the end, the reader is empty.
fn reader(bytes: &[u8], at: usize) -> Reader<'_> {
    Reader::new(bytes.get(at..).unwrap_or_default())
}

fn int(bytes: &[u8], at: usize) -> i32 {
    reader(bytes, at).int().unwrap_or(0)
}

fn long(bytes: &[u8], at: usize) -> i64 {
    reader(bytes, at).long().unwrap_or(0)
}

fn text(bytes: &[u8], at: usize) -> Option<&str> {
    reader(bytes, at).text().ok()
}

/// Returns the length of the first frame, including its length field, or `None` if `bytes` is too
/// short. A four-letter word has no length field.
pub fn length(bytes: &[u8], first: bool) -> Option<usize> {
    let length: [u8; 4] = bytes.get(..4)?.try_into().ok()?;
    if first && length.iter().all(u8::is_ascii_lowercase) {
        return Some(4);
    }
    usize::try_from(i32::from_be_bytes(length)).ok().map(|length| length + 4)
}

/// Returns the kind of a frame. The first frame on a connection is a handshake or a four-letter
/// word.
pub fn kind(frame: &[u8], first: bool) -> Kind {
    if first {
        return if frame.len() == 4 {
            Kind::Word
        } else {
            Kind::Connect { last_zxid: long(frame, 8), session: long(frame, 20) }
        };
    }
    match int(frame, 8) {
        11 => Kind::Ping,
        SYNC => Kind::Sync,
        -11 => Kind::Close,
        // create, delete, setData, setACL, check, multi, create2, reconfig, createContainer, deleteContainer, createTTL.
        1 | 2 | 5 | 7 | 13 | 14 | 15 | 16 | 19 | 20 | 21 => Kind::Write,
        _ => Kind::Read,
    }
}

/// Turns a handshake into one for a new session.
pub fn without_session(mut frame: Vec<u8>) -> Vec<u8> {
    frame[20..28].fill(0);
    frame[32..48].fill(0);
    frame
}

/// Returns the session and the timeout in a handshake's reply, or `None` if the server refused the
/// session.
pub fn connected(frame: &[u8]) -> Option<(i64, u64)> {
    let timeout = u64::try_from(int(frame, 8)).ok().filter(|timeout| *timeout > 0)?;
    Some((long(frame, 12), timeout))
}

/// Error code of a server that is overloaded.
pub const THROTTLED: i32 = -127;

/// Error code for an operation that the server does not know.
pub const UNIMPLEMENTED: i32 = -6;

/// Error code for a node that does not exist.
pub const NO_NODE: i32 = -101;

/// Creates the reply with which a server refuses a request.
pub fn refusal(request: &[u8], code: i32) -> Vec<u8> {
    let mut reply = Writer::default();
    reply.bytes(&request[4..8]).long(-1).int(code);
    reply.into_frame()
}

/// Returns `true` if a request creates a container node, alone or as the first operation of a
/// transaction.
pub fn creates_container(request: &[u8]) -> bool {
    const CREATE_CONTAINER: i32 = 19;
    let operation = int(request, 8);
    operation == CREATE_CONTAINER || operation == MULTI && int(request, 12) == CREATE_CONTAINER
}

/// Returns `true` if a request is of this kind.
pub fn is_critical(request: &[u8], critical_request: CriticalRequest) -> bool {
    match critical_request {
        CriticalRequest::Delete | CriticalRequest::AfterDelete => int(request, 8) == 2,
        CriticalRequest::Directory => creates_container(request),
        CriticalRequest::Record => records(request),
        CriticalRequest::Anything => true,
    }
}

/// Returns `true` if a packet from the server is a watch event.
pub fn is_event(reply: &[u8]) -> bool {
    number(reply) == -1
}

/// Returns `true` if a request body (a request without its length and number) asks which nodes its
/// session owns.
pub fn asks_who_owns(body: &[u8]) -> bool {
    const WHO_OWNS: i32 = 103;
    int(body, 0) == WHO_OWNS
}

/// The xid of all pings and their replies.
pub const PING: i32 = -2;

/// Returns the xid, which connects a reply with its request.
pub fn number(frame: &[u8]) -> i32 {
    int(frame, 4)
}

/// Returns the error code of a reply; 0 means success.
pub fn code(reply: &[u8]) -> i32 {
    int(reply, 16)
}

/// Returns `true` if a request is a transaction.
pub fn is_multi(request: &[u8]) -> bool {
    int(request, 8) == MULTI
}

/// Returns the nodes whose existence a transaction checks. Returns no nodes if the transaction has
/// any other operation.
pub fn checks(request: &[u8]) -> Vec<String> {
    let (mut at, mut nodes) = (12, Vec::new());
    while is_multi(request) && int(request, at) == CHECK && request.get(at + 4) == Some(&0) {
        let Some(path) = text(request, at + 9) else { break };
        nodes.push(path.to_owned());
        at += 13 + path.len() + 4;
    }
    // The header after the last operation marks the end.
    if request.get(at + 4) == Some(&1) { nodes } else { Vec::new() }
}

/// If a request body creates a contender's node, returns its path without the sequence number. The
/// server appends that number, so repeating the request can create a second node.
pub fn contender(body: &[u8]) -> Option<String> {
    let path = path(body).filter(|_| matches!(int(body, 0), 1 | 15))?;
    (path.contains("/_c_") && path.ends_with(['-', '_'])).then(|| path.to_owned())
}

/// Returns the path at the start of a request body, if there is one.
fn path(body: &[u8]) -> Option<&str> {
    text(body, 4)
}

/// Returns the node that a request body deletes.
pub fn deletes(body: &[u8]) -> Option<String> {
    path(body).filter(|_| int(body, 0) == 2).map(str::to_owned)
}

/// Returns `true` if the client must give up its session when this request gets no reply
/// (docs/protocol.md, rule 16).
///
/// Clients use such requests to join, read and leave a queue, and to read a semaphore's number of
/// permits. Requests that the library also sends for other purposes are excluded.
pub fn insists(body: &[u8]) -> bool {
    let heartbeat =
        || int(body, 0) == MULTI && int(body, 4) == CHECK && body.get(8) == Some(&0) && !names_record(body);
    let number = || int(body, 0) == 4 && path(body).is_some_and(|path| path.ends_with("/count"));
    // Count a listing only for a guest's locks, because only the queue lists their children.
    let list =
        || matches!(int(body, 0), 8 | 12) && path(body).is_some_and(|path| path.starts_with("/visited"));
    is_sync(body) || list() || contender(body).is_some() || deletes(body).is_some() || number() || heartbeat()
}

/// Returns `true` if a request body is a `sync`.
pub fn is_sync(body: &[u8]) -> bool {
    int(body, 0) == SYNC
}

/// Returns `true` if a reply says that its transaction succeeded.
pub fn is_done(reply: &[u8]) -> bool {
    code(reply) == 0 && int(reply, 20) != -1
}

/// Returns the operation that made a transaction fail: its index and its error code.
pub fn failure(reply: &[u8]) -> Option<(usize, i32)> {
    // The reply to a failed transaction has one entry for each operation: its kind, an end marker,
    // and its error code twice. The operations before the failed one have code 0.
    let errors = reply.get(20..)?.chunks(13);
    errors
        .take_while(|error| int(error, 0) == -1 && error.get(4) == Some(&0))
        .map(|error| int(error, 9))
        .enumerate()
        .find(|(_, code)| *code != 0)
}

/// Creates a handshake for a new session.
pub fn handshake() -> Vec<u8> {
    let mut request = Writer::default();
    request.int(0).long(0).int(60_000).long(0).buffer(&[0; 16]);
    request.into_frame()
}

/// Name of a stranger's node, without its sequence number.
pub const STRANGER: &str = "_c_00000000-0000-4000-8000-000000000000-lock-";

/// Error code for missing permission.
pub const NO_AUTH: i32 = -102;

/// Returns `true` if a request carries credentials. Servers process these before they throttle
/// requests.
pub fn authenticates(request: &[u8]) -> bool {
    const AUTH: i32 = 100;
    int(request, 8) == AUTH
}

/// Creates a request with the clients' password.
pub fn authentication() -> Vec<u8> {
    const AUTH: i32 = 100;
    let mut request = Writer::default();
    request.int(-4).int(AUTH).int(0).text("digest").text(PASSWORD);
    request.into_frame()
}

/// The name and password of all clients, in runs in which clients log in.
pub const PASSWORD: &str = "simulated:password";

/// Returns `true` if a request reads the data of a stranger's node.
pub fn asks_stranger(request: &[u8]) -> bool {
    int(request, 8) == 4 && text(request, 12).is_some_and(|path| path.contains(STRANGER))
}

/// Changes the reply to a request that reads several nodes, so that the server appears to refuse to
/// read a stranger's node.
pub fn without_stranger(request: &[u8], mut reply: Vec<u8>) -> Vec<u8> {
    const MULTI_READ: i32 = 22;
    let mut refused = Writer::default();
    refused.int(-1).boolean(false).int(NO_AUTH).int(NO_AUTH);
    let refused = refused.into_bytes();
    let (mut asked, mut answered) = (12, 20);
    while int(request, 8) == MULTI_READ && request.get(asked + 4) == Some(&0) {
        let path = text(request, asked + 9).unwrap_or_default();
        // The three possible results have the same length: missing node, no children, and no
        // permission.
        if let Some(answer) = reply.get_mut(answered..answered + refused.len())
            && path.contains(STRANGER)
            && int(answer, 0) != -1
        {
            answer.copy_from_slice(&refused);
        }
        (asked, answered) = (asked + 13 + path.len() + 1, answered + refused.len());
    }
    reply
}

/// Flags of a create request. A `SEQUENTIAL` node is also ephemeral.
pub const PERSISTENT: i32 = 0;
pub const SEQUENTIAL: i32 = 3;

/// Creates a node without data.
pub fn create(path: &str, how: i32) -> Vec<u8> {
    request(1, path, |fields| fields.int(0).count(1).int(31).text("world").text("anyone").int(how))
}

/// Creates a request from its fields after the path.
fn request(operation: i32, path: &str, write: impl FnOnce(&mut Writer) -> &mut Writer) -> Vec<u8> {
    let mut request = Writer::default();
    write(request.int(7).int(operation).text(path));
    request.into_frame()
}

/// Deletes a node.
pub fn delete(path: &str) -> Vec<u8> {
    request(2, path, |fields| fields.int(-1))
}

/// Sets a node's data to nothing.
pub fn set_data(path: &str) -> Vec<u8> {
    request(5, path, |fields| fields.nullable(None).int(-1))
}

/// Asks whether a node exists.
pub fn exists(path: &str) -> Vec<u8> {
    request(3, path, |fields| fields.boolean(false))
}

/// Returns the session that owns the node in this reply, or 0 if the node does not exist.
pub fn owner(reply: &[u8]) -> i64 {
    if int(reply, 16) == 0 { long(reply, 64) } else { 0 }
}

/// Returns `true` if any request in these bytes creates a node.
pub fn creates(mut bytes: &[u8]) -> bool {
    while let Some(length) = length(bytes, false).filter(|length| (12..=bytes.len()).contains(length)) {
        if matches!(int(bytes, 8), 1 | 15) {
            return true;
        }
        bytes = &bytes[length..];
    }
    false
}

/// Returns `true` if a request names the slot record of a lock.
fn names_record(request: &[u8]) -> bool {
    const SUFFIX: &[u8] = b".once";
    request.windows(SUFFIX.len()).any(|part| part == SUFFIX)
}

/// Returns `true` if any request in these bytes is a transaction that records a slot.
pub fn records(mut bytes: &[u8]) -> bool {
    while let Some(length) = length(bytes, false).filter(|length| (12..=bytes.len()).contains(length)) {
        let (request, rest) = bytes.split_at(length);
        if is_multi(request) && names_record(request) {
            return true;
        }
        bytes = rest;
    }
    false
}

/// Returns `true` if a request body reads the slot record of a lock.
pub fn reads_record(body: &[u8]) -> bool {
    const GET_DATA: i32 = 4;
    int(body, 0) == GET_DATA && names_record(body)
}

/// Returns `true` if the first bytes on a connection are a handshake.
pub fn connects(bytes: &[u8]) -> bool {
    bytes.len() > 4
}

/// Asks for the children of a node.
pub fn children(path: &str) -> Vec<u8> {
    request(8, path, |fields| fields.boolean(false))
}

/// Asks for a node's data.
pub fn data(path: &str) -> Vec<u8> {
    request(4, path, |fields| fields.boolean(false))
}

/// Returns the data in this reply, or `None` if the node does not exist.
pub fn content(reply: &[u8]) -> Option<Vec<u8>> {
    if int(reply, 16) != 0 {
        return None;
    }
    reader(reply, 20).buffer().ok().flatten().map(<[u8]>::to_vec)
}

/// Returns the data version in a reply with data, or `None` if the node does not exist.
pub fn version(reply: &[u8]) -> Option<i32> {
    let data = usize::try_from(int(reply, 20)).unwrap_or(0);
    (int(reply, 16) == 0).then(|| int(reply, 24 + data + 32))
}

/// Returns how often children of a node were created or deleted. `reply` is a reply with the node's
/// data.
pub fn changes_of_children(reply: &[u8]) -> i32 {
    let data = usize::try_from(int(reply, 20)).unwrap_or(0);
    if int(reply, 16) == 0 { int(reply, 24 + data + 36) } else { 0 }
}

/// Returns the names of the children in this reply, or `None` if the node does not exist.
pub fn names(reply: &[u8]) -> Option<Vec<String>> {
    if int(reply, 16) != 0 {
        return None;
    }
    let mut names = reader(reply, 20);
    (0..names.count(4).ok()?).map(|_| names.text().ok().map(str::to_owned)).collect()
}
