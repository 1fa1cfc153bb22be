//! A lock that consists of several locks and acquires all of them or none.

use std::pin::pin;
use std::time::Duration;

use tokio::time::Instant;

use crate::config::timeout::{Deadline, Timeout};
use crate::error::timeout_reason::TimeoutReason;
use crate::error::{Error, Result};
use crate::lease::Lease;
use crate::lease::lease_set::Leases;
use crate::lease::owner::{Owner, OwnerId};
use crate::lock::any::AnyLock;
use crate::lock::busy_is_none;
use crate::runtime;
use crate::runtime::backoff::Backoff;

/// Interval at which a waiter checks whether its own call holds the lock under another name.
const RECHECK_INTERVAL: Duration = Duration::from_secs(20);

/// Several locks that are acquired together, all or none, within one deadline.
///
/// All zklock programs acquire the locks in the same order, so two programs cannot wait for each
/// other. They sort the locks by the bytes of the path from the ensemble's root. Locks with the
/// same path on different ensembles are sorted by the names of the servers, so all programs must
/// use the same names for these servers. Curator's `InterProcessMultiLock` acquires the locks in
/// the order of the caller's list, so a program that uses it must sort the list by path.
///
/// A lock that is listed twice is acquired once. The write half of a read/write lock is acquired
/// before its read half.
///
/// ```no_run
/// # async fn example(client: &zklock::Client) -> zklock::Result<()> {
/// use zklock::{MultiLock, Mutex};
///
/// let (from, to) = (Mutex::new(client, "/accounts/1")?, Mutex::new(client, "/accounts/2")?);
/// let both = MultiLock::new([(&from).into(), (&to).into()])?;
/// let leases = both.acquire().await?;
/// leases.check()?;
/// leases.release().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct MultiLock {
    /// The locks, in the order in which they are acquired.
    locks: Vec<AnyLock>,
}

impl MultiLock {
    /// Creates a lock that acquires all these locks together.
    ///
    /// # Errors
    /// [`BadArgument`](crate::ErrorKind::BadArgument) in these cases:
    /// * The list is empty.
    /// * Two locks in the list have the same path and different clients, but the clients connect to
    ///   the same ensemble. Both are the same lock, so an acquire would wait for itself. If the
    ///   server names do not show that the ensemble is the same, this call succeeds, but the
    ///   acquire fails.
    /// * Two locks in the list have the same path but different kinds.
    /// * The list contains a lock twice, and the lock is not reentrant.
    pub fn new(locks: impl IntoIterator<Item = AnyLock>) -> Result<Self> {
        let mut locks: Vec<_> = locks.into_iter().collect();
        if locks.is_empty() {
            return Err(Error::bad_argument("locks", "must not be empty"));
        }
        locks.sort_by_cached_key(AnyLock::order);
        for namesakes in locks.chunk_by(|one, other| one.absolute_path() == other.absolute_path()) {
            for (place, one) in namesakes.iter().enumerate() {
                for other in &namesakes[place + 1..] {
                    check_namesakes(one, other)?;
                }
            }
        }
        locks.dedup_by_key(|lock| lock.order());
        Ok(Self { locks })
    }

    /// Returns the locks in the order in which they are acquired.
    #[must_use]
    pub fn locks(&self) -> &[AnyLock] {
        &self.locks
    }

    /// Acquires all locks for a new owner. Waits without a time limit.
    ///
    /// Cancel safe: if the future is dropped, the contender leaves all queues, and the locks that
    /// were already acquired are released.
    ///
    /// # Errors
    /// The same as for [`Lock::acquire`](crate::Lock::acquire).
    pub async fn acquire(&self) -> Result<Leases> {
        self.acquire_as(&Owner::new(), Timeout::Forever).await
    }

    /// Acquires all locks like [`acquire`](Self::acquire), but within at most `time` in total.
    ///
    /// Cancel safe like [`acquire`](Self::acquire).
    ///
    /// # Errors
    /// [`LockTimeout`](crate::ErrorKind::LockTimeout), whose message names the lock that the call
    /// waited for. Also the errors of [`acquire`](Self::acquire).
    pub async fn acquire_within(&self, time: Duration) -> Result<Leases> {
        self.acquire_as(&Owner::new(), time).await
    }

    /// Acquires all locks like [`acquire_within`](Self::acquire_within), but with a deadline
    /// instead of a duration.
    ///
    /// Cancel safe like [`acquire`](Self::acquire).
    ///
    /// # Errors
    /// The same as for [`acquire_within`](Self::acquire_within).
    pub async fn acquire_until(&self, moment: std::time::Instant) -> Result<Leases> {
        self.acquire_as(&Owner::new(), moment).await
    }

