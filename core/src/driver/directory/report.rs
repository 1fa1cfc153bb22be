//! Creates reports on a directory: its waits, its holds, and the contenders that block a waiter
//! that times out.

use std::sync::Arc;

use super::Directory;
use crate::driver::connection::Connection;
use crate::driver::errors::timed_out;
use crate::error::Error;
use crate::error::blockers::{Blocker, Blockers};
use crate::error::deadlock::Deadlock;
use crate::error::server_report::Servers;
use crate::error::timeout_reason::TimeoutReason;
use crate::lease::hold::HoldTable;
use crate::lease::report::{HoldReport, WaitReport};
use crate::queue::contender::NodeSnapshot;
use crate::queue::{ContenderAhead, JoinId, Known, NodeName};

impl Directory {
    /// Adds the reports on this directory's waits and holds.
    pub(in crate::driver) fn report(&self, waits: &mut Vec<WaitReport>, holds: &mut Vec<HoldReport>) {
        waits.extend(self.waiters.attempts().map(|attempt| {
            let (join, place) = (attempt.join, &attempt.holds.place);
            let contender = self.waiters.in_queue_as(join);
            let node = |name: &NodeName| format!("{}/{}", place.directory(), name.as_str());
            WaitReport {
                path: place.path().to_owned(),
                mode: attempt.mode(),
                label: attempt.claim.label.as_deref().map(str::to_owned),
                age: attempt.asked.elapsed(),
                node: self.queue.node_of(join).map(node),
                in_cohort: attempt.is_in_cohort(),
                position: self.queue.ahead_of(contender),
                behind: self.queue.waits_for(contender).map(node),
                owner: attempt.claim.caller.clone(),
            }
        }));
        holds.extend(self.holders.reports());
    }

    /// Returns the timeout error of a contender. `servers` is given if the client is not connected.
    /// `deadlock` is given if a search has found one.
    pub(in crate::driver) fn timeout_error(
        &self,
        join: JoinId,
        connection: &Connection,
        servers: Option<Servers>,
        deadlock: Option<Box<Deadlock>>,
    ) -> Error {
        let Some(attempt) = self.waiters.get(join) else { return Error::client_closed() };
        let (holds, contender) = (&attempt.holds, self.waiters.in_queue_as(join));
        let heard = holds.heard_since(attempt.asked);
        let reason = match self.waiters.is_blocked(join, &self.queue, heard) {
            true => TimeoutReason::Taken,
            false if heard => TimeoutReason::Unknown,
            false => TimeoutReason::Unreachable,
        };
        let too_few = self.queue.awaits_permits();
        let error = timed_out(holds.place.path(), reason, too_few, self.queue.ahead_of(contender), servers);
        let blockers = self.blockers(holds, self.queue.known_blockers(contender), connection);
        error.blocked_by(blockers.with_deadlock(deadlock))
    }

    /// Returns the known blockers.
    pub(super) fn blockers(
        &self,
        holds: &HoldTable,
        standing: Vec<ContenderAhead>,
        connection: &Connection,
    ) -> Blockers {
        let seen = standing.into_iter().filter_map(|standing| self.blocker(holds, standing, connection));
        Blockers::new(seen.collect(), holds.place.directory(), &holds.place.part())
    }

    /// Returns what is known about one contender that blocks another.
    fn blocker(&self, of: &HoldTable, standing: ContenderAhead, connection: &Connection) -> Option<Blocker> {
        let ContenderAhead { name, position, holds, known } = standing;
        let (snapshot, ours) = match known {
            Known::Watched(ticket) => (self.watches.snapshot(ticket)?, false),
            Known::Listed => (of.permit_state().snapshot(&name)?, false),
            Known::Ours(join, czxid) => {
                let waiting = self.waiters.of_contender(join).map(|attempt| &*attempt.data);
                let data = waiting.or_else(|| self.holders.data(&name))?;
                let (data, data_length) = (data.into(), data.len());
                (Arc::new(NodeSnapshot { owner: connection.session_id(), czxid, data, data_length }), true)
            }
        };
        Some(Blocker { position, name, snapshot, ours, holds })
    }
}
