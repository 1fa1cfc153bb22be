//! Carries out the queues' actions on a session, and reports the results to them.
//!
//! One driver per client, one task on the runtime thread. Everything that happens reaches it through its
//! [inbox](crate::mailbox::Inbox), in the order in which it happened: commands from the handles, replies and watch
//! events from the server, changes of the session. The queue's reasoning rests on that order.
//!
//! From the bottom: `metered` sends requests, `wire` those of one directory, `link` on one session after another;
//! `inquiries` ask what no queue needs to know. `waiters`, `watches`, `releases` and `pauses` are the books
//! of a `slot`, which is one lock directory; `slots` are all of a client, on the `shelf` while the driver waits. `pulse` keeps the term running. `run` is the
//! loop over all of it.

mod contenders;
mod errand;
mod heartbeat;
mod holders;
mod inquiries;
mod link;
mod metered;
mod pauses;
mod pulse;
mod refusals;
mod releases;
mod run;
mod shelf;
mod silence;
mod sizes;
mod slot;
mod slots;
mod timers;
mod waiters;
mod watches;
mod wire;

pub(crate) use self::refusals::unreachable;
pub(crate) use self::run::drive;
