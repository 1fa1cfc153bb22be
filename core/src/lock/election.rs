//! Leader election: an exclusive lock whose holder is the leader, compatible with Curator's
//! `LeaderLatch`.

pub(crate) mod run;

use std::future::poll_fn;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use crate::client::source::ClientSource;
use crate::config::size_limits;
use crate::config::timeout::{Deadline, Timeout};
use crate::driver::mailbox::Query;
use crate::driver::mailbox::node_watch::NodeWatch;
use crate::driver::mailbox::replies::First;
use crate::error::Result;
use crate::lease::Lease;
use crate::lease::owner::Owner;
use crate::lock::options::{LockOptions, LockSettings};
use crate::lock::{Acquiring, Lock};
use crate::queue::Kind;
use crate::queue::contender::{Contender, ContenderInfo};

/// Time without an event after which an observer reads the leader again, in case it missed a watch
/// event (rule 10).
const RECHECK_INTERVAL: Duration = Duration::from_secs(60);

/// One candidate for the leadership at a path, or an observer of the leader.
///
/// Candidates become the leader in the order in which the server queued them. An election is an
/// exclusive lock with all guarantees of this library: fair order, fencing tokens, and notice to
/// the leader before another candidate can lead. Services that use Curator's `LeaderLatch` can take
/// part in the same election.
///
/// An election object is one candidate, even if several callers campaign through it. Overlapping
/// campaigns share a node and the leadership, which ends when the last [`Leadership`] is resigned.
/// A clone is the same candidate. Creating an election object sends no request.
///
/// ```no_run
/// # async fn example(client: &zklock::Client) -> zklock::Result<()> {
/// let election = zklock::Election::with_id(client, "/elections/scheduler", "scheduler-1")?;
/// let leadership = election.campaign().await?;
/// println!("leading, with token {}", leadership.fencing_token());
/// tokio::select! {
///     reason = leadership.lost() => println!("leads no longer: {reason}"),
///     () = run_the_scheduler() => leadership.resign().await?,
/// }
/// # Ok(())
/// # }
/// # async fn run_the_scheduler() {}
/// ```
#[derive(Clone, Debug)]
pub struct Election {
    lock: Arc<Lock>,
    owner: Owner,
    id: Option<Arc<str>>,
}

impl Election {
    /// Creates an election at `path`, an absolute path relative to the client's chroot.
    ///
    /// Missing directories are created when they are needed. The candidate's id is `host:pid`, or
    /// empty if the client was created with the option `identify(false)`.
    ///
    /// # Errors
    /// [`BadArgument`](crate::ErrorKind::BadArgument) for a malformed path.
    pub fn new(client: impl Into<ClientSource>, path: impl AsRef<str>) -> Result<Self> {
        Self::make(client.into(), path.as_ref(), None)
    }

    /// Creates an election in which the candidate has this id.
    ///
    /// Every client with read permission can read the id, and Curator's `getLeader().getId()`
    /// returns it. Ids need not be unique. An id can be empty and has at most 1024 bytes.
    ///
    /// # Errors
    /// [`BadArgument`](crate::ErrorKind::BadArgument) for a malformed path, or an id that is too
    /// long.
    pub fn with_id(
        client: impl Into<ClientSource>,
        path: impl AsRef<str>,
        id: impl Into<Arc<str>>,
    ) -> Result<Self> {
        let id = id.into();
        size_limits::check("id", id.len(), size_limits::LABEL)?;
        Self::make(client.into(), path.as_ref(), Some(id))
    }

    fn make(source: ClientSource, path: &str, id: Option<Arc<str>>) -> Result<Self> {
        let settings = LockSettings { label: id.clone(), ..LockOptions::default().of_mutex() };
        let lock = Arc::new(Lock::new(source, path, Kind::Lead, settings)?);
        Ok(Self { lock, owner: Owner::new(), id })
    }

    /// Returns the same candidate, bound to its current client.
    ///
    /// An election on the shared client gets a new client after the program has closed the shared
    /// client. Without this step, the candidate would continue to lead although the program has
    /// closed all clients.
    ///
    /// # Errors
    /// The errors that [`campaign`](Self::campaign) can return before it sends a request.
    pub(crate) fn on_one_client(&self) -> Result<Self> {
        Ok(Self {
            lock: Arc::new(self.lock.on_one_client()?),
            owner: self.owner.clone(),
            id: self.id.clone(),
        })
    }

    /// Returns the path of the election, as given.
    #[must_use]
    pub fn path(&self) -> &str {
        self.lock.path()
    }

    /// Returns the candidate's id.
    #[must_use]
    pub fn id(&self) -> String {
        // Compute the default id only now: it contains the process id, and the process can fork
        // after it has created the candidate.
        self.id
            .as_deref()
            .map_or_else(|| ContenderInfo::candidate_id(self.lock.source().options()), str::to_owned)
    }

