//! As much of the protocol's bytes as the model and the judges have to know: what a request is, what an answer says, and
//! the few requests that an operator sends.

use crate::fateful::Fateful;

/// What a server has to do with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An operator's question on a bare connection.
    Word,
    /// The client has seen this transaction, and wants to go on with this session, or with a new one.
    Connect {
        last_zxid: i64,
        session: i64,
    },
    Ping,
    /// Answered from what the server has.
    Read,
    /// Answered once the server has what the leader had.
    Sync,
    /// Carried out by all servers, in one order.
    Write,
    /// A write too: the session ends.
    Close,
}

const SYNC: i32 = 9;
const CHECK: i32 = 13;
const MULTI: i32 = 14;

fn int(bytes: &[u8], at: usize) -> i32 {
    bytes.get(at..at + 4).and_then(|int| int.try_into().ok()).map_or(0, i32::from_be_bytes)
}

fn long(bytes: &[u8], at: usize) -> i64 {
    bytes.get(at..at + 8).and_then(|long| long.try_into().ok()).map_or(0, i64::from_be_bytes)
}

/// How long the first frame is, its length included, once that can be told; a bare word has no length before it.
pub fn length(bytes: &[u8], first: bool) -> Option<usize> {
    let length: [u8; 4] = bytes.get(..4)?.try_into().ok()?;
    if first && length.iter().all(u8::is_ascii_lowercase) {
        return Some(4);
    }
    usize::try_from(i32::from_be_bytes(length)).ok().map(|length| length + 4)
}

/// What a frame is. The first on a connection is a handshake, or a word.
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

/// A handshake that asks for a new session instead.
pub fn without_session(mut frame: Vec<u8>) -> Vec<u8> {
    frame[20..28].fill(0);
    frame[32..48].fill(0);
    frame
}

/// The session and its time-out that a handshake's answer names; `None` for a refusal.
pub fn connected(frame: &[u8]) -> Option<(i64, u64)> {
    let timeout = u64::try_from(int(frame, 8)).ok().filter(|timeout| *timeout > 0)?;
    Some((long(frame, 12), timeout))
}

/// The code with which a server says that it has too much to do.
pub const THROTTLED: i32 = -127;

/// The code with which a server says that it does not know such an operation.
pub const UNIMPLEMENTED: i32 = -6;

/// The code for a node that does not exist.
pub const NO_NODE: i32 = -101;

/// The answer that a server gives which carries nothing out.
pub fn refusal(request: &[u8], code: i32) -> Vec<u8> {
    let mut frame = 16_i32.to_be_bytes().to_vec();
    frame.extend_from_slice(&request[4..8]);
    frame.extend((-1_i64).to_be_bytes());
    frame.extend(code.to_be_bytes());
    frame
}

/// Whether a request creates a container, alone or as the first of a transaction.
pub fn creates_container(request: &[u8]) -> bool {
    const CREATE_CONTAINER: i32 = 19;
    let operation = int(request, 8);
    operation == CREATE_CONTAINER || operation == MULTI && int(request, 12) == CREATE_CONTAINER
}

/// Whether a request is such a one.
pub fn is_fateful(request: &[u8], fateful: Fateful) -> bool {
    match fateful {
        Fateful::Delete | Fateful::BehindDelete => int(request, 8) == 2,
        Fateful::Directory => creates_container(request),
        Fateful::Record => records(request),
        Fateful::Anything => true,
    }
}

/// Whether an answer tells of a watch that has fired.
pub fn is_event(reply: &[u8]) -> bool {
    number(reply) == -1
}

/// Whether a request, without its length and number, asks for a session's own nodes.
pub fn asks_who_owns(body: &[u8]) -> bool {
    const WHO_OWNS: i32 = 103;
    int(body, 0) == WHO_OWNS
}

/// The number of all pings, and of their answers.
pub const PING: i32 = -2;

/// The number by which an answer is known to belong to its request.
pub fn number(frame: &[u8]) -> i32 {
    int(frame, 4)
}

/// What an answer says of its request: 0 for success.
pub fn code(reply: &[u8]) -> i32 {
    int(reply, 16)
}

/// Whether a request is a transaction.
pub fn is_multi(request: &[u8]) -> bool {
    int(request, 8) == MULTI
}

/// The nodes whose existence a transaction checks, if it does nothing else.
pub fn checks(request: &[u8]) -> Vec<String> {
    let (mut at, mut nodes) = (12, Vec::new());
    while is_multi(request) && int(request, at) == CHECK && request.get(at + 4) == Some(&0) {
        let length = usize::try_from(int(request, at + 9)).unwrap_or(0);
        let Some(path) = request.get(at + 13..at + 13 + length) else { break };
        nodes.extend(String::from_utf8(path.to_vec()));
        at += 13 + length + 4;
    }
    // What follows the last operation says that it was the last.
    if request.get(at + 4) == Some(&1) { nodes } else { Vec::new() }
}

