//! Leader election: an exclusive lock whose holder is called the leader, in the layout of Curator's `LeaderLatch`.

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

/// After this long without news an observer looks again, whatever the watch says (rule 10).
const LONG_SILENCE: Duration = Duration::from_secs(60);

/// A candidate for the leadership at a path, or one who only wants to know who leads.
///
/// Candidates lead in the order in which the server queued them. It is an exclusive lock, with all that this library
/// promises of one: order, fencing tokens, and a leader who knows in time that it leads no longer. Services on Curator's
/// `LeaderLatch` take part in the same election.
///
/// An election object is one candidate, whoever campaigns through it: campaigns that overlap share a node and a
/// leadership, which ends when the last [`Leadership`] is resigned. Clones are the same candidate. Creating one sends
/// nothing.
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
    /// An election at `path`, an absolute path below the client's chroot, where missing directories are created when
    /// needed. The candidate's id is `host:pid`, or nothing if the client does not identify itself.
    ///
    /// # Errors
    /// [`BadArgument`](crate::ErrorKind::BadArgument) for a malformed path.
    pub fn new(client: impl Into<ClientSource>, path: impl AsRef<str>) -> Result<Self> {
        Self::make(client.into(), path.as_ref(), None)
    }

    /// An election in which the candidate has an id, which everyone can read: Curator's `getLeader().getId()` is this
    /// one. Ids need not differ, and may be empty; at most 1024 bytes.
    ///
    /// # Errors
    /// [`BadArgument`](crate::ErrorKind::BadArgument) for a malformed path, or an id that is too long.
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

    /// The same candidate on the client that it has now. An election on hosts gets another client when its own is closed,
    /// and would lead on after the program has closed all clients.
    ///
    /// # Errors
    /// As [`campaign`](Self::campaign) without a request.
    pub(crate) fn on_one_client(&self) -> Result<Self> {
        Ok(Self {
            lock: Arc::new(self.lock.on_one_client()?),
            owner: self.owner.clone(),
            id: self.id.clone(),
        })
    }

    /// The path of the election, as given.
    #[must_use]
    pub fn path(&self) -> &str {
        self.lock.path()
    }

    /// The candidate's id.
    #[must_use]
    pub fn id(&self) -> String {
        // That of the process in which it is asked: a candidate may be made before a fork.
        self.id
            .as_deref()
            .map_or_else(|| ContenderInfo::candidate_id(self.lock.source().options()), str::to_owned)
    }

    /// Becomes a candidate, and waits until it leads, as long as it takes: loss of the connection or of the session only
    /// lengthens the wait. A leadership that it has already is shared at once.
    ///
    /// Cancel safe: dropping the future withdraws the candidate; a leadership that races it is resigned.
    ///
    /// # Errors
    /// As [`Lock::acquire`]; [`BadArgument`](crate::ErrorKind::BadArgument) where a contender on kazoo stands: its
    /// election does not see candidates, and would lead at the same time.
    pub async fn campaign(&self) -> Result<Leadership> {
        self.campaign_with(Timeout::Forever).await
    }

    /// Like [`campaign`](Self::campaign), within `time`, which covers connecting, queueing and waiting together.
    ///
    /// Cancel safe as [`campaign`](Self::campaign).
    ///
    /// # Errors
    /// [`LockTimeout`](crate::ErrorKind::LockTimeout), and those of [`campaign`](Self::campaign).
    pub async fn campaign_within(&self, time: Duration) -> Result<Leadership> {
        self.campaign_with(Timeout::For(time)).await
    }

    /// Campaigns. With [`Timeout::Try`] it leads if there is no other candidate; one that has to wait is a
    /// [`LockTimeout`](crate::ErrorKind::LockTimeout).
    ///
    /// Cancel safe as [`campaign`](Self::campaign).
    ///
    /// # Errors
    /// As [`campaign_within`](Self::campaign_within).
    pub async fn campaign_with(&self, timeout: Timeout) -> Result<Leadership> {
        self.lock.acquire_as(&self.owner, timeout).await.map(Leadership)
    }

    /// The same, for a caller that others are told of: whoever campaigns, the candidate is one owner.
    pub(crate) async fn campaign_for(&self, caller: &Owner, timeout: Timeout) -> Result<Leadership> {
        match self.lock.request(self.owner.id(), caller, timeout)? {
            Acquiring::Granted(lease) => Ok(Leadership(lease)),
            Acquiring::Pending(pending) => pending.await.map(Leadership),
        }
    }

    /// Whether this candidate leads: from the grant until it resigns, or until the term of its leadership is over, which
    /// is before another one can lead. Sends nothing. False in a process that inherited a leadership through fork.
    #[must_use]
    pub fn is_leader(&self) -> bool {
        self.lock.owned_by(&self.owner).unwrap_or(false)
    }

    /// Who leads, or is about to; `None` if there is no candidate. Three round trips. The answer may be out of date when
    /// it arrives: what only the leader may do needs [`is_leader`](Self::is_leader) and the fencing token.
    ///
    /// Cancel safe: nothing is left behind.
    ///
    /// # Errors
    /// As [`Lock::contenders`].
    pub async fn leader(&self) -> Result<Option<Candidate>> {
        let First { contender, .. } =
            self.lock.ask(|place, reply| Query::First { place, watch: false, reply }).await?;
        first(&self.lock, contender)
    }

    /// The candidates, in the order in which they lead. As many round trips as [`Lock::contenders`].
    ///
    /// Cancel safe: nothing is left behind.
    ///
    /// # Errors
    /// As [`Lock::contenders`].
    pub async fn candidates(&self) -> Result<Vec<Candidate>> {
        Ok(self.lock.contenders().await?.into_iter().map(Candidate::from).collect())
    }

    /// Who leads, now and after each change. Sends nothing until the first is asked for, and needs no candidate.
    #[must_use]
    pub fn observe(&self) -> Leaders {
        Leaders { next: Box::pin(Observer::new(Arc::clone(&self.lock)).next()) }
    }
}

