//! A contender: what it wants, and how far it has come.

use uuid::Uuid;

use crate::queue::event::{Intent, Ticket};
use crate::queue::node_name::{Kind, Naming, NodeName};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Entry {
    pub(super) naming: Naming,
    pub(super) kind: Kind,
    pub(super) intent: Intent,
    /// Kept over all retries within a session, never beyond it (rule 1).
    pub(super) uuid: Option<Uuid>,
    /// No longer wanted, but the fate of its node is not known yet; or, for a writer, that of the reader in its place.
    pub(super) leaving: bool,
    /// The reply to one of its creates in this session was lost, and its uuid is still that of then.
    pub(super) reply_lost: bool,
    /// A reader's node in the writer's place cannot be created under a check of the writer's.
    pub(super) unchecked: bool,
    /// The czxid of the writer in whose place its node is created. It is the reader's token too, even if the writer is
    /// lost before the reader holds: whoever queues behind it has an older node than the reader's.
    pub(super) writers_czxid: Option<i64>,
    pub(super) parent_attempts: u32,
    pub(super) stage: EntryStage,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum EntryStage {
    /// Has no node, and none is under way.
    Idle,
    /// Waits for a listing sent later than the ticket, which tells whether the lock is free.
    Looking(Ticket),
    /// The create is under way.
    Creating(Ticket),
    /// The reply to the create with this ticket was lost: there may be a node.
    Unknown(Ticket),
    /// A node with its uuid was found, and its Stat is being read.
    Verifying(Ticket, NodeName),
    /// Has a node, and waits.
    Queued(QueuePlace),
    /// Holds.
    Held(QueuePlace),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct QueuePlace {
    pub(super) name: NodeName,
    pub(super) czxid: i64,
    /// A listing later than this one must show the node.
    pub(super) created: Ticket,
    /// Queued: a listing on this connection showed the node. Held: the node is to be watched.
    pub(super) confirmed: bool,
}

impl Entry {
    pub(super) fn is_held(&self) -> bool {
        matches!(self.stage, EntryStage::Held(_))
    }

    /// Its node, as far as that is known.
    pub(super) fn node(&self) -> Option<&NodeName> {
        match &self.stage {
            EntryStage::Verifying(_, name) => Some(name),
            EntryStage::Queued(place) | EntryStage::Held(place) => Some(&place.name),
            EntryStage::Idle | EntryStage::Looking(_) | EntryStage::Creating(_) | EntryStage::Unknown(_) => {
                None
            }
        }
    }

    /// Whether there may be a second node of it, before the one that is known: a create whose reply was lost, and of which
    /// a listing showed nothing, was carried out all the same (rule 8).
    pub(super) fn may_have_two(&self) -> bool {
        self.reply_lost && matches!(self.stage, EntryStage::Queued(_))
    }

    /// The czxid that goes for the place with this name: a reader in a writer's place has the writer's.
    pub(super) fn token(&self, place: &QueuePlace) -> i64 {
        match (&self.intent, self.writers_czxid) {
            (Intent::Downgrade { writer, .. }, Some(czxid)) if writer.sequence() == place.name.sequence() => {
                czxid
            }
            _ => place.czxid,
        }
    }

    /// Whether this is a reader that belongs in this writer's place.
    pub(super) fn takes_place_of(&self, writer: &NodeName) -> bool {
        matches!(&self.intent, Intent::Downgrade { writer: of, .. } if **of == *writer)
    }
}

/// Whether two contenders cannot hold at the same time.
pub(super) fn conflict(one: Kind, other: Kind) -> bool {
    !matches!((one, other), (Kind::Read, Kind::Read) | (Kind::Permit(_), _) | (_, Kind::Permit(_)))
}
