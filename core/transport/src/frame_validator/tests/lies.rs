//! Bytes that no honest server sends close the connection.

use proptest::prelude::*;

use super::super::{FrameValidator, Limits};
use super::messages::{bytes, connect, event, exchanges, greeting, reply, request};
use super::{TIMEOUT, answered, assert_refused, drain, grammar};

/// Returns replacement values for a byte.
fn lies(byte: u8) -> impl Iterator<Item = u8> {
    [0, 1, 2, 3, 4, 8, 15, 16, b'/', 0x7f, 0x80, 0xc3, 0xff, byte ^ 1, byte ^ 0x10, byte.wrapping_add(1)]
        .into_iter()
        .filter(move |lie| *lie != byte)
}

#[test]
fn whatever_is_changed_in_a_reply_it_is_valid_or_ends_the_connection() {
    let (mut passed, mut refused) = (0, 0);
    for exchange in exchanges() {
        let requests = [request(1, exchange.op, &exchange.request)];
        let truth = reply(1, 0, &exchange.reply);
        // Returns `Some(true)` if this reply passes, `Some(false)` if it is refused, and `None` if
        // it could still become valid with more bytes.
        let judge = |lie: Vec<u8>| {
            let (read, end) = answered(&requests, &lie);
            let announced = i32::from_be_bytes(lie[..4].try_into().unwrap());
            let size = usize::try_from(announced).map_or(lie.len(), |size| size + 4);
            if size > lie.len() {
                assert!(read.len() < lie.len());
                return end.is_err().then_some(false);
            }
            let valid = grammar::accepts(&lie[..size], 1, exchange.grammar);
            assert_eq!(read, if valid { &lie[..size] } else { b"" }, "{}: {lie:?}: {end:?}", exchange.name);
            assert!(valid || end.is_err());
            Some(valid)
        };
        assert_eq!(judge(truth.clone()), Some(true), "{}", exchange.name);
        let mut all = Vec::new();
        for at in 0..truth.len() {
            for byte in lies(truth[at]) {
                let mut lie = truth.clone();
                lie[at] = byte;
                all.push(lie);
            }
            // Remove a byte, insert a byte, or truncate the frame. The length field is corrected
            // below.
            if at >= 20 {
                all.push([&truth[..at], &truth[at + 1..]].concat());
                all.push([&truth[..at], &[0], &truth[at..]].concat());
                all.push(truth[..at].to_vec());
            }
        }
        all.push([&truth[..], &[0]].concat());
        for mut lie in all {
            if lie.len() != truth.len() {
                let size = i32::try_from(lie.len() - 4).unwrap();
                lie[..4].copy_from_slice(&size.to_be_bytes());
            }
            match judge(lie) {
                Some(true) => passed += 1,
                Some(false) => refused += 1,
                None => {}
            }
        }
    }
    // Most changes are in numbers and names, where any value is valid.
    assert!(passed > 1000 && refused > 5000, "{passed} passed, {refused} refused");
}

#[test]
fn a_reply_has_a_sane_length_and_error() {
    let requests = [request(1, 9, &bytes().buffer("/a"))];
    for length in [-1, 0, 15, i32::MIN] {
        let lie = [&length.to_be_bytes()[..], &[0; 20]].concat();
        assert_refused(&requests, &lie, &format!("a reply of {length} bytes"));
    }
    for error in [1, -1024, i32::MIN, i32::MAX, -(1 << 30)] {
        assert_refused(&requests, &reply(1, error, &bytes()), "not one of ZooKeeper's");
    }
}

#[test]
fn frames_before_a_lie_are_read() {
    let requests = [request(1, 9, &bytes().buffer("/a")), request(2, 9, &bytes().buffer("/a"))];
    let honest = reply(1, 0, &bytes().buffer("/a"));
    let lie = reply(3, 0, &bytes().buffer("/a"));
    let (read, end) = answered(&requests, &[&honest[..], &lie, &honest].concat());
    assert_eq!(read, honest);
    end.unwrap_err();
}

#[test]
fn a_server_says_nothing_before_it_is_asked() {
    assert_eq!(unasked(&greeting(TIMEOUT, 1)), "it sent data that was not requested");
    // Too few bytes for a hint.
    assert_eq!(unasked(b"HTT"), "it sent data that was not requested");
}

