//! One connection, as somebody hears it who listens on the way: what was asked and answered on it, and when.

use std::collections::{BTreeMap, VecDeque};

use crate::frame::{self, Kind};

/// A request that is not answered yet.
#[derive(Debug)]
pub struct Asked {
    pub at: u64,
    pub kind: Kind,
    pub is_multi: bool,
    /// The nodes whose existence it checks, if it does nothing else.
    pub checks: Vec<String>,
}

/// What was said on one connection.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct Talk {
    pub client: usize,
    /// What has not become a whole frame yet, to the server and to the client.
    pub rest: [Vec<u8>; 2],
    /// Whether the next frame is part of a handshake, to the server and to the client.
    pub first: [bool; 2],
    /// The session that was asked for, and the one that was given; 0 for none.
    pub wanted: i64,
    pub session: i64,
    pub asked: BTreeMap<i32, Asked>,
    /// When its handshake was sent.
    pub greeted: u64,
    /// All requests that are not answered yet: their numbers, when they were sent, and what they ask for.
    pub sent: VecDeque<(i32, u64, Vec<u8>)>,
    /// When those were sent that are answered, and when they were answered.
    pub answered: Vec<(u64, u64)>,
    /// When anything but a ping was answered last.
    pub heard: u64,
    /// Whether something was wrong with it already.
    pub accused: bool,
    /// When the client last sent a write, or had its first ping answered: before that the client crate sends none.
    pub wrote: Option<u64>,
    /// Whether the client knows of a write that was carried out.
    pub proven: bool,
    /// How many heartbeats were answered, whether the question was whose session this is, and when the client knew both.
    /// One heartbeat may have waited for the connection: then it says nothing of it, as the client sees it.
    pub beats: usize,
    pub owned: bool,
    pub vouched: Option<u64>,
    /// Whether the client wants a new session, and so nothing of this connection any more.
    pub left: bool,
    /// When the client was told, by a node that it has created, that the session is not the one for which it asked.
    pub foreign: Option<u64>,
}

impl Talk {
    /// Whether the client was told whose session this is, and asks no more.
    pub fn knows_its_session(&self) -> bool {
        let asks = self.sent.iter().any(|(_, _, body)| frame::asks_who_owns(body));
        self.beats >= 2 && self.owned && !asks
    }

    /// The first request with this number is answered. Returns what it asked for.
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

    /// From when a write counts that was sent then: see docs/safety.md, *After a pause*. To the millisecond in which a
    /// clock that is not in whole milliseconds could allow it.
    pub fn counts_from(&self, sent: u64, timeout: u64) -> u64 {
        let reported = (sent + 1).saturating_sub(timeout * 3 / 16);
        let heard = self.answered.iter().rev().find(|(_, answered)| *answered <= reported);
        let heard = heard.map_or(self.greeted, |(sent, _)| *sent);
        sent.min(heard + timeout * 7 / 16 + 1)
    }

    /// The same to the millisecond in which it counts at least; and since when the client must have run for that: it notes
    /// when it hears an answer, which is later than it comes if it is stopped.
    pub fn counts_at_least_from(&self, sent: u64, timeout: u64) -> (u64, Option<u64>) {
        let reported = sent.saturating_sub(timeout * 3 / 16 + 1);
        // One that was sent a little before another may be all that is remembered of both.
        let spacing = timeout / 32 + 1;
        let heard = self.answered.iter().rev().find(|(_, answered)| *answered <= reported);
        let from = heard.map_or(self.greeted, |(sent, _)| sent.saturating_sub(spacing).max(self.greeted));
        (sent.min(from + timeout * 7 / 16), heard.map(|(_, answered)| *answered))
    }

    /// Leaves out the check that goes with a read of the record of slots. It is of the holder's node alone, at the same
    /// moment; it is no heartbeat, and the library concludes nothing from it.
    pub fn leaves_check_out(&mut self, now: u64) {
        let same = |(_, asked): &(&i32, &mut Asked)| asked.at == now && asked.checks.len() == 1;
        let Some((number, asked)) = self.asked.iter_mut().rev().find(same) else { return };
        asked.checks.clear();
        for (_, _, body) in self.sent.iter_mut().filter(|(one, ..)| one == number) {
            body.clear();
        }
    }

    /// Since when nothing is answered but pings, and what was asked for before that for which a session is given up.
    pub fn is_deaf_since(&self) -> Option<(u64, &[u8])> {
        let mut asked = self.sent.iter().filter(|(number, ..)| *number != frame::PING);
        let (_, at, body) = asked.find(|(_, _, body)| frame::insists(body))?;
        Some((self.heard.max(*at), body))
    }

    /// The frames that these bytes complete, and which of them is the first.
    pub fn frames(&mut self, way: usize, bytes: &[u8]) -> Vec<(Vec<u8>, bool)> {
        let rest = &mut self.rest[way];
        rest.extend_from_slice(bytes);
        let mut frames = Vec::new();
        while let Some(length) = frame::length(rest, false).filter(|length| rest.len() >= *length) {
            let first = std::mem::take(&mut self.first[way]);
            frames.push((rest.drain(..length).collect(), first));
        }
        frames
    }
}
