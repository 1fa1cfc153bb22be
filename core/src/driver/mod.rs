//! Carries out the queues' actions on a ZooKeeper session and reports the results to the queues.
//!
//! Each client has one driver, which runs as one task on the runtime thread. All input arrives
//! through the driver's [inbox](mailbox::Inbox): commands from the handles, replies and watch
//! events from the server, and session changes. The inbox delivers input in the order in which it
//! was sent, and the queue relies on that order.
//!
//! These modules use the following terms:
//!
//! * A *handle* is a client or lock object of the program.
//! * The server does not expire the session before the end of the session's *term*. Replies from
//!   the server extend the term.
//! * To *flush* a queue is to let it decide on its actions (such as requests) after a batch of
//!   events.
//! * *Room* is the unused part of the session's watch budget.
//!
//! The modules are:
//!
//! * [`mailbox`] carries commands and events to the driver, in order of arrival.
//! * `event_loop` takes input from the inbox and runs the other modules.
//! * `directory` manages one lock path: its queue, waiters, watches and releases. Its table holds
//!   all directories of a client.
//! * `connection` keeps the current session, sends requests on it and reports the replies.
//! * `heartbeat` renews the session's term.
//! * `queries` reads and writes nodes for callers, for example to list contenders.

mod connection;
mod directory;
mod errors;
mod event_loop;
mod heartbeat;
pub(crate) mod mailbox;
mod queries;
pub(crate) mod status;
mod timers;

pub(crate) use self::errors::unreachable;
pub(crate) use self::event_loop::drive;
