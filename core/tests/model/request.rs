//! What a driver requests from a server.

use zklock::queue::{Event, NodeName, Ticket};
use zklock::reply::{self, Judged, SessionEvidence};
use zookeeper_client::{Error, MultiWriteError};

use super::directory_of;
use super::server::{Permission, children_of};

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
    Probe(Ticket, Vec<NodeName>),
    Watch(Ticket, String),
    Unwatch(String),
    Delete(Ticket, String),
    /// A transaction that checks nodes: a committed write, whatever its result. With a question whether the first of them
    /// belongs to the session that answers, if that is not known.
    Heartbeat(Vec<NodeName>, bool),
}

impl Request {
    /// What this request sets a watch on.
    pub(super) fn watches(&self) -> Option<(Ticket, String)> {
        match self {
            Self::Watch(ticket, name) => Some((*ticket, name.clone())),
            Self::ListAndWatch(ticket) => Some((*ticket, children_of(directory_of(*ticket)))),
            _ => None,
        }
    }

    /// Whether a majority must agree. A sync needs none.
    pub(super) fn is_write(&self) -> bool {
        match self {
            Self::Create(..)
            | Self::CreateInPlace(..)
            | Self::MakeParents(_)
            | Self::Delete(..)
            | Self::Heartbeat(..) => true,
            Self::Sync
            | Self::List(_)
            | Self::ListAndWatch(_)
            | Self::Verify(..)
            | Self::Probe(..)
            | Self::Watch(..)
            | Self::Unwatch(_) => false,
        }
    }

    pub(super) fn needs(&self) -> Option<Permission> {
        match self {
            Self::Create(..) | Self::CreateInPlace(..) | Self::MakeParents(_) => Some(Permission::Create),
            Self::List(_) | Self::ListAndWatch(_) => Some(Permission::List),
            Self::Verify(..) | Self::Watch(..) => Some(Permission::Read),
            // Each node that a probe asks for is answered for itself.
            Self::Probe(..) | Self::Sync | Self::Unwatch(_) | Self::Delete(..) | Self::Heartbeat(..) => None,
        }
    }

    /// What the driver makes of it if the request fails like this.
    pub(super) fn failed(&self, error: Error) -> Option<Judged> {
        match self {
            Self::CreateInPlace(ticket, name, Some(_)) => {
                let failed = match error {
                    Error::NoAuth => MultiWriteError::OperationFailed { index: 1, source: error },
                    source => MultiWriteError::RequestFailed { source },
                };
                Some(reply::created_beside::<()>(*ticket, 0, name.clone(), Err(failed), Ok(None)))
            }
            Self::Create(ticket, _) | Self::CreateInPlace(ticket, ..) => {
                Some(reply::created(*ticket, 0, Err(error)))
            }
            Self::MakeParents(ticket) => {
                Some((Event::ParentsMade(*ticket, reply::failed(&error)), SessionEvidence::Unknown))
            }
            Self::List(ticket) | Self::ListAndWatch(ticket) => {
                Some((reply::listed(*ticket, Ok(()), Err(error)), SessionEvidence::Unknown))
            }
            Self::Verify(ticket, _) => Some(reply::verified(*ticket, 0, Err(error))),
            Self::Probe(ticket, names) => {
                Some((reply::probed(*ticket, names.clone(), Err(error)), SessionEvidence::Unknown))
            }
            Self::Watch(ticket, _) => Some((reply::watched(*ticket, Err(error)), SessionEvidence::Unknown)),
            Self::Delete(ticket, _) => Some(reply::deleted(*ticket, false, Err(error))),
            Self::Sync | Self::Unwatch(_) | Self::Heartbeat(..) => None,
        }
    }

    /// What the driver is told when no reply comes.
    pub(super) fn lost(&self) -> Option<Event> {
        self.failed(Error::ConnectionLoss).map(|(event, _)| event)
    }

    /// Whether a server throttles it. Others only lengthen the scenes.
    pub(super) fn is_throttled(&self) -> bool {
        !matches!(self, Self::Unwatch(_))
    }
}

/// A request and the number of the connection for which it was meant.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Sent {
    pub(crate) request: Request,
    pub(crate) connection: u64,
    /// When it was sent, if time passes.
    pub(crate) at: u64,
}