fn greeted(greeting: &[u8]) -> String {
    let mut validator = FrameValidator::new(Limits::default());
    validator.sent(&connect(TIMEOUT), 0);
    refusal(validator, greeting)
}

/// Returns the error for a server that speaks first.
fn unasked(greeting: &[u8]) -> String {
    refusal(FrameValidator::new(Limits::default()), greeting)
}

fn refusal(mut validator: FrameValidator, arrives: &[u8]) -> String {
    validator.received(arrives);
    let (read, end) = drain(&mut validator);
    assert_eq!(read, b"");
    end.unwrap_err().to_string()
}

#[test]
fn a_session_has_a_sane_time_out() {
    for timeout in [0, 1, 99, -1, 24 * 24 * 60 * 60 * 1000, i32::MAX] {
        let why = greeted(&greeting(timeout, 1));
        assert!(why.contains(&format!("a session timeout of {timeout} ms")), "{why}");
    }
    for (asked, granted) in [(50, 50), (i32::MAX, i32::MAX), (TIMEOUT, 100), (TIMEOUT, 86_400_000)] {
        let mut validator = FrameValidator::new(Limits::default());
        validator.sent(&connect(asked), 0);
        validator.received(&greeting(granted, 1));
        assert_eq!(drain(&mut validator).1, Ok(()), "{granted} for {asked}");
    }
}

#[test]
fn a_session_has_a_sane_password() {
    for password in [&[][..], &[7; 65]] {
        let greeting = bytes().int(0).int(TIMEOUT).long(1).buffer(password).flag(false).frame();
        assert!(greeted(&greeting).contains("password"));
    }
}

#[test]
fn what_is_no_zookeeper_server_is_called_what_it_may_be() {
    for (says, hint) in [
        (&b"\x15\x03\x03\0\x02\x02\x46"[..], "TLS"),
        (b"HTTP/1.1 400 Bad Request\r\n", "web server"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "is it one?"),
    ] {
        let why = greeted(says);
        assert!(why.contains(hint), "{why}");
        // Some servers send data before the client's request, some after it. The error must be the
        // same in both cases, because the client logs repeated failures only once while their error
        // stays the same.
        assert_eq!(unasked(says), why);
    }
}

#[test]
fn there_are_no_more_events_than_watches() {
    let watch = request(1, 4, &bytes().buffer("/locks/a").flag(true));
    let watched = [reply(1, 0, &bytes().buffer("").stat()), event(2, "/locks/a")].concat();
    let (read, end) = answered(std::slice::from_ref(&watch), &watched);
    assert_eq!((read, end), (watched.clone(), Ok(())));
    let (read, end) = answered(&[watch], &[&watched[..], &event(3, "/locks/a")].concat());
    assert_eq!(read, watched);
    end.unwrap_err();
}

#[test]
fn an_event_of_a_persistent_watch_has_a_limit_too() {
    let watch = request(1, 106, &bytes().buffer("/locks").int(1));
    let watched = reply(1, 0, &bytes().int(0));
    let event = event(1, &format!("/locks/{}", "a".repeat(1000)));
    let (read, end) = answered(std::slice::from_ref(&watch), &[&watched[..], &event].concat());
    assert_eq!((read, end), ([&watched[..], &event].concat(), Ok(())));
    // These events are refused because of their head, so no byte of the announced body is stored.
    for length in [100_000, i32::MAX] {
        let head = [&length.to_be_bytes()[..], &event[4..20]].concat();
        assert_refused(std::slice::from_ref(&watch), &head, "which matches no watch");
    }
}

#[test]
fn an_event_is_sane() {
    let watch = [request(1, 3, &bytes().buffer("/locks/aé").flag(true))];
    for lie in [
        event(0, "/locks/a"),
        event(5, "/locks/a"),
        // The client crate splits this path inside a character.
        event(3, "é"),
        event(3, ""),
        reply(-1, 0, &bytes().int(3).int(5).buffer("/locks/a")),
        // The client crate needs quadratic time to match this path.
        event(3, &"/a".repeat(10_000)),
        reply(-1, 0, &bytes().int(3).int(3).buffer("/locks/a").int(0)),
        reply(-1, 0, &bytes().int(3).int(3).buffer(b"/\xff")),
        // The client crate would end the session because of an event with an error.
        reply(-1, -112, &bytes().int(3).int(3).buffer("/locks/a")),
    ] {
        assert_refused(&watch, &lie, "");
    }
}

