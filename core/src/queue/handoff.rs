//! Rules for consecutive holds on one node (rule 19). They decide whether another hold can begin on
//! the node, and when one contender must join the queue for all of the client's waiters that have
//! no node. The hold table, the driver and the tests' explorer all use these rules.

use super::event::{Event, Intent, JoinId};
use super::node_name::{Kind, Naming};

/// Counts of the holds on one node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct HoldCounts {
    /// Number of holds before the current one.
    handoffs: u32,
    /// Number of hand-offs in a row. A time without a holder resets it.
    consecutive: u16,
    /// Maximum number of consecutive holds.
    limit: u16,
}

impl HoldCounts {
    /// Returns the counts for a hold that begins without a hand-off. `handoffs` is the number of
    /// earlier holds on the node, and `limit` is the maximum number of consecutive holds.
    #[must_use]
    pub fn new(handoffs: u32, limit: u16) -> Self {
        Self { handoffs, consecutive: 0, limit }
    }

    /// Returns the number of earlier holds on the node.
    #[must_use]
    pub fn handoffs(self) -> u32 {
        self.handoffs
    }

    /// Returns the counts for the next hold after a hand-off. `cohort` is the maximum number of
    /// consecutive holds in the next holder's options. Returns `None` if no further hold is
    /// permitted.
    #[must_use]
    pub fn next(self, cohort: u16) -> Option<Self> {
        let (consecutive, limit) = (self.consecutive + 1, self.limit.min(cohort));
        (consecutive < limit).then_some(Self { handoffs: self.handoffs + 1, consecutive, limit })
    }

    /// Returns the counts for a hold that begins on a kept node. The count of consecutive holds
    /// starts again, because no other client waits.
    #[must_use]
    pub fn taken_again(self, cohort: u16) -> Self {
        Self::new(self.handoffs + 1, cohort)
    }
}

/// Facts about a hold that decide whether another hold can follow it on the same node.
#[allow(clippy::struct_excessive_bools, reason = "each is one fact, and they combine freely")]
#[derive(Clone, Copy, Debug)]
pub struct HoldFacts {
    /// The lease is held, and its session is connected.
    pub held: bool,
    /// The holder was asked to give up the lock.
    pub revoked: bool,
    /// The node has been held for too long.
    pub too_old: bool,
    /// A transaction of the holder might be in progress. It only checks that the node exists. After
    /// a hand-off on this node, it could still succeed, although its holder no longer has the lock.
    pub transacting: bool,
    /// A reader is about to take the node's place.
    pub downgrading: bool,
    /// The hold belongs to a reader whose owner also holds the write lock. The reader has the same
    /// position in the queue as the owner's writer.
    pub beside_writer: bool,
}

impl HoldFacts {
    /// Returns `true` if another hold can begin on the node, or if the node can be kept for one.
    #[must_use]
    pub fn may_have_successor(self) -> bool {
        let Self { held, revoked, too_old, transacting, downgrading, beside_writer } = self;
        held && !revoked && !too_old && !transacting && !downgrading && !beside_writer
    }
}

/// The contender that waits in the queue on behalf of all of a client's waiters that have no node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Representative {
    /// The representative's id while it is in the queue.
    join: Option<JoinId>,
    /// Number of representatives so far.
    count: u64,
    kind: Kind,
    naming: Naming,
    /// Number of waiters without a node.
    waiting: usize,
}

impl Representative {
    /// Creates a representative for waiters of this kind. It has no waiters yet.
    #[must_use]
    pub fn new(kind: Kind, naming: Naming) -> Self {
        Self { join: None, count: 0, kind, naming, waiting: 0 }
    }

    /// Returns `true` if the representative can wait on behalf of this waiter, because its kind and
    /// naming are the same. A representative without waiters first takes over the waiter's kind and
    /// naming.
    pub fn takes(&mut self, kind: Kind, naming: Naming) -> bool {
        if self.waiting == 0 && self.join.is_none() {
            (self.kind, self.naming) = (kind, naming);
        }
        (self.kind, self.naming) == (kind, naming)
    }

    /// Adds a waiter.
    pub fn enter(&mut self) {
        self.waiting += 1;
    }

    /// Removes a waiter.
    pub fn leave(&mut self) {
        self.waiting -= 1;
    }

    /// Returns `true` if it represents no waiters.
    #[must_use]
    pub fn is_unneeded(&self) -> bool {
        self.waiting == 0
    }

    /// Returns the representative's id while it is in the queue.
    #[must_use]
    pub fn join(&self) -> Option<JoinId> {
        self.join
    }

    /// Records that a contender has left the queue, because the lock was granted to it or refused.
    /// Returns `true` if this contender was the representative.
    pub fn end(&mut self, join: JoinId) -> bool {
        self.join.take_if(|representative| *representative == join).is_some()
    }

    /// Returns the event that makes a representative join or leave the queue, or `None` if neither
    /// is needed.
    #[must_use]
    pub fn next_event(&mut self) -> Option<Event> {
        match self.join {
            None if self.waiting > 0 => {
                self.count += 1;
                // Ids of representatives count down from the maximum, so they differ from the ids
                // of attempts, which count up.
                let join = JoinId(u64::MAX - self.count);
                self.join = Some(join);
                Some(Event::Join(join, self.naming, self.kind, Intent::Wait))
            }
            Some(join) if self.waiting == 0 => {
                self.join = None;
                Some(Event::Leave(join))
            }
            _ => None,
        }
    }
}
