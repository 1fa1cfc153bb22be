//! The driver's requests to a server.

use zklock::queue::{Event, NodeName, Ticket};
use zklock::reply::{self, Judged, SessionEvidence};
use zookeeper_client::{Error, MultiWriteError};

use super::directory_of;
use super::server::{Permission, children_of};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Request {
    Create(Ticket, String),
    /// Creates a node with exactly this name. If there is a second name, a node with that name must
    /// exist.
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
    /// A transaction that checks nodes. It is a committed write, even if a node is missing. If the
    /// flag is `true`, the request also asks whether the connection's session owns the first node.
    Heartbeat(Vec<NodeName>, bool),
}

impl Request {
    pub(super) fn watches(&self) -> Option<(Ticket, String)> {
        match self {
            Self::Watch(ticket, name) => Some((*ticket, name.clone())),
            Self::ListAndWatch(ticket) => Some((*ticket, children_of(directory_of(*ticket)))),
            _ => None,
        }
    }

    /// Returns `true` if a majority must acknowledge the request. A sync does not need that.
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
            // The server checks each node of a probe separately.
            Self::Probe(..) | Self::Sync | Self::Unwatch(_) | Self::Delete(..) | Self::Heartbeat(..) => None,
        }
    }

    /// Returns the driver's event for the queue if the request fails with this error.
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

    /// Returns the driver's event if no reply arrives.
    pub(super) fn lost(&self) -> Option<Event> {
        self.failed(Error::ConnectionLoss).map(|(event, _)| event)
    }

    /// The model does not throttle the removal of a watch, because that would only make the scenes
    /// larger.
    pub(super) fn is_throttled(&self) -> bool {
        !matches!(self, Self::Unwatch(_))
    }
}

/// A request and the number of the connection for which it was sent.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Sent {
    pub(crate) request: Request,
    pub(crate) connection: u64,
    /// Time of sending, in scenes with a clock.
    pub(crate) at: u64,
}
