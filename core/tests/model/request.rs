//! What a driver requests from a server.

use zklock::queue::{Event, NodeName, Outcome, Refusal, Ticket};

use super::server::{CHILDREN, Permission};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Request {
    Create(Ticket, String),
    /// A node with just this name, on condition that another one exists.
    CreateInPlace(Ticket, String, Option<String>),
    MakeParents(Ticket),
    Sync,
    List(Ticket),
    ListAndWatch(Ticket),
    Verify(Ticket, String),
    Watch(Ticket, String),
    Unwatch(String),
    Delete(Ticket, String),
    /// A transaction that checks nodes: a committed write, whatever its result.
    Heartbeat(Vec<NodeName>),
}

impl Request {
    /// What this request sets a watch on.
    pub(super) fn watches(&self) -> Option<(Ticket, &str)> {
        match self {
            Self::Watch(ticket, name) => Some((*ticket, name)),
            Self::ListAndWatch(ticket) => Some((*ticket, CHILDREN)),
            _ => None,
        }
    }

    /// Whether this answer proves that the session still existed.
    pub(super) fn is_proved_by(&self, answer: Option<&Event>) -> bool {
        let done = matches!(
            answer,
            Some(Event::Created(_, Outcome::Done(_)) | Event::Deleted(_, Outcome::Done(())))
        );
        done || matches!(self, Self::Heartbeat(_))
    }

    /// Whether a majority must agree. A sync needs none.
    pub(super) fn is_write(&self) -> bool {
        match self {
            Self::Create(..)
            | Self::CreateInPlace(..)
            | Self::MakeParents(_)
            | Self::Delete(..)
            | Self::Heartbeat(_) => true,
            Self::Sync
            | Self::List(_)
            | Self::ListAndWatch(_)
            | Self::Verify(..)
            | Self::Watch(..)
            | Self::Unwatch(_) => false,
        }
    }

    pub(super) fn needs(&self) -> Option<Permission> {
        match self {
            Self::Create(..) | Self::CreateInPlace(..) | Self::MakeParents(_) => Some(Permission::Create),
            Self::List(_) | Self::ListAndWatch(_) => Some(Permission::List),
            Self::Verify(..) | Self::Watch(..) => Some(Permission::Read),
            Self::Sync | Self::Unwatch(_) | Self::Delete(..) | Self::Heartbeat(_) => None,
        }
    }

    pub(super) fn refused(&self) -> Option<Event> {
        let refusal = Refusal::NotAuthorized;
        match self {
            Self::Create(ticket, _) | Self::CreateInPlace(ticket, ..) => {
                Some(Event::Created(*ticket, Outcome::Refused(refusal)))
            }
            Self::MakeParents(ticket) => Some(Event::ParentsMade(*ticket, Outcome::Refused(refusal))),
            Self::List(ticket) | Self::ListAndWatch(ticket) => {
                Some(Event::Listed(*ticket, Outcome::Refused(refusal)))
            }
            Self::Verify(ticket, _) => Some(Event::Verified(*ticket, Outcome::Refused(refusal))),
            Self::Watch(ticket, _) => Some(Event::Watched(*ticket, Outcome::Refused(refusal))),
            Self::Sync | Self::Unwatch(_) | Self::Delete(..) | Self::Heartbeat(_) => None,
        }
    }

    /// What the driver is told when no reply comes.
    pub(super) fn lost(&self) -> Option<Event> {
        match self {
            Self::Create(ticket, _) | Self::CreateInPlace(ticket, ..) => {
                Some(Event::Created(*ticket, Outcome::Lost))
            }
            Self::MakeParents(ticket) => Some(Event::ParentsMade(*ticket, Outcome::Lost)),
            Self::List(ticket) | Self::ListAndWatch(ticket) => Some(Event::Listed(*ticket, Outcome::Lost)),
            Self::Verify(ticket, _) => Some(Event::Verified(*ticket, Outcome::Lost)),
            Self::Watch(ticket, _) => Some(Event::Watched(*ticket, Outcome::Lost)),
            Self::Delete(ticket, _) => Some(Event::Deleted(*ticket, Outcome::Lost)),
            Self::Sync | Self::Unwatch(_) | Self::Heartbeat(_) => None,
        }
    }
}

/// A request and the number of the connection for which it was meant.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Sent {
    pub(crate) request: Request,
    pub(crate) connection: u64,
}
