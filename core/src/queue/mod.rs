//! The queue of one lock directory as one client sees it: a state machine without I/O, clock or async.
//!
//! [`Event`]s go in, [`Action`]s come out. Each request carries a [`Ticket`], which its outcome brings back.
//! One queue serves all waiters of its client on its path, so one listing answers every create sent before it.
//! The same code runs in production and under the property tests, which play the server and the network.
//!
//! The queue relies on its driver for this:
//! * actions are carried out in order, and outcomes and watch events arrive in the order in which the server sent them;
//! * every request has exactly one outcome; it is [`Lost`](Outcome::Lost) if the reply was lost, or came on another
//!   connection than the one that the request was meant for;
//! * [`Disconnected`](Event::Disconnected) comes before the lost outcomes that it causes.

mod action;
pub(crate) mod contender;
mod event;
mod handoff;
mod keeping;
mod machine;
mod node_name;
mod remote_view;
mod small_map;
pub(crate) mod wait_graph;

pub use self::action::Action;
pub use self::event::{Event, Intent, JoinId, Outcome, Refusal, Ticket};
pub use self::handoff::{HoldFacts, HoldRow, Representative};
pub use self::keeping::{Access, KeepingFacts, KeepingState, KeepingStep, KeptNodes};
pub use self::machine::{Company, ContenderAhead, Known, NEAR, Queue};
pub use self::node_name::{Kind, Naming, NodeName, is_kazoos};
pub(crate) use self::small_map::{SmallMap, SmallSet};
pub(crate) use self::wait_graph::OwnerKey;
pub use self::wait_graph::{Cycle, CycleOwner, CyclePlace, LockQueue, WaitGraph, confirmed};
