//! Fuzzes the frame validator: conversations between a client and a server that sends arbitrary
//! data.
//!
//! The fuzzer's bytes choose the client's requests and the server's replies. All frames that the
//! validator passes on are checked against the grammar of the validator's own tests.

use std::collections::VecDeque;

use crate::allocations::Meter;
use crate::input::Input;

#[allow(dead_code, unused_imports, reason = "the transport uses all of it")]
#[path = "../../../core/transport/src/frame_validator/mod.rs"]
mod frame_validator;
#[allow(clippy::all, clippy::pedantic, reason = "the validator's own tests are checked there")]
#[path = "../../../core/transport/src/frame_validator/tests/grammar.rs"]
mod grammar;
#[allow(dead_code, clippy::all, clippy::pedantic, reason = "the validator's own tests are checked there")]
#[path = "../../../core/transport/src/frame_validator/tests/messages.rs"]
mod messages;

use frame_validator::{FrameValidator, Limits, TooLarge};
use messages::{Bytes, Exchange, bytes, connect, event, exchanges, greeting, reply, request};

const TIMEOUT: i32 = 10_000;

/// A small limit, so that replies reach it.
const MAX_FRAME: usize = 100_000;

/// Number of bytes that the validator always accepts in a reply, and before the server's greeting.
const LEAST_FRAME: usize = 64 << 10;

/// Maximum number of bytes that the server sends in one piece.
const PIECE: usize = 64 << 10;

/// Maximum ratio of a buffer's memory to its content. A growing buffer has up to twice the size of
/// its content. While it grows, the old and the new memory exist together. When the validator
/// replaces a reply, it also copies the data behind the reply.
const DOUBLING: usize = 4;

/// Number of bytes allocated for each request in flight.
const REQUEST: usize = 512;

const EVENT: i32 = -1;
const PING: i32 = -2;
const CREDENTIALS: i32 = 100;
const SASL: i32 = 102;

/// Runs a conversation that the bytes describe.
pub fn check(input: &[u8]) {
    let mut input = Input::new(input);
    let way = input.byte().unwrap_or(0);
    let mut talk = Conversation::new(way & 1 != 0);
    if way & 2 == 0 {
        talk.ask(&connect(TIMEOUT));
        talk.answer(&greeting(TIMEOUT, 1));
    }
    while let Some(step) = input.byte() {
        talk.step(step, &mut input);
    }
    talk.end();
}

/// A request without a reply so far.
struct Asked {
    xid: i32,
    op: i32,
    reply: Bytes,
    grammar: &'static str,
}

/// A connection, with its state outside the validator.
struct Conversation {
    meter: Meter,
    validator: FrameValidator,
    exchanges: Vec<Exchange>,
    /// True if the client reads after each step. Otherwise it reads only at the end.
    reads: bool,
    next_xid: i32,
    in_flight: VecDeque<Asked>,
    requests: usize,
    /// True if the client has written only complete requests from `exchanges`. Otherwise the
    /// replies cannot be checked.
    known: bool,
    asked: usize,
    sent: usize,
    largest: usize,
    handed_on: Vec<u8>,
    failed: bool,
}

impl Conversation {
    fn new(reads: bool) -> Self {
        let mut meter = Meter::new();
        let validator = meter.count(|| FrameValidator::new(Limits { max_frame: MAX_FRAME }));
        Self {
            meter,
            validator,
            exchanges: exchanges(),
            reads,
            next_xid: 1,
            in_flight: VecDeque::new(),
            requests: 0,
            known: true,
            asked: 0,
            sent: 0,
            largest: 0,
            handed_on: Vec::new(),
            failed: false,
        }
    }

    fn step(&mut self, step: u8, input: &mut Input<'_>) {
        match step % 12 {
            0 => self.request(input),
            1 => self.reply(<[u8]>::to_vec),
            2 => {
                let (at, byte) = (input.short(), input.below(256));
                self.reply(|honest| {
                    let mut lie = honest.to_vec();
                    let at = at % lie.len();
                    lie[at] = u8::try_from(byte).unwrap_or_default();
                    lie
                });
            }
            3 => {
                let body = input.bytes();
                self.reply(|honest| {
                    let xid = i32::from_be_bytes([honest[4], honest[5], honest[6], honest[7]]);
                    reply(xid, 0, &bytes().raw(body))
                });
            }
            4 => self.answer(input.bytes()),
            5 => {
                self.known = false;
                self.ask(input.bytes());
            }
            6 => {
                let (byte, size) = (input.below(256), input.short());
                self.answer(&vec![u8::try_from(byte).unwrap_or_default(); size]);
            }
            7 => {
                let kind = i32::try_from(input.below(6)).unwrap_or_default();
                self.answer(&event(kind, ["/locks/a", "/x", "", "relative"][input.below(4)]));
            }
            8 => self.ask(&request(PING, 11, &bytes())),
            9 => self.answer(&reply(PING, 0, &bytes().raw(input.bytes()))),
            10 => self.login(input.bytes()),
            _ => {
                // Announce an arbitrary size, but send only the first bytes of the reply.
                let size = i32::try_from(input.short() * input.short()).unwrap_or(i32::MAX);
                self.reply(|honest| [&size.to_be_bytes()[..], &honest[4..honest.len().min(24)]].concat());
            }
        }
    }

