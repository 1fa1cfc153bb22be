//! Replies of honest servers pass unchanged, however they are split.

use super::super::{FrameValidator, Limits};
use super::messages::{bytes, connect, event, exchanges, greeting, reply, request};
use super::{TIMEOUT, answered, connected, drain};

const PING: i32 = -2;

/// Returns a conversation between a client and a server that contains every kind of request.
fn conversation() -> (Vec<u8>, Vec<u8>) {
    let (mut asked, mut said) = (connect(TIMEOUT), greeting(TIMEOUT, 1));
    for (exchange, xid) in exchanges().iter().zip(1..) {
        asked.extend(request(xid, exchange.op, &exchange.request));
        said.extend(reply(xid, 0, &exchange.reply));
        asked.extend(request(PING, 11, &bytes()));
        said.extend(reply(PING, 0, &bytes()));
        asked.extend(request(1000 + xid, exchange.op, &exchange.request));
        said.extend(reply(1000 + xid, -101, &bytes()));
        if exchange.request.0.ends_with(&[1]) {
            said.extend(event(2, "/locks/a"));
        }
    }
    (asked, said)
}

fn cut_at(cut: usize, asked: &[u8], said: &[u8]) {
    let mut validator = FrameValidator::new(Limits::default());
    let (head, tail) = asked.split_at(cut.min(asked.len()));
    validator.sent(head, 0);
    validator.sent(tail, 0);
    let (head, tail) = said.split_at(cut.min(said.len()));
    validator.received(head);
    let (mut read, end) = drain(&mut validator);
    assert_eq!(end, Ok(()), "cut at {cut}");
    assert!(head.starts_with(&read), "cut at {cut}");
    validator.received(tail);
    let (rest, end) = drain(&mut validator);
    read.extend(rest);
    assert_eq!(end, Ok(()), "cut at {cut}");
    assert!(read == said, "cut at {cut}");
}

#[test]
fn valid_replies_pass_unchanged_wherever_they_are_cut() {
    let (asked, said) = conversation();
    for cut in 0..=asked.len().max(said.len()) {
        cut_at(cut, &asked, &said);
    }
}

#[test]
fn valid_replies_pass_unchanged_byte_by_byte() {
    let (asked, said) = conversation();
    let mut validator = FrameValidator::new(Limits::default());
    for byte in asked {
        validator.sent(&[byte], 0);
    }
    let mut read = Vec::new();
    for byte in &said {
        validator.received(&[*byte]);
        let (next, end) = drain(&mut validator);
        assert_eq!(end, Ok(()));
        read.extend(next);
    }
    assert!(read == said);
}

#[test]
fn the_last_byte_of_a_frame_is_read_only_when_all_of_it_is_there() {
    let body = bytes().buffer(vec![b'x'; 5000]).stat();
    let mut validator = connected(&[request(1, 4, &bytes().buffer("/a").flag(false))]);
    let reply = reply(1, 0, &body);
    let mut read = 0;
    for (at, byte) in reply.iter().enumerate() {
        validator.received(&[*byte]);
        read += drain(&mut validator).0.len();
        assert!(read <= at || at + 1 == reply.len());
        // The reader receives the bytes of a frame as they arrive, so it can distinguish a slow
        // server from a dead one.
        assert!(read >= at || at < 20);
    }
    assert_eq!(read, reply.len());
}

#[test]
fn credentials_and_pings_overtake_other_requests_and_nothing_else_does() {
    let sync = |xid| request(xid, 9, &bytes().buffer("/a"));
    let auth = request(7, 100, &bytes().int(0).buffer("digest").buffer("a:b"));
    let requests = [sync(6), auth, sync(8), request(PING, 11, &bytes())];
    let synced = |xid| reply(xid, 0, &bytes().buffer("/a"));
    let said = [reply(7, 0, &bytes()), reply(PING, 0, &bytes()), synced(6), synced(8)].concat();
    assert_eq!(answered(&requests, &said), (said, Ok(())));
    super::assert_refused(&requests, &synced(8), "request 8, where a reply to request 6 is expected");
    super::assert_refused(&requests, &synced(9), "request 9, where a reply to request 6 is expected");
    super::assert_refused(&[], &reply(PING, 0, &bytes()), "where none is expected");
}