    /// Enters the election and waits, without a time limit, until this candidate leads.
    ///
    /// If the connection or the session is lost, the call continues to wait. If this candidate
    /// already leads, the call returns immediately and shares the leadership.
    ///
    /// Cancel safe: dropping the future withdraws the candidate. If it becomes the leader at the
    /// same moment, it resigns.
    ///
    /// # Errors
    /// The errors of [`Lock::acquire`], and [`BadArgument`](crate::ErrorKind::BadArgument) if a
    /// kazoo contender is in the queue. kazoo's election does not recognize zklock's candidates, so
    /// candidates of both libraries could lead at the same time.
    pub async fn campaign(&self) -> Result<Leadership> {
        self.campaign_with(Timeout::Forever).await
    }

    /// Campaigns like [`campaign`](Self::campaign), but for at most `time`. This includes
    /// connecting, queueing and waiting.
    ///
    /// Cancel safe like [`campaign`](Self::campaign).
    ///
    /// # Errors
    /// [`LockTimeout`](crate::ErrorKind::LockTimeout) after `time`, and the errors of
    /// [`campaign`](Self::campaign).
    pub async fn campaign_within(&self, time: Duration) -> Result<Leadership> {
        self.campaign_with(Timeout::For(time)).await
    }

    /// Campaigns like [`campaign`](Self::campaign), but with a timeout.
    ///
    /// With [`Timeout::Try`], the candidate becomes the leader if there is no other candidate.
    /// Otherwise the call fails with [`LockTimeout`](crate::ErrorKind::LockTimeout).
    ///
    /// Cancel safe like [`campaign`](Self::campaign).
    ///
    /// # Errors
    /// The same as for [`campaign_within`](Self::campaign_within).
    pub async fn campaign_with(&self, timeout: Timeout) -> Result<Leadership> {
        self.lock.acquire_as(&self.owner, timeout).await.map(Leadership)
    }

    /// Like [`campaign_with`](Self::campaign_with), but messages show `caller`. The candidate owns
    /// the lease, regardless of the caller.
    pub(crate) async fn campaign_for(&self, caller: &Owner, timeout: Timeout) -> Result<Leadership> {
        match self.lock.request(self.owner.id(), caller, timeout)? {
            Acquiring::Granted(lease) => Ok(Leadership(lease)),
            Acquiring::Pending(pending) => pending.await.map(Leadership),
        }
    }

    /// Returns `true` if this candidate leads. Sends no request.
    ///
    /// The candidate leads from the grant until it resigns, or until its leadership is no longer
    /// certain. Another candidate can lead only after that. Returns `false` in a process that
    /// inherited a leadership through `fork`.
    #[must_use]
    pub fn is_leader(&self) -> bool {
        self.lock.owned_by(&self.owner).unwrap_or(false)
    }

    /// Returns the leader, or the candidate that is about to lead. Returns `None` if there is no
    /// candidate.
    ///
    /// This takes three round trips. The answer can be out of date when it arrives, so do not use
    /// it to decide whether this candidate may act as the leader. Check
    /// [`is_leader`](Self::is_leader) and use the fencing token instead.
    ///
    /// Cancel safe: dropping the future has no side effect.
    ///
    /// # Errors
    /// The same as for [`Lock::contenders`].
    pub async fn leader(&self) -> Result<Option<Candidate>> {
        let First { contender, .. } =
            self.lock.ask(|place, reply| Query::First { place, watch: false, reply }).await?;
        first(&self.lock, contender)
    }

    /// Returns the candidates in the order in which they become the leader. Takes as many round
    /// trips as [`Lock::contenders`].
    ///
    /// Cancel safe: dropping the future has no side effect.
    ///
    /// # Errors
    /// The same as for [`Lock::contenders`].
    pub async fn candidates(&self) -> Result<Vec<Candidate>> {
        Ok(self.lock.contenders().await?.into_iter().map(Candidate::from).collect())
    }

    /// Returns an observer that reports the current leader and each change.
    ///
    /// The observer sends no request before the first call of [`Leaders::next`]. The caller does
    /// not have to be a candidate.
    #[must_use]
    pub fn observe(&self) -> Leaders {
        Leaders { next: Box::pin(Observer::new(Arc::clone(&self.lock)).next()) }
    }
}

/// The proof of leadership: a [`Lease`] of the election's lock. Dropping it resigns in the
/// background.
///
/// ```no_run
/// # async fn example(election: &zklock::Election) -> zklock::Result<()> {
/// let leadership = election.campaign().await?;
/// // Before each step that only the leader may take:
/// leadership.check()?;
/// leadership.resign().await
/// # }
/// ```
#[derive(Debug)]
#[must_use = "dropping a leadership resigns it: keep it as long as the program leads"]
pub struct Leadership(Lease);

impl Leadership {
    /// Resigns, so that the next candidate can lead.
    ///
    /// If several campaigns share the leadership, it ends when the last of them resigns. Same as
    /// [`Lease::release`].
    ///
    /// Cancel safe: if the future is dropped, resigning continues in the background.
    ///
    /// # Errors
    /// The same as for [`Lease::release`].
    pub fn resign(&self) -> impl Future<Output = Result<()>> + Send + 'static {
        self.0.release()
    }
}

impl Deref for Leadership {
    type Target = Lease;

    fn deref(&self) -> &Lease {
        &self.0
    }
}

