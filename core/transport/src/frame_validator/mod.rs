//! Validates a server's replies before the client crate reads them. This is necessary because the
//! client crate trusts its input: it allocates as much as a length field announces, and it panics,
//! loops or reads freed memory on replies that no honest server sends (`docs/upstream.md` has the
//! list).
//!
//! A [`FrameValidator`] belongs to one connection. It receives a copy of all written bytes, and all
//! bytes that arrive. So it knows which requests were sent, and which form each reply must have. It
//! passes on only well-formed replies, and closes the connection if a reply is malformed. If a
//! well-formed reply is too large to keep, only its request fails ([`TooLarge`]).
//!
//! The validator does no I/O. It stores only the frame that is arriving and a few bytes for each
//! request in flight.

mod challenge;
mod event;
mod greeting;
mod in_flight;
mod inbox;
mod malformed;
mod multi;
mod outbox;
mod parts;
mod reply;
mod request;
#[cfg(test)]
mod tests;
mod too_large;

use greeting::Granted;
use in_flight::{Asked, InFlight};
use inbox::{FrameBuffer, HEAD};
pub(crate) use malformed::Malformed;
use outbox::Outbox;
use request::{ReplyShape, WatchAllowance};
pub use too_large::TooLarge;
use zklock_jute::Reader;

/// The `xid` of events.
const EVENT: i32 = -1;

/// Error code with which a server refuses credentials.
const AUTH_FAILED: i32 = -115;

/// Lowest error code of a server. No error code is positive.
const LEAST_ERROR: i32 = -1023;

/// Maximum length of the reply to a four-letter word.
const LONGEST_LINE: usize = 64;

/// Lowest permitted `max_frame`. Every reply fits into it, except lists and data of nodes.
const LEAST_FRAME: usize = 64 << 10;

/// Limits on the memory that a server can make the client use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Longest frame, in bytes. A list can have one name per 256 bytes of this limit.
    pub max_frame: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { max_frame: 16 << 20 }
    }
}

/// Validates the bytes that a server sends on one connection.
#[derive(Debug)]
pub(crate) struct FrameValidator {
    max_frame: usize,
    expects: Expects,
    outbox: Outbox,
    in_flight: InFlight,
    watches: WatchAllowance,
    inbox: FrameBuffer,
    /// Replies that arrived before the greeting.
    early: Vec<u8>,
    /// Newest evidence that the server has received something from this client. `None` if there is
    /// no new evidence since the last report.
    heard: Option<ContactEvidence>,
    failure: Option<Malformed>,
}

/// Evidence, from a reply, that the server has received something from this client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ContactEvidence {
    /// The reply to the handshake that was sent at time `sent`. `timeout` is the session timeout in
    /// milliseconds. `has_password` is `true` if the session has a password.
    Greeting { sent: u64, timeout: u64, has_password: bool },
    /// The reply to a request that was sent at time `sent`.
    Request { sent: u64 },
}

/// The kind of bytes that the server must send next.
#[derive(Clone, Copy, Debug)]
enum Expects {
    /// No bytes, because the client has not sent a request yet.
    Nothing,
    /// A line of text.
    Line {
        left: usize,
    },
    /// The reply to the request for a session. `asked` is the timeout that the client requested.
    Greeting {
        asked: i32,
        sent: u64,
    },
    Replies,
}

