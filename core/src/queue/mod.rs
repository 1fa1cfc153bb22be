//! The queue of one lock directory as one client sees it: a state machine without I/O, clock or
//! async code.
//!
//! The driver passes [`Event`]s to the queue, and the queue returns [`Action`]s. Each request
//! contains a [`Ticket`], which is repeated in its outcome. One queue serves all waiters of its
//! client on its path, so one listing answers every create sent before it. The same code runs in
//! production and in the property tests, which simulate the server and the network.
//!
//! In these modules, *our* nodes and contenders are those of this client, and a contender's *place*
//! is the position of its node in the queue. Two contenders *conflict* if they cannot hold the lock
//! at the same time. To *look* means to list the directory or to ask whether certain nodes exist.
//!
//! The driver must guarantee the following:
//! * It carries out actions in order. Outcomes and watch events arrive in the order in which the
//!   server sent them.
//! * Every request has exactly one outcome. The outcome is [`Lost`](Outcome::Lost) if the reply was
//!   lost or arrived on a different connection than the request was meant for.
//! * [`Disconnected`](Event::Disconnected) arrives before the lost outcomes that it causes.

mod action;
pub(crate) mod contender;
mod event;
mod handoff;
mod keeping;
mod machine;
mod node_name;
pub(crate) mod rare;
mod remote_view;
mod small_map;
pub(crate) mod wait_graph;

pub use self::action::Action;
pub use self::event::{Event, Intent, JoinId, Outcome, Refusal, Ticket};
pub use self::handoff::{HoldCounts, HoldFacts, Representative};
pub use self::keeping::{Access, KeepingFacts, KeepingState, KeepingStep, KeptNodes};
pub use self::machine::{ContenderAhead, Contention, Known, NEAR, Queue};
pub use self::node_name::{Kind, Naming, NodeName, is_kazoos};
pub(crate) use self::small_map::{SmallMap, SmallSet};
pub(crate) use self::wait_graph::OwnerKey;
pub use self::wait_graph::{Cycle, CycleOwner, CyclePlace, LockQueue, WaitGraph, confirmed};
