//! The requests that are not answered yet.

use std::collections::VecDeque;

use super::jute::Malformed;
use super::request::{PING, ReplyShape, Request};

/// What a reply answers.
#[derive(Clone, Copy, Debug)]
pub(super) enum Asked<'a> {
    Ping,
    Request(&'a ReplyShape),
}

/// A server answers a session's requests in their order. Not so pings, and what it answers before it queues anything:
/// credentials.
///
/// The order is not for neatness: answers to two watches of one path in the wrong order make the client crate read
/// memory that it has given back.
#[derive(Debug, Default)]
pub(super) struct InFlight {
    /// With the moments when they were sent.
    ordered: VecDeque<(Request, u64)>,
    credentials: VecDeque<Request>,
    /// When they were sent.
    pings: VecDeque<u64>,
}

impl InFlight {
    pub(super) fn sent(&mut self, request: Request, now: u64) {
        if request.xid == PING {
            self.pings.push_back(now);
        } else if request.kind.overtakes() {
            self.credentials.push_back(request);
        } else {
            self.ordered.push_back((request, now));
        }
    }

    /// Whether credentials were sent under this `xid` and are not answered yet.
    pub(super) fn has_credentials(&self, xid: i32) -> bool {
        self.credentials.iter().any(|request| request.xid == xid)
    }

    /// The request that is due to be answered with this `xid`.
    pub(super) fn due(&self, xid: i32) -> Result<Asked<'_>, Malformed> {
        if xid == PING && !self.pings.is_empty() {
            return Ok(Asked::Ping);
        }
        let heads = [self.credentials.front(), self.ordered.front().map(|(request, _)| request)];
        if let Some(request) = heads.into_iter().flatten().find(|request| request.xid == xid) {
            return Ok(Asked::Request(&request.kind));
        }
        let due = match self.ordered.front() {
            Some((due, _)) => format!(", where one to request {} is due", due.xid),
            None => ", where none is due".to_owned(),
        };
        Err(Malformed::new(format!("a reply to request {xid}{due}")))
    }

    /// Forgets the request that was due with this `xid`. Returns when it was sent, if it is a sign of life of its session:
    /// credentials are none to a server.
    pub(super) fn answered(&mut self, xid: i32) -> Option<u64> {
        if xid == PING {
            self.pings.pop_front()
        } else if self.credentials.front().is_some_and(|request| request.xid == xid) {
            self.credentials.pop_front();
            None
        } else {
            self.ordered.pop_front().map(|(_, sent)| sent)
        }
    }
}
