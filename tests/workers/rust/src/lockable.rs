//! A common interface of all kinds of locks, for the commands.

use std::time::Duration;

use serde_json::{Value, json};
use zklock::{
    AnyLock, Candidate, ClientSource, Contender, Election, Error, Lease, LockOptions, MultiLock, Mutex,
    Owner, Permits, ReadWriteLock, Semaphore, Timeout,
};

use crate::command::{Kind, Naming};

/// The options of a lock that depend on its kind.
#[derive(Default)]
pub(crate) struct Manner {
    pub(crate) reentrant: Option<bool>,
    pub(crate) label: Option<String>,
    pub(crate) naming: Naming,
    pub(crate) candidate: Option<String>,
    pub(crate) max_hold: Option<Duration>,
    pub(crate) max_waiters: Option<u32>,
    pub(crate) cohort: Option<u32>,
    pub(crate) linger: Option<Duration>,
}

/// Something that can be acquired.
pub(crate) enum Lockable {
    One(AnyLock),
    Several(MultiLock),
    Election(Election),
}

impl Lockable {
    pub(crate) fn new(
        source: ClientSource,
        path: &str,
        kind: Kind,
        permits: Permits,
        manner: Manner,
    ) -> Result<Self, Error> {
        let Manner { reentrant, label, naming, max_hold, max_waiters, cohort, linger, candidate } = manner;
        let options = LockOptions::default();
        let options = if let Some(label) = label { options.label(label) } else { options };
        let options = if let Some(time) = max_hold { options.max_hold(time) } else { options };
        let options = if let Some(most) = max_waiters { options.max_waiters(most) } else { options };
        let options = if let Some(holds) = cohort { options.cohort(holds) } else { options };
        let options = if let Some(time) = linger { options.linger(time) } else { options };
        Ok(Self::One(match kind {
            Kind::Mutex => {
                let options = options.reentrant(reentrant.unwrap_or(true)).naming(naming.into());
                Mutex::with_options(source, path, options)?.into()
            }
            Kind::Read | Kind::Write => {
                let lock = ReadWriteLock::with_options(source, path, options.naming(naming.into()))?;
                if matches!(kind, Kind::Read) { lock.read_lock } else { lock.write_lock }.into()
            }
            Kind::Semaphore => Semaphore::with_options(source, path, permits, options)?.into(),
            Kind::Election => {
                let election = match candidate {
                    Some(id) => Election::with_id(source, path, id)?,
                    None => Election::new(source, path)?,
                };
                return Ok(Self::Election(election));
            }
        }))
    }

    /// Acquires the lock. Returns one lease, `count` leases, or one lease for each member.
    pub(crate) async fn acquire(
        &self,
        owner: &Owner,
        timeout: Timeout,
        count: Option<u32>,
    ) -> Result<Vec<Lease>, Error> {
        match (self, count) {
            (Self::One(AnyLock::Semaphore(semaphore)), Some(count)) => {
                Ok(semaphore.acquire_many(count, timeout).await?.into_iter().collect())
            }
            (Self::One(lock), _) => Ok(vec![lock.acquire_as(owner, timeout).await?]),
            (Self::Election(election), _) => Ok(vec![election.campaign_with(timeout).await?.into()]),
            (Self::Several(locks), _) => Ok(locks.acquire_as(owner, timeout).await?.into_iter().collect()),
        }
    }

    /// Returns whether the owner holds the lock, or `None` for a lock without owners.
    pub(crate) fn owned_by(&self, owner: &Owner) -> Result<Option<bool>, Error> {
        match self {
            Self::One(AnyLock::Lock(lock)) => lock.owned_by(owner).map(Some),
            _ => Ok(None),
        }
    }

    pub(crate) fn one(&self) -> Option<&AnyLock> {
        match self {
            Self::One(lock) => Some(lock),
            Self::Several(_) | Self::Election(_) => None,
        }
    }

    /// Returns `true` if an acquire returns several leases.
    pub(crate) fn is_several(&self) -> bool {
        matches!(self, Self::Several(_))
    }

    pub(crate) fn election(&self) -> Option<&Election> {
        match self {
            Self::Election(election) => Some(election),
            _ => None,
        }
    }
}

/// Returns the permits that a command asks for.
pub(crate) fn permits(number: Option<u32>, shared_count: Option<&str>) -> Permits {
    match shared_count {
        Some(path) => Permits::SharedCount(path.to_owned()),
        None => Permits::Fixed(number.unwrap_or(1)),
    }
}

/// Returns a candidate of an election in the protocol's form.
pub(crate) fn candidate(candidate: &Candidate) -> Value {
    json!({
        "position": candidate.position,
        "id": candidate.id,
        "node": candidate.node,
        "session": candidate.session_id.to_string(),
        "token": candidate.fencing_token.to_string(),
    })
}

/// Returns a contender in the protocol's form.
pub(crate) fn describe(contender: &Contender) -> Value {
    let about = contender.about.as_ref();
    // Each byte becomes one character, so that no data is lost.
    let data: String = contender.data.iter().copied().map(char::from).collect();
    json!({
        "position": contender.position,
        "node": contender.node,
        "reader": contender.reader,
        "session": contender.session_id.to_string(),
        "token": contender.fencing_token.to_string(),
        "host": about.map(|about| &about.host),
        "pid": about.map(|about| about.pid),
        "language": about.map(|about| &about.language),
        "label": about.and_then(|about| about.label.as_ref()),
        "since": about.map(|about| about.since),
        "cohort": about.and_then(|about| about.cohort),
        "linger": about.and_then(|about| about.linger).map(|time| time.as_millis()),
        "data": data,
        "data_length": contender.data_length,
    })
}
