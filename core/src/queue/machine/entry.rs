//! A contender: its request and its stage.

use uuid::Uuid;

use crate::queue::event::{Intent, Ticket};
use crate::queue::node_name::{Kind, Naming, NodeName};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Entry {
    pub(super) naming: Naming,
    pub(super) kind: Kind,
    pub(super) intent: Intent,
    /// The uuid in the contender's node name. All retries within a session use the same uuid, but
    /// the next session uses another one (rule 1).
    pub(super) uuid: Option<Uuid>,
    /// `true` if the contender no longer wants the lock, but the client does not know yet whether
    /// its node exists. Also `true` for a released writer, as long as its owner's reader might
    /// still get the writer's position in the queue (a downgrade).
    pub(super) leaving: bool,
    /// `true` if the reply to a create with the current uuid was lost in this session.
    pub(super) reply_lost: bool,
    /// `true` if the reader's node must be created at the writer's position without the check that
    /// the writer's node exists, because the server refused that check.
    pub(super) unchecked: bool,
    /// The czxid of the writer whose position the reader's node gets (a downgrade). The reader uses
    /// it as its fencing token, even if the writer is lost before the reader holds the lock. The
    /// reader's own czxid is not suitable, because a contender behind the reader can have an older
    /// node.
    pub(super) writers_czxid: Option<i64>,
    /// Number of creates in a row that found no lock directory.
    pub(super) parent_attempts: u32,
    pub(super) stage: EntryStage,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum EntryStage {
    /// The contender has no node, and no create is under way.
    Idle,
    /// The contender waits for a listing that shows whether the lock is free. Only listings with a
    /// later ticket than this one count.
    Looking(Ticket),
    /// The create is under way.
    Creating(Ticket),
    /// The reply to the create with this ticket was lost, so the contender might have a node.
    Unknown(Ticket),
    /// A node with the contender's uuid was found, and its Stat is being read.
    Verifying(Ticket, NodeName),
    /// The contender has a node and waits.
    Queued(QueuePlace),
    /// The contender holds the lock.
    Held(QueuePlace),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct QueuePlace {
    pub(super) name: NodeName,
    pub(super) czxid: i64,
    /// The ticket of the create. Only listings with a later ticket must show the node.
    pub(super) created: Ticket,
    /// For a waiter: `true` if a listing on this connection has shown the node. For a holder:
    /// `true` if the node must be watched.
    pub(super) confirmed: bool,
}

impl Entry {
    pub(super) fn is_held(&self) -> bool {
        matches!(self.stage, EntryStage::Held(_))
    }

    /// Returns the contender's node, as far as it is known.
    pub(super) fn node(&self) -> Option<&NodeName> {
        match &self.stage {
            EntryStage::Verifying(_, name) => Some(name),
            EntryStage::Queued(place) | EntryStage::Held(place) => Some(&place.name),
            EntryStage::Idle | EntryStage::Looking(_) | EntryStage::Creating(_) | EntryStage::Unknown(_) => {
                None
            }
        }
    }

    /// Returns `true` if the contender might have a second node ahead of the known one. This
    /// happens if the server carried out a create whose reply was lost, and a listing did not show
    /// that node (rule 8).
    pub(super) fn may_have_two(&self) -> bool {
        self.reply_lost && matches!(self.stage, EntryStage::Queued(_))
    }

    /// Returns the fencing token of a hold at this position in the queue. A reader with a writer's
    /// position uses the writer's czxid.
    pub(super) fn token(&self, place: &QueuePlace) -> i64 {
        match (&self.intent, self.writers_czxid) {
            (Intent::Downgrade { writer, .. }, Some(czxid)) if writer.sequence() == place.name.sequence() => {
                czxid
            }
            _ => place.czxid,
        }
    }

    pub(super) fn takes_place_of(&self, writer: &NodeName) -> bool {
        matches!(&self.intent, Intent::Downgrade { writer: of, .. } if **of == *writer)
    }
}

pub(super) fn conflict(one: Kind, other: Kind) -> bool {
    !matches!((one, other), (Kind::Read, Kind::Read) | (Kind::Permit(_), _) | (_, Kind::Permit(_)))
}