    /// Acquires all locks if all are free, without queueing. Returns `None` if a lock is taken.
    ///
    /// The call can hold some of the locks for a moment before it finds that another one is taken.
    /// If it loses one of the locks before it has all of them, it also returns `None`. The call
    /// takes at most the client's connect timeout. If the locks have several clients, the longest
    /// of their connect timeouts applies.
    ///
    /// Cancel safe like [`acquire`](Self::acquire).
    ///
    /// # Errors
    /// The same as for [`Lock::try_acquire`](crate::Lock::try_acquire).
    pub async fn try_acquire(&self) -> Result<Option<Leases>> {
        busy_is_none(self.acquire_as(&Owner::new(), Timeout::Try).await)
    }

    /// Acquires all locks like [`try_acquire`](Self::try_acquire), but the servers must reply
    /// within `time` in total.
    ///
    /// Cancel safe like [`acquire`](Self::acquire).
    ///
    /// # Errors
    /// The same as for [`try_acquire`](Self::try_acquire).
    pub async fn try_acquire_within(&self, time: Duration) -> Result<Option<Leases>> {
        busy_is_none(self.acquire_as(&Owner::new(), Timeout::TryWithin(time)).await)
    }

    /// Acquires all locks for `owner` within one deadline. Returns the leases in the order in which
    /// the locks were acquired.
    ///
    /// If a lock is lost while the call waits for another one, all locks are released and acquired
    /// again. The first retry is immediate. Before each later retry, the call pauses. The pauses
    /// grow to about a second. If `max_hold` of one lock is shorter than the time that the other
    /// acquires need, the call never succeeds.
    ///
    /// Cancel safe like [`acquire`](Self::acquire).
    ///
    /// # Errors
    /// * [`LockTimeout`](crate::ErrorKind::LockTimeout) if not all locks could be acquired in time,
    ///   or with [`Timeout::Try`] if not all are free.
    /// * [`BadArgument`](crate::ErrorKind::BadArgument) if the owner already holds one of the
    ///   locks, but does not hold a lock that must be acquired before it.
    /// * [`BadArgument`](crate::ErrorKind::BadArgument) if two of the locks turn out to be the same
    ///   lock, because their clients use different host names for the same ensemble.
    /// * The errors of [`Lock::acquire_as`](crate::Lock::acquire_as).
    pub async fn acquire_as(&self, owner: &Owner, timeout: impl Into<Timeout>) -> Result<Leases> {
        self.acquire_as_each(&vec![owner.clone(); self.locks.len()], timeout).await
    }

    /// Acquires all locks like [`acquire_as`](Self::acquire_as), but with a separate owner for each
    /// of the [`locks`](Self::locks).
    ///
    /// Use this function if different owners already hold some of the locks.
    ///
    /// Cancel safe like [`acquire`](Self::acquire).
    ///
    /// # Errors
    /// The errors of [`acquire_as`](Self::acquire_as), and
    /// [`BadArgument`](crate::ErrorKind::BadArgument) if the number of owners differs from the
    /// number of locks.
    pub async fn acquire_as_each(&self, owners: &[Owner], timeout: impl Into<Timeout>) -> Result<Leases> {
        self.acquire_for(owners, None, timeout.into()).await
    }

    /// Acquires all locks like [`acquire_as_each`](Self::acquire_as_each). If `caller` is given,
    /// messages and other contenders show it instead of the owners.
    pub(crate) async fn acquire_for(
        &self,
        owners: &[Owner],
        caller: Option<&Owner>,
        timeout: Timeout,
    ) -> Result<Leases> {
        if owners.len() != self.locks.len() {
            let problem =
                format!("are {}, but must be {}, one for each lock", owners.len(), self.locks.len());
            return Err(Error::bad_argument("owners", problem));
        }
        self.check_order(owners)?;
        let began = Instant::now();
        let longest = self.locks.iter().map(AnyLock::connect_timeout).max().unwrap_or_default();
        let timeout = timeout.bounded(longest);
        let deadline = Deadline::after(timeout);
        let explain = |error, lock: &AnyLock| lock.explain(error, began, timeout);
        let callers: Vec<_> = owners.iter().map(|owner| (owner.id(), caller.unwrap_or(owner))).collect();
        let mut backoff: Option<Backoff> = None;
        loop {
            let leases = self.acquire_once(&callers, deadline, explain).await?;
            if let Some(leases) = leases.filter(Leases::is_held) {
                return Ok(leases);
            }
            // One lock was lost while the call acquired the others. With [`Timeout::Try`], do not
            // start again, because with a very short `max_hold` the call would never succeed.
            if deadline.is_try() {
                let message = "one of the locks was lost while the others were acquired; try again";
                return Err(Error::timed_out(TimeoutReason::Unknown, message));
            }
            // Pause before the next round. If a lock's `max_hold` is shorter than the wait for
            // another lock, every round fails.
            match &mut backoff {
                Some(backoff) => pause(backoff.pause(), deadline).await?,
                first => *first = Some(Backoff::default()),
            }
        }
    }

