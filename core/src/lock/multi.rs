//! Several locks taken as one: all or nothing.

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

/// After this long a waiter for a lock that may have two names looks again whether it waits for itself.
const LONG_SILENCE: Duration = Duration::from_secs(20);

/// Several locks that are acquired together, all or none, within one deadline.
///
/// They are taken in an order that is the same in all zklock programs: by path from the ensemble's root, byte by byte,
/// and on one path by the names of the servers. So two programs cannot wait for each other, unless both take one path on
/// two ensembles which they do not call by the same names. Curator's `InterProcessMultiLock` keeps its caller's order:
/// such peers must sort by path. A lock that is named twice is taken once; the write half of a read/write lock is taken
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
    /// In the order in which they are taken.
    locks: Vec<AnyLock>,
}

impl MultiLock {
    /// Locks that are to be acquired together.
    ///
    /// # Errors
    /// [`BadArgument`](crate::ErrorKind::BadArgument) for an empty list, for one path through two clients of one
    /// ensemble (they would wait for each other; if no server's name shows that it is one, the acquire is refused), for
    /// one path as locks of two kinds, or for a lock without re-entry that is named twice.
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

    /// The locks, in the order in which they are taken.
    #[must_use]
    pub fn locks(&self) -> &[AnyLock] {
        &self.locks
    }

    /// Acquires all as a new owner, waiting as long as it takes.
    ///
    /// Cancel safe: dropping the future leaves all queues and releases what was acquired.
    ///
    /// # Errors
    /// As [`Lock::acquire`](crate::Lock::acquire).
    pub async fn acquire(&self) -> Result<Leases> {
        self.acquire_as(&Owner::new(), Timeout::Forever).await
    }

    /// Like [`acquire`](Self::acquire), within `time`, which covers all of them.
    ///
    /// Cancel safe as [`acquire`](Self::acquire).
    ///
    /// # Errors
    /// [`LockTimeout`](crate::ErrorKind::LockTimeout), which names the lock that was waited for, and those of
    /// [`acquire`](Self::acquire).
    pub async fn acquire_within(&self, time: Duration) -> Result<Leases> {
        self.acquire_as(&Owner::new(), time).await
    }

    /// Like [`acquire_within`](Self::acquire_within), until this moment.
    ///
    /// Cancel safe as [`acquire`](Self::acquire).
    ///
    /// # Errors
    /// As [`acquire_within`](Self::acquire_within).
    pub async fn acquire_until(&self, moment: std::time::Instant) -> Result<Leases> {
        self.acquire_as(&Owner::new(), moment).await
    }

    /// Acquires all if all are free, without queueing for any. Some may be held for a moment before one turns out
    /// to be taken; one that is lost in that moment counts as taken. The connect time-out limits all of it together; of
    /// several clients the longest one counts.
    ///
    /// Cancel safe as [`acquire`](Self::acquire).
    ///
    /// # Errors
    /// As [`Lock::try_acquire`](crate::Lock::try_acquire).
    pub async fn try_acquire(&self) -> Result<Option<Leases>> {
        busy_is_none(self.acquire_as(&Owner::new(), Timeout::Try).await)
    }

    /// Like [`try_acquire`](Self::try_acquire), but the servers have to answer within `time` in all.
    ///
    /// Cancel safe as [`acquire`](Self::acquire).
    ///
    /// # Errors
    /// As [`try_acquire`](Self::try_acquire).
    pub async fn try_acquire_within(&self, time: Duration) -> Result<Option<Leases>> {
        busy_is_none(self.acquire_as(&Owner::new(), Timeout::TryWithin(time)).await)
    }

    /// Acquires all for `owner`, within one deadline; the leases are in the order in which they were taken. A lock that
    /// is lost while another is waited for is acquired again, after all the others have been released: at once the first
    /// time, then after pauses that grow to a second or so. Locks that may be held only for a shorter time than it takes
    /// to acquire the others are not acquired together.
    ///
    /// Cancel safe as [`acquire`](Self::acquire).
    ///
    /// # Errors
    /// [`LockTimeout`](crate::ErrorKind::LockTimeout) if not all could be acquired in time, or not at once with
    /// [`Timeout::Try`]; [`BadArgument`](crate::ErrorKind::BadArgument) if the owner holds one of them but not one
    /// that comes before it: taking that now would break the order; or if one path through two clients turns out to be
    /// one lock, because their hosts are different names of one ensemble; and those of
    /// [`Lock::acquire_as`](crate::Lock::acquire_as).
    pub async fn acquire_as(&self, owner: &Owner, timeout: impl Into<Timeout>) -> Result<Leases> {
        self.acquire_as_each(&vec![owner.clone(); self.locks.len()], timeout).await
    }