pub(super) const CHALLENGE: &str =
    r#"realm="zk-sasl-md5",nonce="x1/+=",charset=utf-8,algorithm=md5-sess,qop="auth,auth-int""#;

fn challenged(challenge: &[u8]) -> (Vec<u8>, Vec<u8>, Result<(), super::Malformed>) {
    let said = reply(1, 0, &bytes().buffer(challenge));
    let (read, end) = answered(&[request(1, 102, &bytes().buffer(""))], &said);
    (said, read, end)
}

#[test]
fn honest_challenges_pass() {
    for honest in [
        CHALLENGE,
        "rspauth=ea40f60335c427b5527b84dbabcdfffd",
        "realm=\"Zürich\", nonce=\"1\"",
        "a=b ,\r\n c=d",
    ] {
        let (said, read, end) = challenged(honest.as_bytes());
        assert_eq!((read, end), (said, Ok(())), "{honest}");
    }
}

#[test]
fn challenges_that_the_client_crate_loops_or_panics_on_do_not_pass() {
    let long = CHALLENGE.replace("zk", &"zk".repeat(1000));
    for lie in [
        r#"realm="\x\y""#,
        r#"realm="\é""#,
        r#"realm="a\"b""#,
        r#"realm="a"#,
        "realm",
        r#"="a""#,
        "realm=,nonce=1",
        r#"realm="a"b"#,
        "realm=\"a\u{7}\"",
        "",
        " ",
        "=",
        &long,
    ] {
        let (_, read, end) = challenged(lie.as_bytes());
        assert_eq!(read, b"", "{lie}");
        assert!(end.unwrap_err().to_string().contains("SASL"), "{lie}");
    }
    challenged(b"realm=\"\xff\"").2.unwrap_err();
}

#[test]
fn a_login_that_the_server_skips_has_failed() {
    let login = [request(1, 102, &bytes().buffer("")), request(2, 9, &bytes().buffer("/a"))];
    let behind = reply(2, 0, &bytes().buffer("/a"));
    let (read, end) = answered(&login, &[&reply(1, 0, &bytes().int(-1))[..], &behind].concat());
    assert_eq!((read, end), ([&reply(1, -115, &bytes())[..], &behind].concat(), Ok(())));
}

#[test]
fn a_refusal_of_a_login_passes() {
    let login = [request(1, 102, &bytes().buffer(""))];
    for body in [bytes(), bytes().int(-1)] {
        let refusal = reply(1, -115, &body);
        assert_eq!(answered(&login, &refusal), (refusal, Ok(())));
    }
    assert_refused(&login, &reply(1, -115, &bytes().buffer("x")), "a failure with a body");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_that_arrives_makes_it_panic_or_take_memory(
        which in proptest::sample::subsequence((0..exchanges().len()).collect::<Vec<_>>(), 1..6),
        honest in 0usize..6,
        garbage in proptest::collection::vec(any::<u8>(), 0..3000),
        framed: bool,
        cut in 1usize..500,
    ) {
        let exchanges = exchanges();
        let mut validator = FrameValidator::new(Limits::default());
        let (mut said, mut arrived) = (greeting(TIMEOUT, 1), 0);
        validator.sent(&connect(TIMEOUT), 0);
        for (index, xid) in which.iter().zip(1..) {
            validator.sent(&request(xid, exchanges[*index].op, &exchanges[*index].request), 0);
            if usize::try_from(xid).unwrap() <= honest {
                said.extend(reply(xid, 0, &exchanges[*index].reply));
            }
        }
        if framed {
            let next = i32::try_from(honest).unwrap() + 1;
            said.extend(reply(next, 0, &bytes().raw(garbage)));
        } else {
            said.extend(garbage);
        }
        for piece in said.chunks(cut) {
            validator.received(piece);
            arrived += piece.len();
            prop_assert!(validator.inbox.capacity() <= 2 * arrived + 64);
            if drain(&mut validator).1.is_err() {
                break;
            }
        }
    }
}