    /// Acquires all locks. Returns `None` if one of them was lost before all were acquired.
    async fn acquire_once(
        &self,
        owners: &[(OwnerId, &Owner)],
        deadline: Deadline,
        explain: impl Fn(Error, &AnyLock) -> Error,
    ) -> Result<Option<Leases>> {
        let mut taken = Leases::default();
        for (place, owner) in owners.iter().copied().enumerate() {
            tokio::select! {
                biased;
                lease = self.acquire_member(place, owner, deadline, &taken) => {
                    taken.push(lease.map_err(|error| explain(error, &self.locks[place]))?);
                }
                _ = taken.lost() => return Ok(None),
            }
        }
        Ok(Some(taken))
    }

    /// Acquires one of the locks. Fails if this call already holds the same lock under another
    /// name. Without this check, the call would wait for itself.
    async fn acquire_member(
        &self,
        place: usize,
        owner: (OwnerId, &Owner),
        deadline: Deadline,
        taken: &Leases,
    ) -> Result<Lease> {
        let (before, lock) = (&self.locks[..place], &self.locks[place]);
        let namesakes = || {
            let same_path = |(other, _): &(&AnyLock, _)| other.absolute_path() == lock.absolute_path();
            let taken = before.iter().zip(taken).rev().take_while(same_path);
            taken.filter(|(other, _)| !other.same_client(lock))
        };
        if namesakes().next().is_none() {
            return lock.acquire_for(owner, deadline.left()).await;
        }
        let checked = || async {
            for (other, lease) in namesakes() {
                if lock.sees(lease, deadline).await? {
                    return Err(same_lock_error(other, lock));
                }
            }
            Ok(())
        };
        // Check before the acquire. Otherwise, a call with [`Timeout::Try`] would report that the
        // lock is taken, although this call itself holds it.
        checked().await?;
        let mut acquired = pin!(lock.acquire_for(owner, deadline.left()));
        loop {
            tokio::select! {
                biased;
                lease = &mut acquired => return lease,
                slept = runtime::sleep(RECHECK_INTERVAL) => slept?,
            }
            // Check again, because a deposed leader might have answered the first check. It still
            // replies to its clients for a while, but does not know new nodes.
            checked().await?;
        }
    }

    fn check_order(&self, owners: &[Owner]) -> Result<()> {
        let mut missing: Option<&AnyLock> = None;
        for (lock, owner) in self.locks.iter().zip(owners) {
            match (lock.owned_by(owner)?, missing) {
                (true, Some(missing)) => {
                    let problem = format!(
                        "{:?} is already held, but {:?} must be acquired before it; release it first",
                        lock.path(),
                        missing.path()
                    );
                    return Err(Error::bad_argument("locks", problem));
                }
                (false, None) => missing = Some(lock),
                _ => {}
            }
        }
        Ok(())
    }
}

/// Waits for `time`, but no longer than until the deadline.
async fn pause(time: Duration, deadline: Deadline) -> Result<()> {
    tokio::select! {
        slept = runtime::sleep(time) => slept,
        passed = deadline.passed() => passed,
    }
}

/// Checks whether two locks with the same path can be members of one multi-lock.
fn check_namesakes(one: &AnyLock, other: &AnyLock) -> Result<()> {
    let problem = if !one.same_client(other) {
        let (servers, others) = (one.hosts().ensemble(), other.hosts().ensemble());
        // A server belongs to one ensemble, so a common server proves that both locks are the same.
        // Without a common server, one ensemble might still have two names. `acquire_member` checks
        // that with a read.
        return if servers.iter().any(|server| others.contains(server)) {
            Err(same_lock_error(one, other))
        } else {
            Ok(())
        };
    } else if one.family() != other.family() {
        format!("is used as a {} and as a {}; use different paths", one.family(), other.family())
    } else if !(one.reentrant() && other.reentrant()) {
        "is listed twice and is not reentrant".to_owned()
    } else {
        return Ok(());
    };
    Err(Error::bad_argument("locks", format_args!("{:?} {problem}", one.path())))
}