    /// Like [`acquire_as`](Self::acquire_as), with an owner for each of the [`locks`](Self::locks): for programs that
    /// hold some of them as one owner and some as another.
    ///
    /// Cancel safe as [`acquire`](Self::acquire).
    ///
    /// # Errors
    /// As [`acquire_as`](Self::acquire_as), and [`BadArgument`](crate::ErrorKind::BadArgument) if the number of owners
    /// differs from that of locks.
    pub async fn acquire_as_each(&self, owners: &[Owner], timeout: impl Into<Timeout>) -> Result<Leases> {
        self.acquire_for(owners, None, timeout.into()).await
    }

    /// The same. `caller`: the owner that others are told of, unless that is the owner of each.
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
            // Not all can be had at once. Some that may be held only for a moment can never be.
            if deadline.is_try() {
                let message = "one of several locks was lost while the others were tried; try again";
                return Err(Error::timed_out(TimeoutReason::Unknown, message));
            }
            // A limit of a member that is shorter than the wait for another ends every attempt.
            match &mut backoff {
                Some(backoff) => pause(backoff.pause(), deadline).await?,
                first => *first = Some(Backoff::default()),
            }
        }
    }

    /// Acquires all, or `None` if one was lost on the way. `explain`: the error of the whole attempt, from that of one lock.
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

    /// Acquires one, unless it is one of those that are taken already, by another name: it would wait for itself.
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
                    return Err(one_lock(other, lock));
                }
            }
            Ok(())
        };
        // A try must not say that the lock is taken, so this comes first.
        checked().await?;
        let mut acquired = pin!(lock.acquire_for(owner, deadline.left()));
        loop {
            tokio::select! {
                biased;
                lease = &mut acquired => return lease,
                slept = runtime::sleep(LONG_SILENCE) => slept?,
            }
            // A deposed leader, which answers its own clients for a while, may have missed the other's node.
            checked().await?;
        }
    }

    fn check_order(&self, owners: &[Owner]) -> Result<()> {
        let mut missing: Option<&AnyLock> = None;
        for (lock, owner) in self.locks.iter().zip(owners) {
            match (lock.owned_by(owner)?, missing) {
                (true, Some(missing)) => {
                    let problem = format!(
                        "{:?} is held already, but {:?} must be acquired before it; release it first",
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

/// Waits for `time`, but no longer than the deadline.
async fn pause(time: Duration, deadline: Deadline) -> Result<()> {
    tokio::select! {
        slept = runtime::sleep(time) => slept,
        passed = deadline.passed() => passed,
    }
}

/// Fails if two locks at one path cannot be members of one lock.
fn check_namesakes(one: &AnyLock, other: &AnyLock) -> Result<()> {
    let problem = if !one.same_client(other) {
        let (servers, others) = (one.hosts().ensemble(), other.hosts().ensemble());
        // A server belongs to one ensemble. Without one in common these may be two, or two names of one: only the
        // servers can tell, when both are acquired.
        return if servers.iter().any(|server| others.contains(server)) {
            Err(one_lock(one, other))
        } else {
            Ok(())
        };
    } else if one.family() != other.family() {
        format!("is named as a {} and as a {}; give them different paths", one.family(), other.family())
    } else if !(one.reentrant() && other.reentrant()) {
        "is named twice and does not re-enter".to_owned()
    } else {
        return Ok(());
    };
    Err(Error::bad_argument("locks", format_args!("{:?} {problem}", one.path())))
}

/// The error for one lock that is named through two clients.
fn one_lock(one: &AnyLock, other: &AnyLock) -> Error {
    let problem = format!(
        "{:?} at {} and {:?} at {} are one lock, and two clients would wait for each other; name it through one client",
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

    /// A client that never connects.
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
        // Seen from the root: what is below a chroot has its place among the others. Byte by byte: '-' before '/'.
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
