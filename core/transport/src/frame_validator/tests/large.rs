//! A reply that is too large fails only its own request.

use super::super::{Limits, TooLarge};
use super::messages::{Bytes, bytes, reply, request};
use super::{assert_refused, connected, connected_with, drain};

const LIMITS: Limits = Limits { max_frame: 100_000 };

fn list(xid: i32) -> Vec<u8> {
    request(xid, 8, &bytes().buffer("/locks/a").flag(false))
}

fn names(count: i32, name: &str) -> Bytes {
    (0..count).fold(bytes().int(count), |all, _| all.buffer(name))
}

/// Sends `first` as the reply to the first of two requests, in pieces of this size. Returns the
/// bytes that the reader gets instead of `first`.
fn first_of_two(first: &[u8], piece: usize) -> Vec<u8> {
    let mut validator = connected_with(LIMITS, &[list(1), list(2)]);
    let second = reply(2, 0, &names(1, "x"));
    let mut read = Vec::new();
    for piece in [first, &second].concat().chunks(piece) {
        validator.received(piece);
        let (next, end) = drain(&mut validator);
        assert_eq!(end, Ok(()));
        read.extend(next);
        assert!(validator.inbox.capacity() < 3 * 64 * 1024);
    }
    assert!(read.ends_with(&second));
    read.truncate(read.len() - second.len());
    read
}

fn error(frame: &[u8]) -> i32 {
    assert_eq!(frame[..8], [0, 0, 0, 16, 0, 0, 0, 1]);
    i32::from_be_bytes(frame[16..].try_into().unwrap())
}

#[test]
fn a_reply_that_is_too_large_fails_its_request_alone() {
    let large = reply(1, 0, &names(1000, &"x".repeat(200)));
    for piece in [1, 7, 1000, usize::MAX] {
        let read = first_of_two(&large, piece.min(50_000));
        assert_eq!(TooLarge::from_code(error(&read)), Some(TooLarge::Size { kib: 200 }), "{piece}");
    }
}

#[test]
fn a_list_of_too_many_names_fails_its_request_alone() {
    let many = reply(1, 0, &names(2000, "x"));
    for piece in [1, 7, 1000, 50_000] {
        let read = first_of_two(&many, piece);
        assert_eq!(TooLarge::from_code(error(&read)), Some(TooLarge::Names { count: 2000 }), "{piece}");
    }
}

#[test]
fn data_that_is_too_large_fails_its_request_alone() {
    let mut validator = connected_with(LIMITS, &[request(1, 4, &bytes().buffer("/a").flag(true))]);
    validator.received(&reply(1, 0, &bytes().buffer(vec![0; 200_000]).stat()));
    let (read, end) = drain(&mut validator);
    assert_eq!((error(&read), end), (TooLarge::Size { kib: 196 }.code(), Ok(())));
}

#[test]
fn a_reply_that_is_too_large_is_announced_as_it_goes_by() {
    let mut validator = connected_with(LIMITS, &[list(1)]);
    validator.received(&[417_000_000i32.to_be_bytes(), 1i32.to_be_bytes()].concat());
    validator.received(&[0; 12]);
    let (piece, mut read, mut silent) = (vec![0; 1_000_000], Vec::new(), 0);
    for megabyte in 0..417 {
        let (next, end) = drain(&mut validator);
        assert_eq!(end, Ok(()));
        silent = if next.is_empty() { silent + 1 } else { 0 };
        assert!(silent < 24, "no sign of life for {silent} MB");
        read.extend(next);
        assert!(read.len() < 20, "read to the end after {megabyte} MB");
        validator.received(&piece);
    }
    let (rest, end) = drain(&mut validator);
    read.extend(rest);
    assert_eq!((error(&read), end), (TooLarge::Size { kib: 407_227 }.code(), Ok(())));
    assert!(validator.inbox.capacity() <= 64 * 1024);
}

#[test]
fn memory_grows_with_what_arrives_and_not_with_what_is_announced() {
    let mut validator = connected(&[list(1)]);
    validator.received(&[16_000_000i32.to_be_bytes(), 1i32.to_be_bytes()].concat());
    validator.received(&[0; 12]);
    validator.received(&100_000i32.to_be_bytes());
    validator.received(&[0; 1000]);
    assert!(validator.inbox.capacity() < 10_000, "{}", validator.inbox.capacity());
}

#[test]
fn memory_is_given_back() {
    let mut validator = connected(&[list(1)]);
    validator.received(&reply(1, 0, &names(60_000, "0123456789")));
    assert!(validator.inbox.capacity() > 500_000);
    assert_eq!(drain(&mut validator).0.len(), 20 + 4 + 60_000 * 14);
    assert!(validator.inbox.capacity() <= 64 * 1024);
}

/// The reply is 24 bytes long. The client crate would allocate 51 GB for it.
#[test]
fn a_count_that_does_not_fit_ends_the_connection() {
    let lie = reply(1, 0, &bytes().int(i32::MAX));
    assert_eq!(lie.len(), 24);
    assert_refused(&[list(1)], &lie, "a list of 2147483647 elements, but only 0 bytes remain");
}

#[test]
fn a_write_has_no_large_reply() {
    let create = request(1, 15, &bytes().buffer("/a").buffer("").acl().int(3));
    let large = bytes().buffer(format!("/{}", "x".repeat(100_000))).stat();
    assert_refused(&[create], &reply(1, 0, &large), "a short one");
}

#[test]
fn no_failure_is_large() {
    assert_refused(&[list(1)], &reply(1, -101, &bytes().raw(vec![0; 100_000])), "a short one");
}

#[test]
fn what_a_code_stands_for_comes_back() {
    for kib in [0, 1, 407_227, 1 << 21] {
        let large = TooLarge::Size { kib };
        assert_eq!(TooLarge::from_code(large.code()), Some(large));
    }
    for count in [0, 1, 1_000_000, 1 << 28] {
        let large = TooLarge::Names { count };
        assert_eq!(TooLarge::from_code(large.code()), Some(large));
    }
    for code in [0, 1, -1, -101, -1023, i32::MIN, i32::MAX] {
        assert_eq!(TooLarge::from_code(code), None);
    }
}
