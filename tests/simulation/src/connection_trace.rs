//! The traffic of one connection as an observer of the network sees it: requests, replies and their
//! times.

use std::collections::{BTreeMap, VecDeque};

use crate::frame::{self, Kind};

/// A request without a reply so far.
#[derive(Debug)]
pub struct Asked {
    pub at: u64,
    pub kind: Kind,
    pub is_multi: bool,
    /// The nodes that a transaction of checks, e.g. a heartbeat, checks. Empty for other requests.
    pub checks: Vec<String>,
}

/// The traffic of one connection.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct ConnectionTrace {
    pub client: usize,
    /// Incomplete frames, to the server and to the client.
    pub rest: [Vec<u8>; 2],
    /// True if the next frame is a handshake. The first element is for frames to the server, the
    /// second for frames to the client.
    pub first: [bool; 2],
    /// Session that the client asked for, or 0 for a new one.
    pub wanted: i64,
    /// Session that the server gave to the client, or 0.
    pub session: i64,
    pub asked: BTreeMap<i32, Asked>,
    /// Time at which the handshake was sent.
    pub greeted: u64,
    /// All requests without a reply: xid, time and body.
    pub sent: VecDeque<(i32, u64, Vec<u8>)>,
    /// For each request with a reply, the times at which it was sent and answered.
    pub answered: Vec<(u64, u64)>,
    /// Time of the last reply that was not the reply to a ping.
    pub heard: u64,
    /// True if a violation was reported for the connection.
    pub accused: bool,
    /// Time at which the client last sent a write. Before the first write: time of the reply to its
    /// first ping, because the client crate sends no write earlier.
    pub wrote: Option<u64>,
    /// True if the client knows that a write was executed.
    pub proven: bool,
    /// Number of answered heartbeats.
    pub beats: usize,
    /// True if the server has answered the query for the nodes of the session.
    pub owned: bool,
    /// Time at which the client knew which session the connection serves.
    ///
    /// To know this, the client needs the replies to the query for the session's nodes and to two
    /// heartbeats. One heartbeat is not enough, because it can have been queued before the
    /// connection was made. The client then does not know on which connection it was sent.
    pub vouched: Option<u64>,
    /// True if the client wants a new session and must not use this connection any more.
    pub left: bool,
    /// Time at which the client learned that the server had replaced its session. A node that the
    /// client created then has another owner.
    pub foreign: Option<u64>,
}

impl ConnectionTrace {
    /// Returns `true` if the client knows which session the connection serves, and no query about
    /// that session is unanswered.
    pub fn knows_its_session(&self) -> bool {
        let asks = self.sent.iter().any(|(_, _, body)| frame::asks_who_owns(body));
        self.beats >= 2 && self.owned && !asks
    }

    /// Records the reply to the first request with this xid. Returns the request's body.
    pub fn is_answered(&mut self, number: i32, now: u64) -> Vec<u8> {
        let place = self.sent.iter().position(|(one, ..)| *one == number);
        let Some((_, sent, body)) = place.and_then(|place| self.sent.remove(place)) else {
            return Vec::new();
        };
        self.answered.push((sent, now));
        if number != frame::PING {
            self.heard = now;
        }
        body
    }

    /// Returns an upper limit of the time from which the client may count the term of a lease after
    /// a write that was sent at `sent`: see docs/safety.md, section *After a pause*. The result is
    /// rounded up, because the client's clock is more precise than milliseconds.
    pub fn counts_from(&self, sent: u64, timeout: u64) -> u64 {
        let reported = (sent + 1).saturating_sub(timeout * 3 / 16);
        let heard = self.answered.iter().rev().find(|(_, answered)| *answered <= reported);
        let heard = heard.map_or(self.greeted, |(sent, _)| *sent);
        sent.min(heard + timeout * 7 / 16 + 1)
    }

    /// Returns a lower limit of the same time.
    ///
    /// A client that was stopped notices a reply later than it arrives, and can then use an earlier
    /// time. Therefore the limit is valid only if the client was not stopped after the time in the
    /// second result (if there is one).
    pub fn counts_at_least_from(&self, sent: u64, timeout: u64) -> (u64, Option<u64>) {
        let reported = sent.saturating_sub(timeout * 3 / 16 + 1);
        // A client can forget a request that it sends within this time after another one.
        let spacing = timeout / 32 + 1;
        let heard = self.answered.iter().rev().find(|(_, answered)| *answered <= reported);
        let from = heard.map_or(self.greeted, |(sent, _)| sent.saturating_sub(spacing).max(self.greeted));
        (sent.min(from + timeout * 7 / 16), heard.map(|(_, answered)| *answered))
    }

    /// Ignores the check of the holder's node that is sent together with the read of a slot record.
    /// It is not a heartbeat, and the library draws no conclusion from it.
    pub fn ignore_check(&mut self, now: u64) {
        let same = |(_, asked): &(&i32, &mut Asked)| asked.at == now && asked.checks.len() == 1;
        let Some((number, asked)) = self.asked.iter_mut().rev().find(same) else { return };
        asked.checks.clear();
        for (_, _, body) in self.sent.iter_mut().filter(|(one, ..)| one == number) {
            body.clear();
        }
    }

    /// Returns the oldest unanswered request that lets the client give up the session, and the time
    /// since which the server has replied only to pings.
    pub fn is_deaf_since(&self) -> Option<(u64, &[u8])> {
        let mut asked = self.sent.iter().filter(|(number, ..)| *number != frame::PING);
        let (_, at, body) = asked.find(|(_, _, body)| frame::insists(body))?;
        Some((self.heard.max(*at), body))
    }

    /// Returns the frames that these bytes complete. A frame's flag is true if it is the first
    /// frame of the connection.
    pub fn frames(&mut self, direction: usize, bytes: &[u8]) -> Vec<(Vec<u8>, bool)> {
        let rest = &mut self.rest[direction];
        rest.extend_from_slice(bytes);
        let mut frames = Vec::new();
        while let Some(length) = frame::length(rest, false).filter(|length| rest.len() >= *length) {
            let first = std::mem::take(&mut self.first[direction]);
            frames.push((rest.drain(..length).collect(), first));
        }
        frames
    }
}
