//! Distributed locks on Apache ZooKeeper: fair, reentrant, fenced, wire-compatible with Apache Curator.
//!
//! A [`Client`] keeps a session with an ensemble; a [`Mutex`] is a lock at a path; an acquire returns a [`Lease`],
//! which proves that the lock is held, carries a fencing token, and releases the lock when dropped. Java services
//! on Curator's `InterProcessMutex` and others that use its node layout queue up for the same locks.
//!
//! Everything runs on the library's own thread, so the futures may be awaited on any executor.
//!
//! # When not to use it
//! Within one process use `std::sync::Mutex`: it asks no server. If a lock guards a resource that can check a token,
//! pass it [`Lease::fencing_token`]: a process that was paused cannot know that it lost the lock.
//!
//! # Statistics and events
//! [`Client::stats`] counts what a client does. Events go to `tracing`, with targets that begin with `zklock`: the
//! course of a session and losses at `INFO` and `WARN`, every lock at `DEBUG`. No subscriber is installed.
//!
//! # Words
//! Each has one meaning, here and in the other languages.
//!
//! | Word | Meaning |
//! |---|---|
//! | *lock* | The means of exclusion: a directory in ZooKeeper, named by its path, and the objects that acquire it. It *guards* a resource |
//! | *contender* | A participant in a lock's queue, whether it holds or waits; it has its own *node* |
//! | *owner* | Who may re-enter: an [`Owner`] |
//! | *hold* | The possession of a lock by an owner, from the grant to the last release or the loss |
//! | *lease* | One level of a hold: what an acquire returns ([`Lease`]) |
//! | *permit* | What an acquire of a semaphore obtains, as a lease; its *permits* are their number ([`Permits`]) |
//! | *term* | The time until which a hold is certain without another word from the server |
//! | *state* | That of a client ([`ClientState`]) or of a lease ([`LeaseState`]), and of nothing else |
//! | *shared* | Said of a client: the process's one with the same options ([`Client::shared`]) |
//!
//! # Layers
//! `queue` decides, without I/O; `driver` carries out its decisions on a `session`; the handles are thin.

mod about;
mod access;
#[doc(hidden)]
pub mod answer;
mod any_lock;
mod aside;
mod backoff;
mod begun;
#[doc(hidden)]
pub mod binding;
mod blockers;
pub mod blocking;
mod certificates;
mod client;
mod client_source;
mod clock;
mod contender;
#[cfg(all(test, target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod costs;
mod date;
mod driver;
mod dump;
mod dump_signal;
mod each_process;
mod election;
mod error;
mod exit;
mod fate;
mod first;
#[cfg(feature = "_simulation")]
mod gate;
mod health;
mod hold;
mod hosts;
mod lease;
mod lease_state;
mod leases;
mod limits;
mod lock;
mod lock_options;
mod looks;
mod mailbox;
#[cfg(test)]
mod memory;
mod meter;
mod multi;
mod mutex;
mod node_data;
mod number;
mod operation;
mod options;
mod outages;
mod owner;
mod path;
mod patience;
mod process;
#[doc(hidden)]
pub mod queue;
mod random;
mod registry;
mod release;
mod room;
mod runtime;
mod rwlock;
mod scope;
mod secret;
mod semaphore;
mod servers;
mod session;
mod shown;
mod sight;
mod signals;
#[cfg(feature = "_simulation")]
#[doc(hidden)]
pub mod simulation;
mod state;
mod stats;
mod supervision;
mod term;
mod timeout_reason;
mod transaction;

pub use access::{Acl, Rule, Tls};
pub use any_lock::AnyLock;
pub use client::{Client, shutdown};
pub use client_source::ClientSource;
pub use contender::{About, Contender};
pub use dump::dump;
pub use dump_signal::dump_on;
pub use election::{Candidate, Election, Leaders, Leadership};
pub use error::{Error, ErrorKind, Result};
pub use health::Health;
pub use lease::Lease;
pub use lease_state::{LeaseState, LossReason};
pub use leases::Leases;
pub use lock::Lock;
pub use lock_options::LockOptions;
pub use multi::MultiLock;
pub use mutex::Mutex;
pub use node_data::NodeData;
pub use options::ClientOptions;
pub use owner::Owner;
pub use patience::Patience;
pub use queue::Naming;
pub use rwlock::ReadWriteLock;
pub use semaphore::{Permits, Semaphore};
pub use servers::{ServerProblem, ServerReport};
pub use sight::{HoldReport, LockMode, WaitReport};
pub use signals::close_on_signals;
pub use state::{ClientState, States};
pub use stats::{Histogram, RequestKind, Stats, Transport};
pub use timeout_reason::TimeoutReason;
pub use transaction::Transaction;

/// The README's example, compiled.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
pub struct Readme;

/// The page on elections, with its example compiled.
#[cfg(doctest)]
#[doc = include_str!("../../docs/election.md")]
pub struct Elections;

/// docs/rust.md's examples, compiled.
#[cfg(doctest)]
#[doc = include_str!("../../docs/rust.md")]
pub struct Rust;

/// A lease that nobody keeps guards nothing, and the compiler says so…
///
/// ```compile_fail
/// #![deny(unused_must_use)]
/// async fn example(lock: &zklock::Mutex) -> zklock::Result<()> {
///     lock.acquire().await?;
///     Ok(())
/// }
/// ```
///
/// … of that, and of nothing else there:
///
/// ```
/// #![deny(unused_must_use)]
/// async fn example(lock: &zklock::Mutex, locks: &zklock::MultiLock) -> zklock::Result<()> {
///     let _lease = lock.acquire().await?;
///     let _leases = locks.acquire().await?;
///     Ok(())
/// }
/// ```
///
/// Nor do several:
///
/// ```compile_fail
/// #![deny(unused_must_use)]
/// async fn example(locks: &zklock::MultiLock) -> zklock::Result<()> {
///     locks.acquire().await?;
///     Ok(())
/// }
/// ```
#[cfg(doctest)]
pub struct MustUse;
