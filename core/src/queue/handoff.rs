//! Several holds on one node (rule 19): whether another may begin on it, and which contender stands in the queue for those
//! that wait for one. The holds and the driver decide by these rules, and so does the explorer.

use super::event::{Event, Intent, JoinId};
use super::node_name::{Kind, Naming};

/// How many holds there were on a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct HoldRow {
    /// Before the present one.
    handoffs: u32,
    /// How many of them were handed on, the last without a pause in which nobody held.
    row: u16,
    /// How many such holds there may be in a row.
    most: u16,
}

impl HoldRow {
    /// Of the first hold on a node, which was so often handed on before as another node; there may be `most` in a row.
    #[must_use]
    pub fn new(handoffs: u32, most: u16) -> Self {
        Self { handoffs, row: 0, most }
    }

    /// How many holds there were on the node before.
    #[must_use]
    pub fn handoffs(self) -> u32 {
        self.handoffs
    }

    /// Of the next hold, which permits so many in a row; `None` if there may be none.
    #[must_use]
    pub fn next(self, cohort: u16) -> Option<Self> {
        let (row, most) = (self.row + 1, self.most.min(cohort));
        (row < most).then_some(Self { handoffs: self.handoffs + 1, row, most })
    }

    /// Of a hold that begins while nobody holds. Nobody else waits, so a new row begins.
    #[must_use]
    pub fn taken_again(self, cohort: u16) -> Self {
        Self::new(self.handoffs + 1, cohort)
    }
}

/// The facts about a hold that decide whether its node may have another one.
#[allow(clippy::struct_excessive_bools, reason = "each is one fact, and they combine freely")]
#[derive(Clone, Copy, Debug)]
pub struct HoldFacts {
    /// It is held, and its session is connected.
    pub held: bool,
    /// Its holder was asked to give up the lock.
    pub revoked: bool,
    /// The node has been held for too long.
    pub too_old: bool,
    /// A transaction may be under way, whose check of the node would also pass under the next holder.
    pub transacting: bool,
    /// A reader is to take the node's place.
    pub downgrading: bool,
    /// It is a reader's, whose owner also holds the writer in whose place it stands.
    pub beside_writer: bool,
}

impl HoldFacts {
    /// Whether another hold may begin on the node, or the node be kept for one.
    #[must_use]
    pub fn may_have_successor(self) -> bool {
        let Self { held, revoked, too_old, transacting, downgrading, beside_writer } = self;
        held && !revoked && !too_old && !transacting && !downgrading && !beside_writer
    }
}

/// The contender that stands in the queue for all waiters of a client that have no nodes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Representative {
    /// While it is in the queue.
    join: Option<JoinId>,
    /// How many there have been.
    count: u64,
    kind: Kind,
    naming: Naming,
    /// How many wait without a node.
    waiting: usize,
}

impl Representative {
    /// Of waiters of this kind, of whom none waits yet.
    #[must_use]
    pub fn new(kind: Kind, naming: Naming) -> Self {
        Self { join: None, count: 0, kind, naming, waiting: 0 }
    }

    /// Whether it can stand for a waiter. One that stands for nobody becomes that waiter's.
    pub fn takes(&mut self, kind: Kind, naming: Naming) -> bool {
        if self.waiting == 0 && self.join.is_none() {
            (self.kind, self.naming) = (kind, naming);
        }
        (self.kind, self.naming) == (kind, naming)
    }

    /// One more waits.
    pub fn enter(&mut self) {
        self.waiting += 1;
    }

    /// One does not wait any longer.
    pub fn leave(&mut self) {
        self.waiting -= 1;
    }

    /// Whether it stands for nobody.
    #[must_use]
    pub fn is_unneeded(&self) -> bool {
        self.waiting == 0
    }

    /// The contender, while it is in the queue.
    #[must_use]
    pub fn join(&self) -> Option<JoinId> {
        self.join
    }

    /// This contender is out of the queue: granted the lock, or refused it. Returns whether it stood for the waiters.
    pub fn end(&mut self, join: JoinId) -> bool {
        self.join.take_if(|representative| *representative == join).is_some()
    }

    /// The queue is to be told this: that a contender is needed, or is not needed any more.
    #[must_use]
    pub fn settle(&mut self) -> Option<Event> {
        match self.join {
            None if self.waiting > 0 => {
                self.count += 1;
                // Attempts are numbered from the other end.
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
