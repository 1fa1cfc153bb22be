//! Tests of the whole state machine through its outputs.

use std::net::{IpAddr, Ipv4Addr};

use super::*;
use crate::access::Rule;
use crate::requests::{By, Create, Read, SetWatches};
use crate::watches::{Event, Kind};

const A: ConnectionId = ConnectionId(1);
const B: ConnectionId = ConnectionId(2);
const PEER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 40_000);

fn at(elapsed: u64) -> Time {
    Time { wall: 1_800_000_000_000, elapsed }
}

fn machine() -> Machine {
    Machine::new(Settings { seed: 42, ..Settings::default() }, at(0))
}

fn connect(session: i64, password: &[u8]) -> Connect {
    Connect { last_zxid: 0, timeout: 1000, session, password: password.to_vec(), knows_read_only: true }
}

/// Opens a connection and sends the connect request on it.
fn say_connect(machine: &mut Machine, id: ConnectionId, connect: Connect, now: Time) -> Vec<Output> {
    machine.connect(id, PEER);
    machine.receive(id, Inbound(ClientMessage::Connect(connect)), now);
    machine.take_outputs()
}

/// Creates a session on a new connection.
fn session(machine: &mut Machine, id: ConnectionId) -> (i64, [u8; 16]) {
    match &say_connect(machine, id, connect(0, &[]), at(0))[..] {
        [Output::Send(_, Message(Content::Connected { session, password, .. }))] => (*session, *password),
        other => panic!("{other:?}"),
    }
}

fn say(machine: &mut Machine, id: ConnectionId, op: Op, now: Time) -> Vec<Output> {
    machine.receive(id, Inbound(ClientMessage::Request(Request { xid: 9, op })), now);
    machine.take_outputs()
}

fn reply(outputs: &[Output]) -> Result<Body, i32> {
    match outputs.last() {
        Some(Output::Send(_, Message(Content::Reply { error: OK, body, .. }))) => Ok(body.clone()),
        Some(Output::Send(_, Message(Content::Reply { error, .. }))) => Err(*error),
        other => panic!("{other:?}"),
    }
}

fn create(path: &str, flags: i32) -> Op {
    let acl = vec![Rule { perms: access::ALL, who: Identity::new("world", "anyone") }];
    Op::Write(Write::Create(Create {
        by: By::Create,
        path: path.to_owned(),
        data: None,
        acl,
        flags,
        ttl: -1,
    }))
}

fn delete(path: &str) -> Op {
    Op::Write(Write::Delete { path: path.to_owned(), version: -1 })
}

fn exists(path: &str, watch: bool) -> Op {
    Op::Read(Read::Exists { path: path.to_owned(), watch })
}

fn events(outputs: &[Output]) -> Vec<(ConnectionId, Event, &str)> {
    let event = |output| match output {
        &Output::Send(id, Message(Content::Event { event, ref path, .. })) => {
            Some((id, event, path.as_str()))
        }
        _ => None,
    };
    outputs.iter().filter_map(event).collect()
}

#[test]
fn time_outs_are_clamped_and_zxids_begin_with_the_clock() {
    let mut machine = machine();
    for (asked, given) in [(1, 200), (5000, 5000), (1_000_000, 60_000), (-1, 200)] {
        let outputs = say_connect(&mut machine, A, Connect { timeout: asked, ..connect(0, &[]) }, at(0));
        let [Output::Send(_, Message(Content::Connected { timeout, read_only, .. }))] = outputs[..] else {
            panic!("{outputs:?}")
        };
        assert_eq!((timeout, read_only), (given, Some(false)));
    }
    assert_eq!(machine.zxid, (1_800_000_000_000 << 20) + 4);
}

#[test]
fn a_session_is_resumed_and_the_old_connection_kicked() {
    let mut machine = machine();
    let (id, password) = session(&mut machine, A);
    say(&mut machine, A, create("/e", 1), at(0));
    let outputs = say_connect(&mut machine, B, connect(id, &password), at(10));
    assert_eq!(outputs[0], Output::Close(A));
    let Output::Send(B, Message(Content::Connected { session, timeout: 1000, .. })) = outputs[1] else {
        panic!("{outputs:?}")
    };
    assert_eq!(session, id);
    assert!(reply(&say(&mut machine, B, exists("/e", false), at(20))).is_ok());
    assert_eq!(say(&mut machine, A, exists("/e", false), at(20)), []);
}

#[test]
fn a_wrong_password_or_an_unknown_session_is_refused() {
    let mut machine = machine();
    let (id, password) = session(&mut machine, A);
    for (id, password) in [(id, [0; 16]), (id + 1, password)] {
        let outputs = say_connect(&mut machine, B, connect(id, &password), at(10));
        let refused =
            Content::Connected { timeout: 0, session: 0, password: [0; 16], read_only: Some(false) };
        assert_eq!(outputs[outputs.len() - 2..], [Output::Send(B, Message(refused)), Output::Close(B)]);
    }
}

