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
//! `queue` decides, without I/O; `driver` carries out its decisions on a `session`; the handles in `lock` and `lease` are
//! thin. Each folder uses those on its right, and none on its left:
//! `blocking`, `internal` → `lock` → `client` → `driver` → `lease` → `session` → `config` → `runtime`, `metrics` →
//! `error` → `queue`.

pub mod blocking;
mod client;
mod config;
mod driver;
mod error;
#[doc(hidden)]
pub mod internal;
mod lease;
mod lock;
mod metrics;
#[doc(hidden)]
pub mod queue;
mod runtime;
mod session;

pub use client::dump::dump;
pub use client::dump_signal::dump_on;
pub use client::health::Health;
pub use client::node_data::NodeData;
pub use client::signals::close_on_signals;
pub use client::source::ClientSource;
pub use client::{Client, shutdown};
pub use config::ClientOptions;
pub use config::acl::{Acl, Rule};
pub use config::timeout::Timeout;
pub use config::tls::Tls;
pub use driver::status::{ClientState, States};
pub use error::deadlock::Deadlock;
pub use error::loss_reason::LossReason;
pub use error::server_report::{ServerProblem, ServerReport};
pub use error::timeout_reason::TimeoutReason;
pub use error::{Error, ErrorKind, FailedOperation, Result};
pub use lease::Lease;
pub use lease::lease_set::Leases;
pub use lease::mode::LockMode;
pub use lease::owner::Owner;
pub use lease::report::{HoldReport, WaitReport};
pub use lease::state::LeaseState;
pub use lease::transaction::Transaction;
pub use lock::Lock;
pub use lock::any::AnyLock;
pub use lock::election::{Candidate, Election, Leaders, Leadership};
pub use lock::multi::MultiLock;
pub use lock::mutex::Mutex;
pub use lock::once::Record;
pub use lock::once::slot::Slot;
pub use lock::options::LockOptions;
pub use lock::rwlock::ReadWriteLock;
pub use lock::semaphore::{Permits, Semaphore};
pub use metrics::{Histogram, RequestKind, Stats, Transport};
pub use queue::Naming;
pub use queue::contender::{Contender, ContenderInfo, OwnerInfo};

#[cfg(feature = "_simulation")]
#[doc(hidden)]
pub use runtime::simulation;
#[doc(hidden)]
pub use session::reply;
#[doc(hidden)]
pub use session::term::ModelTerm;

/// The README's example, compiled.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
pub struct Readme;

/// The page on elections, with its example compiled.
#[cfg(doctest)]
#[doc = include_str!("../../docs/election.md")]
pub struct Elections;

/// The page on hand-off, with its example compiled.
#[cfg(doctest)]
#[doc = include_str!("../../docs/caching.md")]
pub struct Caching;

/// The page on slots, with its example compiled.
#[cfg(doctest)]
#[doc = include_str!("../../docs/howto/once.md")]
pub struct Once;

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