impl From<Leadership> for Lease {
    fn from(leadership: Leadership) -> Self {
        leadership.0
    }
}

/// One candidate of an election.
///
/// ```no_run
/// # async fn example(election: &zklock::Election) -> zklock::Result<()> {
/// match election.leader().await? {
///     Some(leader) => println!("{} leads, with token {}", leader.id, leader.fencing_token),
///     None => println!("no candidates"),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Candidate {
    /// Position in the queue, from 0. The first candidate leads.
    pub position: usize,
    /// The candidate's id.
    ///
    /// It is empty if the candidate has no id, or if the node's data is longer than 4 KiB or cannot
    /// be read. Invalid UTF-8 is replaced.
    pub id: String,
    /// The full path of the node, relative to the client's chroot, as in
    /// [`Lease::node`](crate::Lease::node).
    pub node: String,
    /// The id of the ZooKeeper session that owns the node.
    pub session_id: i64,
    /// The fencing token of the candidate's leadership, even if the candidate does not lead yet.
    pub fencing_token: i64,
}

fn first(lock: &Lock, contender: Option<Contender>) -> Result<Option<Candidate>> {
    let contenders: Vec<_> = lock.with_paths(contender)?;
    Ok(contenders.into_iter().next().map(Candidate::from))
}

impl From<Contender> for Candidate {
    fn from(contender: Contender) -> Self {
        let Contender { position, node, session_id, fencing_token, data, .. } = contender;
        let id = String::from_utf8_lossy(&data).into_owned();
        Self { position, id, node, session_id, fencing_token }
    }
}

/// An observer that reports the current leader of an election, and the new leader after each
/// change. [`Election::observe`] returns it.
///
/// The observer watches one node: the leader's node, or the directory if there is no candidate.
/// After each change, it lists the directory once and reads two nodes, regardless of the number of
/// candidates. If the leader changes several times between two calls, only the last leader is
/// reported. Reports are delayed while the connection or the session is lost. Dropping the observer
/// removes the watch.
///
/// ```no_run
/// # async fn example(election: &zklock::Election) -> zklock::Result<()> {
/// let mut leaders = election.observe();
/// loop {
///     match leaders.next().await? {
///         Some(leader) => println!("{} leads", leader.id),
///         None => println!("nobody leads"),
///     }
/// }
/// # }
/// ```
pub struct Leaders {
    next: NextLeader,
}

type NextLeader = Pin<Box<dyn Future<Output = (Observer, Result<Option<Candidate>>)> + Send>>;

impl std::fmt::Debug for Leaders {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Leaders").finish_non_exhaustive()
    }
}

impl Leaders {
    /// Waits for the next leader. Returns `None` when there is no candidate.
    ///
    /// The first call returns as soon as the current leader is known.
    ///
    /// Cancel safe: dropping the future loses no report.
    ///
    /// # Errors
    /// [`ClientClosed`](crate::ErrorKind::ClientClosed),
    /// [`AuthFailed`](crate::ErrorKind::AuthFailed) or [`Forked`](crate::ErrorKind::Forked). The
    /// next call after an error reads the leader again.
    pub async fn next(&mut self) -> Result<Option<Candidate>> {
        poll_fn(|context| self.poll_next(context)).await
    }

    /// Polls for the next leader, like [`next`](Self::next). Useful in an implementation of
    /// `Stream`.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<Candidate>>> {
        let (observer, leader) = ready!(self.next.as_mut().poll(context));
        self.next = Box::pin(observer.next());
        Poll::Ready(leader)
    }
}

struct Observer {
    lock: Arc<Lock>,
    /// The leader that was reported last.
    leader: Option<Candidate>,
    /// True if anything was reported yet.
    reported: bool,
    /// A watch that fires when the leader might have changed.
    changed: Option<NodeWatch>,
}

impl Observer {
    fn new(lock: Arc<Lock>) -> Self {
        Self { lock, leader: None, reported: false, changed: None }
    }

    async fn next(mut self) -> (Self, Result<Option<Candidate>>) {
        let leader = self.find().await;
        (self, leader)
    }

    async fn find(&mut self) -> Result<Option<Candidate>> {
        loop {
            if self.reported {
                self.wait().await?;
            }
            let First { contender, changed } =
                self.read_first().await.inspect_err(|_| self.reported = false)?;
            self.changed = changed;
            let leader = first(&self.lock, contender)?;
            let known = std::mem::replace(&mut self.reported, true);
            if !known || self.leader != leader {
                self.leader.clone_from(&leader);
                return Ok(leader);
            }
        }
    }

    async fn read_first(&self) -> Result<First> {
        let ask = async || {
            let resolved = self.lock.resolve()?;
            let place = resolved.holds.place.clone();
            resolved.client.ask(|reply| Query::First { place, watch: true, reply }).await
        };
        Deadline::after(Timeout::Forever).ask_until_answered(self.lock.path(), || true, ask).await
    }

    /// Waits until the leader might have changed.
    async fn wait(&mut self) -> Result<()> {
        NodeWatch::changed_within(self.changed.take(), RECHECK_INTERVAL).await
    }
}
