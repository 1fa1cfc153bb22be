//! The requests that have no reply yet.

use std::collections::VecDeque;

use super::malformed::Malformed;
use super::request::{PING, ReplyShape, Request};

/// The request that a reply belongs to.
#[derive(Clone, Copy, Debug)]
pub(super) enum Asked<'a> {
    Ping,
    Request(&'a ReplyShape),
}

/// The requests in flight on one connection. A server replies to a session's requests in order. The
/// exceptions are pings and credentials, because the server replies to them before it queues them.
///
/// The order must be checked for memory safety: if the replies to two watches of one path arrive in
/// the wrong order, the client crate reads freed memory.
#[derive(Debug, Default)]
pub(super) struct InFlight {
    /// Requests in order, with the times at which they were sent.
    ordered: VecDeque<(Request, u64)>,
    credentials: VecDeque<Request>,
    /// Times at which the pings were sent.
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

    /// Returns `true` if credentials were sent with this `xid` and have no reply yet.
    pub(super) fn has_credentials(&self, xid: i32) -> bool {
        self.credentials.iter().any(|request| request.xid == xid)
    }

    /// Returns the request that a reply with this `xid` answers. Fails if the server must reply to
    /// another request first.
    pub(super) fn due(&self, xid: i32) -> Result<Asked<'_>, Malformed> {
        if xid == PING && !self.pings.is_empty() {
            return Ok(Asked::Ping);
        }
        let heads = [self.credentials.front(), self.ordered.front().map(|(request, _)| request)];
        if let Some(request) = heads.into_iter().flatten().find(|request| request.xid == xid) {
            return Ok(Asked::Request(&request.kind));
        }
        let due = match self.ordered.front() {
            Some((due, _)) => format!(", where a reply to request {} is expected", due.xid),
            None => ", where none is expected".to_owned(),
        };
        Err(Malformed::new(format!("a reply to request {xid}{due}")))
    }

    /// Removes the request with this `xid`. Returns the time at which the request was sent. Returns
    /// `None` for credentials, because a server replies to them without keeping the session alive.
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
