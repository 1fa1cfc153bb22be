//! Carries out the queues' actions on a session, and reports the results to them.
//!
//! One driver per client, one task on the runtime thread. Everything that happens reaches it through its
//! [inbox](mailbox::Inbox), in the order in which it happened: commands from the handles, replies and watch
//! events from the server, changes of the session. The queue's reasoning rests on that order.
//!
//! * [`mailbox`] carries commands and events to the driver, in order of arrival.
//! * `event_loop` takes them in, and lets everything else act.
//! * `directory` is one lock path: its queue, waiters, watches and releases; its table has all of a client.
//! * `connection` sends requests on one session after another, and reports what comes back.
//! * `heartbeat` keeps the session's term running.
//! * `queries` answers questions that no queue has to know of.

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