/// Returns the error for one lock that is listed through two clients.
fn same_lock_error(one: &AnyLock, other: &AnyLock) -> Error {
    let problem = format!(
        "{:?} at {} and {:?} at {} are the same lock, and two clients would wait for each other; use one client \
         for both",
        one.path(),
        one.hosts(),
        other.path(),
        other.hosts()
    );
    Error::bad_argument("locks", problem)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::Client;
    use crate::client::per_process::PerProcessClient;
    use crate::client::source::ClientSource;
    use crate::config::ClientOptions;
    use crate::lock::mutex::Mutex;
    use crate::lock::rwlock::ReadWriteLock;

    /// Creates a client that never connects.
    fn client(hosts: &str) -> Client {
        Client::new(ClientOptions::new(Some(hosts)).unwrap())
    }

    fn mutex(client: &Client, path: &str) -> AnyLock {
        Mutex::new(client, path).unwrap().into()
    }

    fn paths(locks: Vec<AnyLock>) -> Vec<String> {
        let multi = MultiLock::new(locks).unwrap();
        multi.locks().iter().map(|lock| format!("{}{}", lock.hosts(), lock.path())).collect()
    }

    #[test]
    fn the_path_decides_before_the_name_of_the_ensemble() {
        let (number, name) = (client("127.0.0.1:1"), client("localhost:1"));
        for (first, second) in [(&number, &name), (&name, &number)] {
            let order = paths(vec![mutex(second, "/b"), mutex(first, "/a")]);
            assert!(order[0].ends_with("/a") && order[1].ends_with("/b"), "{order:?}");
        }
        // The order compares the bytes of the path from the ensemble's root, which includes the
        // chroot. So `-` precedes `/`.
        let below = client("localhost:1/a");
        let order = paths(vec![mutex(&below, "/x"), mutex(&number, "/a/y"), mutex(&number, "/a-b")]);
        assert_eq!(order, ["127.0.0.1:1/a-b", "localhost:1/a/x", "127.0.0.1:1/a/y"]);
    }

    #[test]
    fn on_one_path_the_order_of_the_servers_in_the_text_does_not_matter() {
        let ensembles = [client("b:1,c:1"), client("D:1,a:1")];
        let forth = paths(ensembles.iter().map(|client| mutex(client, "/x")).collect());
        let back = paths(ensembles.iter().rev().map(|client| mutex(client, "/x")).collect());
        assert_eq!(forth, back);
        assert_eq!(forth, ["D:1,a:1/x", "b:1,c:1/x"]);
    }

    #[test]
    fn one_path_through_clients_with_a_server_in_common_is_refused_with_both_names() {
        let (three, two, one) = (client("a:1,b:1,c:1"), client("d:1,B:1"), client("e:1"));
        let refused = MultiLock::new(vec![mutex(&three, "/x"), mutex(&one, "/x"), mutex(&two, "/x")]);
        let error = refused.unwrap_err();
        assert_eq!((error.code(), error.argument()), ("BAD_ARGUMENT", Some("locks")));
        for name in ["\"/x\" at a:1,b:1,c:1", "\"/x\" at d:1,B:1"] {
            assert!(error.to_string().contains(name), "{error}");
        }
    }

    #[test]
    fn a_writer_is_taken_before_its_reader_and_a_lock_once() {
        let client = client("a:1");
        let ReadWriteLock { read_lock, write_lock } = ReadWriteLock::new(&client, "/x").unwrap();
        let read: AnyLock = read_lock.into();
        let multi = MultiLock::new(vec![read.clone(), write_lock.into(), read.clone()]).unwrap();
        assert_eq!(multi.locks().len(), 2);
        assert!(multi.locks()[1].same_lock(&read));
    }

    #[test]
    fn a_client_of_which_every_process_has_its_own_is_one_client() {
        let new = || PerProcessClient::new(ClientOptions::new(Some("a:1")).unwrap());
        let (one, other) = (new(), new());
        let lock = |client: &PerProcessClient| {
            AnyLock::from(Mutex::new(ClientSource::EachProcess(client.clone()), "/x").unwrap())
        };
        assert_eq!(MultiLock::new(vec![lock(&one), lock(&one)]).unwrap().locks().len(), 1);
        let refused = MultiLock::new(vec![lock(&one), lock(&other)]).unwrap_err();
        assert!(refused.to_string().contains("two clients would wait for each other"), "{refused}");
    }
}