/// The path at which a request, without its length and number, creates a contender's node: one that the server gives a
/// number of its own, so that a second one may come of it.
pub fn contender(body: &[u8]) -> Option<String> {
    let length = usize::try_from(int(body, 4)).ok().filter(|_| matches!(int(body, 0), 1 | 15))?;
    let path = std::str::from_utf8(body.get(8..8 + length)?).ok()?;
    (path.contains("/_c_") && path.ends_with(['-', '_'])).then(|| path.to_owned())
}

/// The path that a request is about, without its length and number, if it begins with one.
fn path(body: &[u8]) -> Option<&str> {
    let length = usize::try_from(int(body, 4)).ok()?;
    std::str::from_utf8(body.get(8..8 + length)?).ok()
}

/// The node that a request, without its length and number, deletes.
pub fn deletes(body: &[u8]) -> Option<String> {
    path(body).filter(|_| int(body, 0) == 2).map(str::to_owned)
}

/// Whether a request, without its length and number, is one for which a session is given up if it is not answered
/// (docs/protocol.md, rule 16): what a queue asks for, or a semaphore that wants to know its number. Of what only queues
/// ask for, and not others too.
pub fn insists(body: &[u8]) -> bool {
    let heartbeat =
        || int(body, 0) == MULTI && int(body, 4) == CHECK && body.get(8) == Some(&0) && !names_record(body);
    let number = || int(body, 0) == 4 && path(body).is_some_and(|path| path.ends_with("/count"));
    // Of a guest's locks nobody else lists contenders.
    let list =
        || matches!(int(body, 0), 8 | 12) && path(body).is_some_and(|path| path.starts_with("/visited"));
    is_sync(body) || list() || contender(body).is_some() || deletes(body).is_some() || number() || heartbeat()
}

/// Whether a request, without its length and number, asks a server to come up with the leader.
pub fn is_sync(body: &[u8]) -> bool {
    int(body, 0) == SYNC
}

/// Whether a transaction that was answered was carried out.
pub fn is_done(reply: &[u8]) -> bool {
    code(reply) == 0 && int(reply, 20) != -1
}

/// Which of a transaction's operations failed, and how.
pub fn failure(reply: &[u8]) -> Option<(usize, i32)> {
    // Each failed operation: its kind, whether it was the last, the code twice. Those before it say that they succeeded.
    let errors = reply.get(20..)?.chunks(13);
    errors
        .take_while(|error| int(error, 0) == -1 && error.get(4) == Some(&0))
        .map(|error| int(error, 9))
        .enumerate()
        .find(|(_, code)| *code != 0)
}

fn framed(body: &[&[u8]]) -> Vec<u8> {
    let body = body.concat();
    let length = i32::try_from(body.len()).unwrap_or(i32::MAX);
    [&length.to_be_bytes()[..], &body].concat()
}

/// A handshake for a new session.
pub fn handshake() -> Vec<u8> {
    framed(&[&[0; 12], &60_000_i32.to_be_bytes(), &[0; 8], &16_i32.to_be_bytes(), &[0; 16]])
}

/// What the node of a stranger is called, without its number.
pub const STRANGER: &str = "_c_00000000-0000-4000-8000-000000000000-lock-";

/// The code for what is not permitted.
pub const NO_AUTH: i32 = -102;

/// Whether a request states credentials: servers take it in before they would turn requests away.
pub fn authenticates(request: &[u8]) -> bool {
    const AUTH: i32 = 100;
    int(request, 8) == AUTH
}

/// States the password that clients have.
pub fn authentication() -> Vec<u8> {
    const AUTH: i32 = 100;
    let text = |text: &str| [&i32::try_from(text.len()).unwrap_or(0).to_be_bytes(), text.as_bytes()].concat();
    let (scheme, password) = (text("digest"), text(PASSWORD));
    framed(&[&(-4_i32).to_be_bytes(), &AUTH.to_be_bytes(), &[0; 4], &scheme, &password])
}

/// The name and the password that clients know, if one of them keeps its nodes to those that do.
pub const PASSWORD: &str = "simulated:password";

/// Whether a request asks for what is in a stranger's node.
pub fn asks_stranger(request: &[u8]) -> bool {
    let path = usize::try_from(int(request, 12)).ok().and_then(|length| request.get(16..16 + length));
    int(request, 8) == 4
        && path.and_then(|path| std::str::from_utf8(path).ok()).is_some_and(|path| path.contains(STRANGER))
}

/// The answer to a request that reads the children of several nodes, of which a stranger's may not be read.
pub fn without_stranger(request: &[u8], mut reply: Vec<u8>) -> Vec<u8> {
    const MULTI_READ: i32 = 22;
    let refused =
        [&(-1_i32).to_be_bytes()[..], &[0], &NO_AUTH.to_be_bytes(), &NO_AUTH.to_be_bytes()].concat();
    let (mut asked, mut answered) = (12, 20);
    while int(request, 8) == MULTI_READ && request.get(asked + 4) == Some(&0) {
        let length = usize::try_from(int(request, asked + 9)).unwrap_or(0);
        let path = request.get(asked + 13..asked + 13 + length).unwrap_or_default();
        let is_stranger = path.windows(STRANGER.len()).any(|part| part == STRANGER.as_bytes());
        // Whether there is no such node, or one without children: the answer to each takes as many bytes.
        if let Some(answer) = reply.get_mut(answered..answered + refused.len())
            && is_stranger
            && int(answer, 0) != -1
        {
            answer.copy_from_slice(&refused);
        }
        (asked, answered) = (asked + 13 + length + 1, answered + refused.len());
    }
    reply
}