#[test]
fn a_client_from_the_future_is_refused_without_a_word() {
    let mut machine = machine();
    let last_zxid = machine.zxid + 1;
    let outputs = say_connect(&mut machine, A, Connect { last_zxid, ..connect(0, &[]) }, at(0));
    assert_eq!(outputs, [Output::Close(A)]);
}

#[test]
fn an_expired_session_takes_its_nodes_along() {
    let mut machine = machine();
    session(&mut machine, A);
    session(&mut machine, B);
    say(&mut machine, A, create("/e", 1), at(50));
    assert!(reply(&say(&mut machine, A, exists("/e", true), at(50))).is_ok());
    assert!(reply(&say(&mut machine, B, exists("/e", true), at(900))).is_ok());
    assert_eq!(machine.next_tick(), 1100);
    machine.tick(at(1099));
    assert_eq!(machine.take_outputs(), []);
    machine.tick(at(1100));
    let outputs = machine.take_outputs();
    // The session's own client only sees the connection close.
    assert_eq!(outputs[0], Output::Close(A));
    assert_eq!(events(&outputs), [(B, Event::Deleted, "/e")]);
    assert_eq!(reply(&say(&mut machine, B, exists("/e", false), at(1100))), Err(Code::NoNode.number()));
}

#[test]
fn a_closed_session_takes_its_nodes_along_and_is_answered() {
    let mut machine = machine();
    let (id, password) = session(&mut machine, A);
    say(&mut machine, A, create("/e", 1), at(0));
    let outputs = say(&mut machine, A, Op::CloseSession, at(0));
    assert_eq!((reply(&outputs[..1]), &outputs[1]), (Ok(Body::Nothing), &Output::Close(A)));
    let outputs = say_connect(&mut machine, B, connect(id, &password), at(0));
    assert_eq!(outputs.last(), Some(&Output::Close(B)));
}

#[test]
fn events_come_before_the_reply() {
    let mut machine = machine();
    session(&mut machine, A);
    assert_eq!(reply(&say(&mut machine, A, exists("/a", true), at(0))), Err(Code::NoNode.number()));
    let outputs = say(&mut machine, A, create("/a", 0), at(0));
    assert_eq!(events(&outputs), [(A, Event::Created, "/a")]);
    assert_eq!(reply(&outputs), Ok(Body::Path("/a".to_owned())));
}

#[test]
fn a_transaction_has_one_number_and_a_refusal_has_one_too() {
    let mut machine = machine();
    session(&mut machine, A);
    let zxid = |outputs: &[Output]| match outputs {
        [.., Output::Send(_, Message(Content::Reply { zxid, .. }))] => *zxid,
        other => panic!("{other:?}"),
    };
    let before = machine.zxid;
    let writes = ["/a", "/b"].map(|path| match create(path, 0) {
        Op::Write(write) => write,
        _ => unreachable!(),
    });
    assert_eq!(zxid(&say(&mut machine, A, Op::Multi(writes.to_vec()), at(0))), before + 1);
    assert_eq!(zxid(&say(&mut machine, A, create("/a", 0), at(0))), before + 2);
    assert_eq!(zxid(&say(&mut machine, A, exists("/a", false), at(0))), before + 2);
}

#[test]
fn who_may_not_read_is_not_told() {
    let mut machine = machine();
    session(&mut machine, A);
    session(&mut machine, B);
    let auth = Op::Auth { scheme: "digest".to_owned(), proof: b"ann:secret".to_vec() };
    assert_eq!(reply(&say(&mut machine, A, auth, at(0))), Ok(Body::Nothing));
    say(&mut machine, B, exists("/a", true), at(0));
    let acl = vec![Rule { perms: access::ALL, who: Identity::new("auth", "") }];
    let Op::Write(Write::Create(request)) = create("/a", 0) else { unreachable!() };
    let outputs = say(&mut machine, A, Op::Write(Write::Create(Create { acl, ..request })), at(0));
    assert_eq!((events(&outputs), reply(&outputs)), (vec![], Ok(Body::Path("/a".to_owned()))));
    assert_eq!(reply(&say(&mut machine, B, exists("/a", false), at(0))), Err(Code::NoAuth.number()));
}

#[test]
fn a_transaction_without_sense_takes_a_number_and_another_request_does_not() {
    let mut machine = machine();
    session(&mut machine, A);
    for (op, taken) in [(Op::MalformedMulti, 1), (Op::Malformed, 0)] {
        let before = machine.zxid;
        assert_eq!(reply(&say(&mut machine, A, op, at(0))), Err(Code::Marshalling.number()));
        assert_eq!(machine.zxid, before + taken);
    }
}