/// Proof of leading: a [`Lease`] of the election's lock. Dropping it resigns in the background.
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
#[must_use = "a leadership that is dropped is resigned"]
pub struct Leadership(Lease);

impl Leadership {
    /// Lets the next candidate lead. The last one of several that a candidate shares does; see [`Lease::release`], whose
    /// other name this is.
    ///
    /// Cancel safe: if the future is dropped, resigning goes on in the background.
    ///
    /// # Errors
    /// As [`Lease::release`].
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
    /// Its place, from 0. The first leads.
    pub position: usize,
    /// Its id, whatever its client; empty if it has none, or if its data is longer than 4 KiB or may not be read. What is
    /// not UTF-8 in it is replaced.
    pub id: String,
    /// The full path of its node, below the client's chroot, as in [`Lease::node`](crate::Lease::node).
    pub node: String,
    /// The ZooKeeper session that owns the node.
    pub session_id: i64,
    /// The fencing token of its leadership, now or when it leads.
    pub fencing_token: i64,
}

/// The first contender as a candidate.
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

/// Who leads an election, now and after each change, from [`Election::observe`].
///
/// It watches one node: the leader's, or the directory where there is no candidate. So a change costs one listing and
/// two reads, however many candidates wait. Of changes that follow one another faster than they are asked for, only the
/// last is reported. Loss of the connection or the session only delays news. Dropping it drops the watch.
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
    next: Look,
}

/// One wait for news, which gives the observer back.
type Look = Pin<Box<dyn Future<Output = (Observer, Result<Option<Candidate>>)> + Send>>;

impl std::fmt::Debug for Leaders {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Leaders").finish_non_exhaustive()
    }
}

impl Leaders {
    /// The next leader; `None` once there is no candidate. The first is returned as soon as it is known.
    ///
    /// Cancel safe: dropping the future misses nothing.
    ///
    /// # Errors
    /// [`ClientClosed`](crate::ErrorKind::ClientClosed), [`AuthFailed`](crate::ErrorKind::AuthFailed) or
    /// [`Forked`](crate::ErrorKind::Forked). Asked again, it looks again.
    pub async fn next(&mut self) -> Result<Option<Candidate>> {
        poll_fn(|context| self.poll_next(context)).await
    }

    /// Like [`next`](Self::next), for implementing a stream.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<Candidate>>> {
        let (observer, leader) = ready!(self.next.as_mut().poll(context));
        self.next = Box::pin(observer.next());
        Poll::Ready(leader)
    }
}

/// What an observer knows.
struct Observer {
    lock: Arc<Lock>,
    /// Who was reported last.
    leader: Option<Candidate>,
    /// Whether anything was.
    reported: bool,
    /// Fires when that may have changed.
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
            let First { contender, changed } = self.look().await.inspect_err(|_| self.reported = false)?;
            self.changed = changed;
            let leader = first(&self.lock, contender)?;
            let known = std::mem::replace(&mut self.reported, true);
            if !known || self.leader != leader {
                self.leader.clone_from(&leader);
                return Ok(leader);
            }
        }
    }

    async fn look(&self) -> Result<First> {
        let ask = async || {
            let resolved = self.lock.resolve()?;
            let place = resolved.holds.place.clone();
            resolved.client.ask(|reply| Query::First { place, watch: true, reply }).await
        };
        Deadline::after(Timeout::Forever).ask_until_answered(self.lock.path(), || true, ask).await
    }

    /// Waits until there may be news.
    async fn wait(&mut self) -> Result<()> {
        NodeWatch::changed_within(self.changed.take(), LONG_SILENCE).await
    }
}
