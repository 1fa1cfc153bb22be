//! Tests for the bytes that the validator accepts, and for the bytes that it refuses.

mod conversation;
mod grammar;
mod large;
mod lies;
mod messages;
mod signs;

use super::{FrameValidator, Limits, Malformed};
use messages::{connect, greeting};

const TIMEOUT: i32 = 10_000;

/// Returns all bytes that can be read now.
fn drain(validator: &mut FrameValidator) -> (Vec<u8>, Result<(), Malformed>) {
    let (mut all, mut out) = (Vec::new(), [0; 1000]);
    loop {
        match validator.take(&mut out) {
            Ok(0) => return (all, Ok(())),
            Ok(count) => all.extend_from_slice(&out[..count]),
            Err(malformed) => return (all, Err(malformed)),
        }
    }
}

/// Returns a validator whose connection has a session and has sent these requests.
fn connected_with(limits: Limits, requests: &[Vec<u8>]) -> FrameValidator {
    let mut validator = FrameValidator::new(limits);
    validator.sent(&connect(TIMEOUT), 0);
    for request in requests {
        validator.sent(request, 0);
    }
    let greeting = greeting(TIMEOUT, 1);
    validator.received(&greeting);
    assert_eq!(drain(&mut validator), (greeting, Ok(())));
    validator
}

fn connected(requests: &[Vec<u8>]) -> FrameValidator {
    connected_with(Limits::default(), requests)
}

/// Returns the result of these bytes from the server.
fn answered(requests: &[Vec<u8>], replies: &[u8]) -> (Vec<u8>, Result<(), Malformed>) {
    let mut validator = connected(requests);
    validator.received(replies);
    drain(&mut validator)
}

/// Asserts that these bytes close the connection with an error that contains `why`, and that no
/// byte of them is read.
fn assert_refused(requests: &[Vec<u8>], replies: &[u8], why: &str) {
    let (read, end) = answered(requests, replies);
    let Err(malformed) = end else { panic!("{replies:?} passed") };
    assert!(malformed.to_string().contains(why), "{malformed}: not {why}");
    assert_eq!(read, b"");
}