    fn request(&mut self, input: &mut Input<'_>) {
        let Exchange { op, request: body, reply, grammar, .. } =
            &self.exchanges[input.below(self.exchanges.len())];
        let asked = Asked { xid: self.next_xid, op: *op, reply: reply.clone(), grammar };
        let frame = request(asked.xid, asked.op, body);
        self.next_xid += 1;
        self.in_flight.push_back(asked);
        self.ask(&frame);
    }

    /// Begins a login with the server's challenge.
    fn login(&mut self, challenge: &[u8]) {
        let xid = self.next_xid;
        self.next_xid += 1;
        self.in_flight.push_back(Asked { xid, op: SASL, reply: bytes().buffer(challenge), grammar: "b" });
        self.ask(&request(xid, SASL, &bytes().buffer("")));
        self.reply(<[u8]>::to_vec);
    }

    /// Sends a changed version of the honest reply to the next request.
    fn reply(&mut self, lie: impl FnOnce(&[u8]) -> Vec<u8>) {
        let Some(asked) = self.in_flight.front() else { return };
        let answer = lie(&reply(asked.xid, 0, &asked.reply));
        self.answer(&answer);
        self.in_flight.rotate_left(1);
    }

    /// Writes bytes from the client.
    fn ask(&mut self, bytes: &[u8]) {
        self.asked += bytes.len();
        self.requests += 1;
        self.meter.count(|| self.validator.sent(bytes, 0));
        self.settle();
    }

    /// Sends bytes from the server, in pieces as a socket delivers them.
    fn answer(&mut self, bytes: &[u8]) {
        for piece in bytes.chunks(PIECE) {
            self.sent += piece.len();
            self.largest = self.largest.max(piece.len());
            self.meter.count(|| self.validator.received(piece));
            self.settle();
        }
    }

    fn settle(&mut self) {
        if self.reads {
            self.read();
        }
        // A client that reads leaves at most the current frame and one piece of data in the
        // validator. Otherwise the validator keeps all data that it has checked.
        let kept = if self.reads { MAX_FRAME + LEAST_FRAME + self.largest } else { self.sent };
        let limit = DOUBLING * (kept.min(self.sent) + self.asked) + REQUEST * (self.requests + 8);
        self.meter.assert_at_most(limit, "the frame validator");
    }

    fn read(&mut self) {
        let mut out = [0; 4096];
        loop {
            let had_failed = self.validator.failure().is_some();
            match self.meter.count(|| self.validator.take(&mut out)) {
                Ok(0) => return,
                Ok(size) => {
                    assert!(!self.failed, "something was handed on behind the end");
                    self.handed_on.extend_from_slice(&out[..size]);
                }
                Err(_) => {
                    assert!(had_failed);
                    self.failed = true;
                    return;
                }
            }
        }
    }

    fn end(mut self) {
        self.read();
        assert_eq!(self.failed, self.validator.failure().is_some());
        assert!(self.handed_on.len() <= self.sent, "more was handed on than came");
        if self.known && self.asked > 0 {
            self.judge();
        }
    }

    /// Checks that each complete frame that the validator passed on is a valid reply to its
    /// request.
    fn judge(&self) {
        let mut rest = &self.handed_on[..];
        let mut greeted = false;
        let mut ordered = 0;
        while let Some((length, _)) = rest.split_first_chunk() {
            let size = usize::try_from(i32::from_be_bytes(*length)).expect("a length");
            let Some(frame) = rest.get(..4 + size) else { return self.judge_rest(rest, size) };
            rest = &rest[4 + size..];
            if std::mem::replace(&mut greeted, true) {
                self.judge_reply(frame, &mut ordered);
            }
        }
    }

    /// Checks an incomplete frame, because the validator can pass on a frame before its last byte
    /// arrives.
    fn judge_rest(&self, rest: &[u8], size: usize) {
        assert!(rest.len() < 4 + size && size <= self.sent.max(MAX_FRAME), "{size} bytes were announced");
    }

    fn judge_reply(&self, frame: &[u8], ordered: &mut i32) {
        let int = |at: usize| i32::from_be_bytes([frame[at], frame[at + 1], frame[at + 2], frame[at + 3]]);
        assert!(frame.len() >= 20, "a head: {frame:?}");
        let (xid, error) = (int(4), int(16));
        if xid == EVENT {
            assert!(error == 0 && grammar::accepts(frame, EVENT, "iip"), "{frame:?}");
            return;
        }
        if xid == PING {
            assert!(grammar::accepts(frame, PING, ""), "{frame:?}");
            return;
        }
        let asked = self.in_flight.iter().find(|asked| asked.xid == xid).expect("it was asked for");
        if asked.op != CREDENTIALS && asked.op != SASL {
            assert!(xid > *ordered, "answers to {xid} and {ordered} in this order");
            *ordered = xid;
        }
        let (_, body) = frame.split_at(20);
        // The validator replaces replies that are too large. It also replaces a reply to a SASL
        // request that contains no token.
        let replaced = TooLarge::from_code(error).is_some() && body.is_empty();
        let refused = asked.op == SASL && error != 0 && (body.is_empty() || body == [0xff; 4]);
        let fits = replaced || refused || grammar::accepts(frame, xid, asked.grammar);
        assert!(fits, "{xid}, {}: {frame:?}", asked.grammar);
    }
}