#[test]
fn unknown_operations_are_unimplemented() {
    let mut machine = machine();
    session(&mut machine, A);
    let outputs = say(&mut machine, A, Op::Unknown, at(0));
    assert_eq!(reply(&outputs[..1]), Err(Code::Unimplemented.number()));
    assert_eq!(outputs[1], Output::Close(A));
}

#[test]
fn watches_end_with_their_connection_and_are_set_again() {
    let mut machine = machine();
    let (id, password) = session(&mut machine, A);
    say(&mut machine, A, create("/a", 0), at(0));
    say(&mut machine, A, exists("/a", true), at(0));
    machine.disconnect(A);
    say_connect(&mut machine, B, connect(id, &password), at(0));
    let check = || Op::CheckWatches { path: "/a".to_owned(), kind: Kind::Data };
    assert_eq!(reply(&say(&mut machine, B, check(), at(0))), Err(Code::NoWatcher.number()));
    let set = SetWatches { seen: machine.zxid, data: vec!["/a".to_owned()], ..SetWatches::default() };
    assert_eq!(reply(&say(&mut machine, B, Op::SetWatches(set), at(0))), Ok(Body::Nothing));
    assert_eq!(reply(&say(&mut machine, B, check(), at(0))), Ok(Body::Nothing));
    assert_eq!(events(&say(&mut machine, B, delete("/a"), at(0))), [(B, Event::Deleted, "/a")]);
}

#[test]
fn empty_containers_are_reaped() {
    let mut machine = machine();
    session(&mut machine, A);
    let Op::Write(Write::Create(request)) = create("/c", 4) else { unreachable!() };
    let container = Write::Create(Create { by: By::CreateContainer, ..request });
    say(&mut machine, A, Op::Write(container), at(0));
    say(&mut machine, A, create("/c/x", 0), at(0));
    say(&mut machine, A, delete("/c/x"), at(59_500));
    say(&mut machine, A, exists("/c", true), at(59_500));
    machine.tick(at(60_000));
    assert_eq!(events(&machine.take_outputs()), [(A, Event::Deleted, "/c")]);
}

#[test]
fn a_login_is_answered_without_a_token() {
    let mut machine = machine();
    session(&mut machine, A);
    let outputs = say(&mut machine, A, Op::Login, at(0));
    let body = Body::Number(NO_TOKEN);
    assert_eq!(outputs, [Output::Send(A, Message(Content::Reply { xid: 9, zxid: 0, error: OK, body }))]);
    assert!(reply(&say(&mut machine, A, exists("/", false), at(0))).is_ok());
}

#[test]
fn a_word_tells_which_session_watches_what() {
    let mut machine = machine();
    let watcher = session(&mut machine, A);
    say(&mut machine, A, exists("/watched", true), at(0));
    machine.connect(B, PEER);
    machine.receive(B, Inbound(ClientMessage::Word(Word::Wchp)), at(0));
    let outputs = machine.take_outputs();
    let Output::Send(_, Message(Content::Text(text))) = &outputs[0] else { panic!("{outputs:?}") };
    assert_eq!(*text, format!("/watched\n\t{:#x}\n", watcher.0));
}

#[test]
fn a_word_tells_which_session_owns_what() {
    let mut machine = machine();
    let owner = session(&mut machine, A);
    say(&mut machine, A, create("/owned", 1), at(0));
    machine.connect(B, PEER);
    machine.receive(B, Inbound(ClientMessage::Word(Word::Dump)), at(0));
    let outputs = machine.take_outputs();
    let Output::Send(_, Message(Content::Text(text))) = &outputs[0] else { panic!("{outputs:?}") };
    assert!(text.ends_with(&format!("Sessions with Ephemerals (1):\n{:#x}:\n\t/owned\n", owner.0)), "{text}");
}

#[test]
fn words_are_answered_and_end_the_connection() {
    for (word, begin) in [
        (Word::Ruok, "imok"),
        (Word::Srvr, "Zookeeper version: 3.9."),
        (Word::Stat, "Zookeeper version: 3.9."),
        (Word::Mntr, "zk_version\t3.9."),
        (Word::Cons, " /127.0.0.1:40000[0](queued=0,recved=1,sent=0)\n\n"),
        (Word::Wchs, "0 connections watching 0 paths"),
        (Word::Envi, "Environment:\nzookeeper.version=3.9."),
    ] {
        let mut machine = machine();
        machine.connect(A, PEER);
        machine.receive(A, Inbound(ClientMessage::Word(word)), at(0));
        let outputs = machine.take_outputs();
        let [Output::Send(_, Message(Content::Text(text))), Output::Close(A)] = &outputs[..] else {
            panic!("{outputs:?}")
        };
        assert!(text.starts_with(begin), "{text}");
    }
}
