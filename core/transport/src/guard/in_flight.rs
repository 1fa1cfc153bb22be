//! The requests that are not answered yet.

use std::collections::VecDeque;

use super::malformed::Malformed;
use super::request::{Kind, PING, Request};

/// What a reply answers.
#[derive(Clone, Copy, Debug)]
pub(super) enum Asked<'a> {
    Ping,
    Request(&'a Kind),
}

/// A server answers a session's requests in their order. Not so pings, and what it answers before it queues anything:
/// credentials.
///
/// The order is not for neatness: answers to two watches of one path in the wrong order make the client crate read
/// memory that it has given back.
#[derive(Debug, Default)]
pub(super) struct InFlight {
    ordered: VecDeque<Request>,
    credentials: VecDeque<Request>,
    pings: usize,
}

impl InFlight {
    pub(super) fn sent(&mut self, request: Request) {
        if request.xid == PING {
            self.pings += 1;
        } else if request.kind.overtakes() {
            self.credentials.push_back(request);
        } else {
            self.ordered.push_back(request);
        }
    }

    /// The request that is due to be answered with this `xid`.
    pub(super) fn due(&self, xid: i32) -> Result<Asked<'_>, Malformed> {
        if xid == PING && self.pings > 0 {
            return Ok(Asked::Ping);
        }
        let heads = [self.credentials.front(), self.ordered.front()];
        if let Some(request) = heads.into_iter().flatten().find(|request| request.xid == xid) {
            return Ok(Asked::Request(&request.kind));
        }
        let due = match self.ordered.front() {
            Some(due) => format!(", where one to request {} is due", due.xid),
            None => ", where none is due".to_owned(),
        };
        Err(Malformed::new(format!("a reply to request {xid}{due}")))
    }

    /// Forgets the request that was due with this `xid`.
    pub(super) fn answered(&mut self, xid: i32) {
        if xid == PING {
            self.pings = self.pings.saturating_sub(1);
        } else if self.credentials.front().is_some_and(|request| request.xid == xid) {
            self.credentials.pop_front();
        } else {
            self.ordered.pop_front();
        }
    }
}