#[test]
fn answers_to_credentials_are_handed_on_behind_a_greeting_that_they_overtook() {
    let auth = |xid| request(xid, 100, &bytes().int(0).buffer("digest").buffer("a:b"));
    let login = request(8, 102, &bytes().buffer(""));
    let challenge = reply(8, 0, &bytes().buffer(super::lies::CHALLENGE));
    let synced = reply(9, 0, &bytes().buffer("/a"));
    let replies = [reply(7, 0, &bytes()), challenge].concat();
    let said = [&replies[..], &greeting(TIMEOUT, 1), &synced].concat();
    let asked = [connect(TIMEOUT), auth(7), login, request(9, 9, &bytes().buffer("/a"))].concat();
    for cut in 0..=said.len() {
        let mut validator = FrameValidator::new(Limits::default());
        validator.sent(&asked, 0);
        validator.received(&said[..cut]);
        let (mut read, _) = drain(&mut validator);
        validator.received(&said[cut..]);
        let (rest, end) = drain(&mut validator);
        read.extend(rest);
        assert_eq!(end, Ok(()), "cut at {cut}");
        assert!(read == [&greeting(TIMEOUT, 1)[..], &replies, &synced].concat(), "cut at {cut}");
    }
}

#[test]
fn an_early_answer_without_a_greeting_is_not_handed_on_and_a_lie_in_it_is_found_later() {
    let mut validator = FrameValidator::new(Limits::default());
    validator.sent(&connect(TIMEOUT), 0);
    validator.sent(&request(7, 100, &bytes().int(0).buffer("digest").buffer("a:b")), 0);
    // The connection can end here: the client has read nothing.
    validator.received(&reply(7, 0, &bytes().int(1)));
    assert_eq!(drain(&mut validator), (Vec::new(), Ok(())));
    validator.received(&greeting(TIMEOUT, 1));
    let (read, end) = drain(&mut validator);
    assert_eq!(read, greeting(TIMEOUT, 1));
    end.expect_err("an answer to credentials has no body");
}

#[test]
fn a_server_can_make_us_hold_few_answers_before_its_greeting() {
    let mut validator = FrameValidator::new(Limits::default());
    validator.sent(&connect(TIMEOUT), 0);
    validator.sent(&request(7, 100, &bytes().int(0).buffer("digest").buffer("a:b")), 0);
    validator.received(&reply(7, 0, &bytes()).repeat(100_000));
    assert_eq!(drain(&mut validator).0, b"");
    assert!(validator.failure().unwrap().to_string().contains("version 7 of the protocol"));
}

#[test]
fn ten_thousand_requests_can_be_in_flight() {
    let requests: Vec<_> = (1..=10_000).map(|xid| request(xid, 9, &bytes().buffer("/a"))).collect();
    let replies: Vec<_> = (1..=10_000).flat_map(|xid| reply(xid, 0, &bytes().buffer("/a"))).collect();
    let (read, end) = answered(&requests, &replies);
    assert_eq!(end, Ok(()));
    assert!(read == replies);
}

#[test]
fn a_session_may_have_ended_whatever_its_time_out() {
    let mut validator = FrameValidator::new(Limits::default());
    validator.sent(&connect(TIMEOUT), 0);
    validator.received(&greeting(0, 0));
    assert_eq!(drain(&mut validator), (greeting(0, 0), Ok(())));
}

#[test]
fn servers_before_3_4_do_not_say_whether_they_can_only_be_read() {
    let mut validator = FrameValidator::new(Limits::default());
    validator.sent(&connect(TIMEOUT), 0);
    let greeting = bytes().int(0).int(TIMEOUT).long(1).buffer([7; 16]).frame();
    validator.received(&greeting);
    assert_eq!(drain(&mut validator), (greeting, Ok(())));
}

#[test]
fn a_question_in_four_letters_has_a_short_answer() {
    let mut validator = FrameValidator::new(Limits::default());
    validator.sent(b"isro", 0);
    validator.received(b"r");
    validator.received(b"w");
    assert_eq!(drain(&mut validator), (b"rw".to_vec(), Ok(())));
    validator.received(&[b'w'; 63]);
    let (read, end) = drain(&mut validator);
    assert_eq!(read, b"");
    end.unwrap_err();
}
