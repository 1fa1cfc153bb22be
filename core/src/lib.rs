//! Distributed locks on Apache ZooKeeper: fair, reentrant, fenced, wire-compatible with Apache
//! Curator.
//!
//! A [`Client`] keeps a session with an ensemble. A [`Mutex`] is a lock at a path. An acquire
//! returns a [`Lease`], which proves that the lock is held and contains a fencing token. The lock
//! is released when the lease is dropped. Java services that use Curator's `InterProcessMutex`, and
//! other programs that use Curator's node layout, can share the same locks.
//!
//! The library does all its work on its own thread, so you can await its futures on any executor.
//!
//! # When not to use it
//! Within one process use `std::sync::Mutex`, which sends no request. Also, a lock cannot protect a
//! resource from a paused process. If a process is paused, for example by a debugger or a suspended
//! machine, it can lose the lock without noticing before it continues. So if the guarded resource
//! can check a token, pass [`Lease::fencing_token`] to it.
//!
//! # Statistics and events
//! [`Client::stats`] returns counters of the client's work. The library sends events to `tracing`,
//! with targets that begin with `zklock`: session changes and losses at `INFO` and `WARN`, every
//! lock operation at `DEBUG`. The library installs no subscriber.
//!
//! # Glossary
//! Each term has one meaning, here and in the other languages.
//!
//! | Word | Meaning |
//! |---|---|
//! | *lock* | A directory in ZooKeeper, identified by its path, and the objects that acquire it. A lock *guards* a resource |
//! | *contender* | A participant in a lock's queue, holding or waiting; it has its own *node* |
//! | *owner* | The identity that can re-enter a lock it already holds: an [`Owner`] |
//! | *hold* | Possession of a lock by an owner, from the grant to the last release or the loss |
//! | *lease* | One level of a hold: the value that an acquire returns ([`Lease`]) |
//! | *permit* | The lease that an acquire of a semaphore returns. A semaphore has a number of permits ([`Permits`]) |
//! | *term* | The time until which a hold is certain even if the server sends no further reply |
//! | *state* | The state of a client ([`ClientState`]) or of a lease ([`LeaseState`]) |
//! | *shared* | A *shared* client is the process's single client with given options ([`Client::shared`]) |
//!
//! # Layers
//! `queue` decides what a contender does next, and does no I/O. `driver` sends the requests that
//! follow from these decisions, on a `session`. The types in `lock` and `lease` pass a program's
//! calls to the driver. Each folder uses only folders to its right: `blocking`, `internal` → `lock`
//! → `client` → `driver` → `lease` → `session` → `config` → `runtime`, `metrics` → `error` →
//! `queue`, `system`.

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
mod system;

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
pub use lock::once::{Record, Slot};
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

/// Compiles the README's example.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
pub struct Readme;

/// Compiles the example of the page on elections.
#[cfg(doctest)]
#[doc = include_str!("../../docs/election.md")]
pub struct Elections;

/// Compiles the example of the page on hand-off.
#[cfg(doctest)]
#[doc = include_str!("../../docs/caching.md")]
pub struct Caching;

/// Compiles the example of the page on slots.
#[cfg(doctest)]
#[doc = include_str!("../../docs/howto/once.md")]
pub struct Once;

/// Compiles the examples of docs/rust.md.
#[cfg(doctest)]
#[doc = include_str!("../../docs/rust.md")]
pub struct Rust;

/// The compiler reports an unused lease, because dropping a lease immediately releases the lock.
///
/// ```compile_fail
/// #![deny(unused_must_use)]
/// async fn example(lock: &zklock::Mutex) -> zklock::Result<()> {
///     lock.acquire().await?;
///     Ok(())
/// }
/// ```
///
/// The unused lease is the only error in this example. The same code compiles if it keeps the
/// leases:
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
/// The compiler also reports unused leases of a [`MultiLock`]:
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