/// How a node is made that stays, and one that goes with its session and has a number.
pub const PERSISTENT: i32 = 0;
pub const SEQUENTIAL: i32 = 3;

/// Creates a node without data.
pub fn create(path: &str, how: i32) -> Vec<u8> {
    let text = |text: &str| [&i32::try_from(text.len()).unwrap_or(0).to_be_bytes(), text.as_bytes()].concat();
    let all = [&1_i32.to_be_bytes()[..], &31_i32.to_be_bytes(), &text("world"), &text("anyone")].concat();
    request(1, path, &[&0_i32.to_be_bytes()[..], &all, &how.to_be_bytes()].concat())
}

fn request(operation: i32, path: &str, rest: &[u8]) -> Vec<u8> {
    let length = i32::try_from(path.len()).unwrap_or(i32::MAX);
    framed(&[&7_i32.to_be_bytes(), &operation.to_be_bytes(), &length.to_be_bytes(), path.as_bytes(), rest])
}

/// Deletes a node.
pub fn delete(path: &str) -> Vec<u8> {
    request(2, path, &(-1_i32).to_be_bytes())
}

/// Sets a node's data to nothing.
pub fn set_data(path: &str) -> Vec<u8> {
    request(5, path, &[(-1_i32).to_be_bytes(), (-1_i32).to_be_bytes()].concat())
}

/// Asks whether there is a node.
pub fn exists(path: &str) -> Vec<u8> {
    request(3, path, &[0])
}

/// The session that owns the node, out of the answer; 0 if there is no such node.
pub fn owner(reply: &[u8]) -> i64 {
    if int(reply, 16) == 0 { long(reply, 64) } else { 0 }
}

/// Whether what was sent at once has a request that creates a node.
pub fn creates(mut bytes: &[u8]) -> bool {
    while let Some(length) = length(bytes, false).filter(|length| (12..=bytes.len()).contains(length)) {
        if matches!(int(bytes, 8), 1 | 15) {
            return true;
        }
        bytes = &bytes[length..];
    }
    false
}

/// Whether a request names the record of a lock's slots.
fn names_record(request: &[u8]) -> bool {
    const SUFFIX: &[u8] = b".once";
    request.windows(SUFFIX.len()).any(|part| part == SUFFIX)
}

/// Whether what was sent at once has a transaction that records a slot.
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

/// Whether a request, without its length and number, reads the record of a lock's slots.
pub fn reads_record(body: &[u8]) -> bool {
    const GET_DATA: i32 = 4;
    int(body, 0) == GET_DATA && names_record(body)
}

/// Whether the first that is sent on a connection is a handshake.
pub fn connects(bytes: &[u8]) -> bool {
    bytes.len() > 4
}

/// Asks for the children of a node.
pub fn children(path: &str) -> Vec<u8> {
    request(8, path, &[0])
}

/// Asks for a node's data.
pub fn data(path: &str) -> Vec<u8> {
    request(4, path, &[0])
}

/// The data, out of the answer; `None` if there is no such node.
pub fn content(reply: &[u8]) -> Option<Vec<u8>> {
    if int(reply, 16) != 0 {
        return None;
    }
    let length = usize::try_from(int(reply, 20)).ok()?;
    reply.get(24..24 + length).map(<[u8]>::to_vec)
}

/// The version of the data, out of the answer with the data; `None` if there is no such node.
pub fn version(reply: &[u8]) -> Option<i32> {
    let data = usize::try_from(int(reply, 20)).unwrap_or(0);
    (int(reply, 16) == 0).then(|| int(reply, 24 + data + 32))
}

/// How often children of a node were created and deleted, out of the answer with its data.
pub fn changes_of_children(reply: &[u8]) -> i32 {
    let data = usize::try_from(int(reply, 20)).unwrap_or(0);
    if int(reply, 16) == 0 { int(reply, 24 + data + 36) } else { 0 }
}

/// The children, out of the answer; `None` if there is no such node.
pub fn names(reply: &[u8]) -> Option<Vec<String>> {
    if int(reply, 16) != 0 {
        return None;
    }
    let count = int(reply, 20);
    let mut at = 24;
    (0..count)
        .map(|_| {
            let length = usize::try_from(int(reply, at)).ok()?;
            let name = reply.get(at + 4..at + 4 + length)?;
            at += 4 + length;
            String::from_utf8(name.to_vec()).ok()
        })
        .collect()
}
