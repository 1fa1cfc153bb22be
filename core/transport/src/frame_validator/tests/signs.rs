//! Tests for the evidence that the server has received something from the client. The validator
//! takes this evidence from replies.

use super::messages::{bytes, connect, greeting, reply, request};
use super::{TIMEOUT, drain};
use crate::frame_validator::{ContactEvidence, FrameValidator, Limits};

const PING: i32 = -2;
const AUTH: i32 = -4;

/// Sends these requests in a session, one millisecond apart.
fn asked(requests: &[(i32, i32)]) -> FrameValidator {
    let mut validator = FrameValidator::new(Limits::default());
    validator.sent(&connect(TIMEOUT), 1);
    validator.received(&greeting(TIMEOUT, 1));
    assert_eq!(
        validator.heard(),
        Some(ContactEvidence::Greeting { sent: 1, timeout: 10_000, has_password: true })
    );
    for (sent, (xid, op)) in (2..).zip(requests) {
        let body = if *op == 100 { bytes().int(0).buffer("digest").buffer("a:b") } else { bytes() };
        validator.sent(&request(*xid, *op, &body), sent);
    }
    validator
}

#[test]
fn an_answer_tells_when_its_request_was_sent() {
    let mut validator = asked(&[(1, 2), (2, 2), (3, 2)]);
    assert_eq!(validator.heard(), None);
    validator.received(&reply(1, 0, &bytes()));
    assert_eq!(validator.heard(), Some(ContactEvidence::Request { sent: 2 }));
    assert_eq!(validator.heard(), None);
    // A failure is also a reply. If two replies arrive together, the later request is the better
    // evidence.
    validator.received(&[reply(2, -101, &bytes()), reply(3, 0, &bytes())].concat());
    assert_eq!(validator.heard(), Some(ContactEvidence::Request { sent: 4 }));
    drain(&mut validator).1.unwrap();
}

#[test]
fn pings_tell_it_in_their_order() {
    let mut validator = asked(&[(PING, 11), (PING, 11), (1, 2)]);
    validator.received(&reply(PING, 0, &bytes()));
    assert_eq!(validator.heard(), Some(ContactEvidence::Request { sent: 2 }));
    validator.received(&reply(PING, 0, &bytes()));
    assert_eq!(validator.heard(), Some(ContactEvidence::Request { sent: 3 }));
}

#[test]
fn credentials_are_no_sign_of_life() {
    let mut validator = asked(&[(AUTH, 100)]);
    validator.received(&reply(AUTH, 0, &bytes()));
    assert_eq!((drain(&mut validator).1, validator.heard()), (Ok(()), None));
}

#[test]
fn a_handshake_that_found_no_session_tells_nothing() {
    let mut validator = FrameValidator::new(Limits::default());
    validator.sent(&connect(TIMEOUT), 1);
    validator.received(&greeting(0, 0));
    assert_eq!((drain(&mut validator).1, validator.heard()), (Ok(()), None));
}

#[test]
fn a_session_without_a_password_cannot_be_restored() {
    let mut validator = FrameValidator::new(Limits::default());
    validator.sent(&connect(TIMEOUT), 1);
    // ClickHouse Keeper replies like this: the password is all zeros, and nothing follows it.
    validator.received(&bytes().int(0).int(TIMEOUT).long(3).buffer([0; 16]).frame());
    assert_eq!(
        validator.heard(),
        Some(ContactEvidence::Greeting { sent: 1, timeout: 10_000, has_password: false })
    );
}