impl FrameValidator {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            max_frame: limits.max_frame.max(LEAST_FRAME),
            expects: Expects::Nothing,
            outbox: Outbox::default(),
            in_flight: InFlight::default(),
            watches: WatchAllowance::default(),
            inbox: FrameBuffer::default(),
            early: Vec::new(),
            heard: None,
            failure: None,
        }
    }

    /// Records bytes that were sent to the server, not before `now`.
    pub(crate) fn sent(&mut self, mut bytes: &[u8], now: u64) {
        if matches!(self.expects, Expects::Nothing) {
            // The client crate sends this four-letter word to ask whether a server is writable. It
            // must not be read as a length, which would be 1.7 GB.
            if bytes.starts_with(b"isro") {
                self.expects = Expects::Line { left: LONGEST_LINE };
            } else if let Some(frame) = self.outbox.next(&mut bytes) {
                self.expects = Expects::Greeting { asked: greeting::asked(&frame), sent: now };
            }
        }
        if matches!(self.expects, Expects::Greeting { .. } | Expects::Replies) {
            while let Some(frame) = self.outbox.next(&mut bytes) {
                if let Some(request) = request::Request::parse(&frame) {
                    self.watches.add(request.watches);
                    self.in_flight.sent(request, now);
                }
            }
        }
    }

    /// Validates bytes that arrived from the server.
    pub(crate) fn received(&mut self, bytes: &[u8]) {
        if self.failure.is_some() {
            return;
        }
        self.inbox.push(bytes);
        loop {
            match self.check_next() {
                Ok(true) => {}
                Ok(false) => return,
                Err(malformed) => {
                    self.inbox.end();
                    self.failure = Some(malformed);
                    return;
                }
            }
        }
    }

    /// Moves validated bytes into `out`. Returns their number, or 0 if more bytes must arrive
    /// first.
    ///
    /// # Errors
    /// [`Malformed`] after all valid bytes were moved out. The connection cannot be used any
    /// further.
    pub(crate) fn take(&mut self, out: &mut [u8]) -> Result<usize, Malformed> {
        match (self.inbox.take(out), &self.failure) {
            (0, Some(malformed)) if !out.is_empty() => Err(malformed.clone()),
            (taken, _) => Ok(taken),
        }
    }

    /// Returns the reason if the connection must be closed.
    pub(crate) fn failure(&self) -> Option<&Malformed> {
        self.failure.as_ref()
    }

    /// Returns the newest evidence of contact with the server since the last call.
    pub(crate) fn heard(&mut self) -> Option<ContactEvidence> {
        self.heard.take()
    }

    /// Validates the next frame if enough of it has arrived. Returns `true` if the caller must
    /// continue with the frame after it.
    fn check_next(&mut self) -> Result<bool, Malformed> {
        let bytes = self.inbox.unchecked();
        if bytes.is_empty() {
            return Ok(false);
        }
        match self.expects {
            Expects::Nothing => {
                // A malformed message can arrive before or after the client's first bytes. Report
                // the same error in both cases.
                if let Some(prefix) = bytes.first_chunk() {
                    greeting::size(*prefix)?;
                }
                Err(Malformed::new("data that was not requested"))
            }
            Expects::Line { left } => {
                let size = bytes.len();
                let left = left.checked_sub(size).ok_or_else(|| Malformed::new("a line that is too long"))?;
                self.expects = Expects::Line { left };
                self.inbox.pass(size);
                Ok(false)
            }
            Expects::Greeting { asked, sent } => {
                let Some((prefix, rest)) = bytes.split_first_chunk() else { return Ok(false) };
                let size = greeting::size(*prefix)?;
                let Some(answer) = rest.get(..size) else { return Ok(false) };
                if self.is_early(answer) {
                    self.early.extend(self.inbox.remove(4 + size));
                    return Ok(true);
                }
                let granted = greeting::check(answer, asked)?;
                self.heard = granted.map(|Granted { timeout, has_password }| ContactEvidence::Greeting {
                    sent,
                    timeout,
                    has_password,
                });
                self.expects = Expects::Replies;
                self.inbox.pass(4 + size);
                self.inbox.insert(&std::mem::take(&mut self.early));
                Ok(true)
            }
            Expects::Replies => self.check_reply(),
        }
    }

    /// Returns `true` if this frame arrived before the greeting and must be passed on after it.
    ///
    /// This happens because a server replies to credentials as soon as it reads them, but grants
    /// the session only when its ensemble has agreed. The client crate expects the greeting first.
    /// Delaying the frame is safe, because it is validated like every other reply when it is passed
    /// on. All delayed frames together are shorter than `LEAST_FRAME`.
    fn is_early(&self, frame: &[u8]) -> bool {
        let xid = frame.first_chunk().map(|xid| i32::from_be_bytes(*xid));
        // The first four bytes of a greeting are 0, the protocol version. No request has this
        // number.
        xid.is_some_and(|xid| xid != 0 && self.in_flight.has_credentials(xid))
            && self.early.len() + frame.len() < LEAST_FRAME
    }

    fn check_reply(&mut self) -> Result<bool, Malformed> {
        let bytes = self.inbox.unchecked();
        let Some((head, rest)) = bytes.split_first_chunk::<HEAD>() else { return Ok(false) };
        let mut reader = Reader::new(head);
        let (length, xid) = (reader.int()?, reader.int()?);
        reader.long()?;
        let error = reader.int()?;
        let Some(size) = usize::try_from(length).ok().and_then(|length| length.checked_sub(HEAD - 4)) else {
            return Err(Malformed::new(format!("a reply of {length} bytes")));
        };
        if !(LEAST_ERROR..=0).contains(&error) {
            return Err(Malformed::new(format!("error {error}, which is not one of ZooKeeper's")));
        }
        if xid == EVENT {
            return self.check_event(size, error);
        }
        let kind = match self.in_flight.due(xid)? {
            Asked::Ping => None,
            Asked::Request(kind) => Some(kind),
        };
        let most_names = TooLarge::most_names(self.max_frame);
        let done = kind.filter(|_| error == 0);
        // Frames that can have any size are checked before all of their bytes have arrived.
        if let Some(kind) = done.filter(|kind| kind.may_be_large()) {
            let too_large = if size + HEAD - 4 > self.max_frame {
                Some(TooLarge::size(size + HEAD - 4))
            } else if kind.is_a_list() && size >= 4 {
                let Some(count) = rest.first_chunk() else { return Ok(false) };
                let count = usize::try_from(i32::from_be_bytes(*count)).unwrap_or(0);
                (count > most_names && count <= size / 5).then(|| TooLarge::names(count))
            } else {
                None
            };
            if let Some(too_large) = too_large {
                return Ok(self.fail(xid, size, too_large.code()));
            }
        } else if size > LEAST_FRAME {
            return Err(Malformed::new(format!(
                "a reply of {length} bytes to a request that has a short one"
            )));
        }
        let Some(body) = rest.get(..size) else {
            if !matches!(kind, Some(ReplyShape::Sasl)) {
                self.inbox.open();
            }
            return Ok(false);
        };
        match (kind, done) {
            (Some(ReplyShape::Sasl), Some(_)) => match Reader::new(body).buffer()? {
                Some(challenge) if challenge.len() + 4 == size => challenge::check(challenge)?,
                Some(_) => return Err(Malformed::new("bytes after a SASL challenge")),
                // Let the login fail. A server without SASL, or one that accepts any client, also
                // replies without an error, although the login did not succeed.
                None => return Ok(self.fail(xid, size, AUTH_FAILED)),
            },
            (_, Some(kind)) => reply::check(kind, body, most_names)?,
            // A server that refuses a login appends a token with the length -1, which means no
            // token.
            (Some(ReplyShape::Sasl), None) if body == (-1i32).to_be_bytes() => {}
            (_, None) if !body.is_empty() => return Err(Malformed::new("a failure with a body")),
            _ => {}
        }
        self.answered(xid);
        self.inbox.pass(HEAD + size);
        Ok(true)
    }

    fn check_event(&mut self, size: usize, error: i32) -> Result<bool, Malformed> {
        // The body consists of the kind, the state, and the path with its length field.
        if error != 0 || size.saturating_sub(12) > self.watches.longest {
            return Err(Malformed::new(format!("an event of {size} bytes, which matches no watch")));
        }
        let Some(body) = self.inbox.unchecked().get(HEAD..HEAD + size) else { return Ok(false) };
        event::check(body, &mut self.watches)?;
        self.inbox.pass(HEAD + size);
        Ok(true)
    }

    /// Replaces the next reply, whose body has `size` bytes, with a failure that has this error
    /// code.
    fn fail(&mut self, xid: i32, size: usize, error: i32) -> bool {
        let mut reply = [0; HEAD];
        reply.copy_from_slice(&self.inbox.unchecked()[..HEAD]);
        reply[..4].copy_from_slice(&[0, 0, 0, 16]);
        reply[HEAD - 4..].copy_from_slice(&error.to_be_bytes());
        self.answered(xid);
        self.inbox.replace(HEAD + size, reply);
        true
    }

    fn answered(&mut self, xid: i32) {
        let sent = self.in_flight.answered(xid);
        // Do not replace the evidence of a handshake before it was reported. A later reply provides
        // newer evidence than this one.
        if let Some(sent) = sent.filter(|_| !matches!(self.heard, Some(ContactEvidence::Greeting { .. }))) {
            self.heard = Some(ContactEvidence::Request { sent });
        }
    }
}
