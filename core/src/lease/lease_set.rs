//! The leases of several locks or permits that were acquired together.

use std::borrow::Borrow;
use std::future::{Future, poll_fn};
use std::ops::Index;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use crate::config::timeout::Timeout;
use crate::error::loss_reason::LossReason;
use crate::error::{Error, ErrorKind, Result};
use crate::lease::Lease;
use crate::lease::state::LeaseState;

/// The leases of one acquire of several locks or permits, in the order in which they were acquired.
///
/// Each lease can be released separately. Dropping this value releases the remaining leases, the
/// newest first.
///
/// ```no_run
/// # async fn example(client: &zklock::Client) -> zklock::Result<()> {
/// use zklock::{Timeout, Semaphore};
///
/// let semaphore = Semaphore::new(client, "/locks/upstream", 5)?;
/// let leases = semaphore.acquire_many(3, Timeout::Forever).await?;
/// for lease in &leases {
///     println!("a permit through {}", lease.node());
/// }
/// leases.check()?;
/// leases.release().await?;
/// # Ok(())
/// # }
/// ```
///
/// `L` is [`Lease`], or `Arc<Lease>` if several parts of the program share each lease (see
/// [`into_arcs`](Self::into_arcs)).
#[derive(Debug)]
#[must_use = "dropping leases releases their locks immediately: keep the leases as long as the locks are needed"]
pub struct Leases<L = Lease>(Vec<L>);

impl<L> Default for Leases<L> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl Leases {
    /// Adds the lease that was acquired last.
    pub(crate) fn push(&mut self, lease: Lease) {
        self.0.push(lease);
    }

    /// Wraps each lease in an [`Arc`], so that several parts of the program can share it. Dropping
    /// its last reference releases a lease.
    pub fn into_arcs(self) -> Leases<Arc<Lease>> {
        Leases(self.into_iter().map(Arc::new).collect())
    }
}

impl FromIterator<Lease> for Leases {
    fn from_iter<I: IntoIterator<Item = Lease>>(leases: I) -> Self {
        Self(leases.into_iter().collect())
    }
}

impl<L: Borrow<Lease>> Leases<L> {
    fn leases(&self) -> impl DoubleEndedIterator<Item = &Lease> {
        self.0.iter().map(Borrow::borrow)
    }

    /// Returns the number of leases.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns `true` if there are no leases.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns an iterator over the leases, in the order in which they were acquired.
    pub fn iter(&self) -> std::slice::Iter<'_, L> {
        self.0.iter()
    }

    /// Returns an error unless all leases are held. Sends no request.
    ///
    /// # Errors
    /// The error of [`Lease::check`] for the first lease that is not held.
    pub fn check(&self) -> Result<()> {
        self.leases().try_for_each(Lease::check)
    }

    /// Returns `true` if all leases are held. Sends no request.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.check().is_ok()
    }

    /// Returns `true` if at least one lease is not released. Returns `false` in a process that
    /// inherited the leases through `fork`. Sends no request.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.leases().any(Lease::is_open)
    }

    /// Returns the first lease that is lost, and the reason for its loss. Sends no request.
    #[must_use]
    pub fn first_loss(&self) -> Option<(&Lease, LossReason)> {
        self.leases().find_map(|lease| match lease.state() {
            LeaseState::Lost(reason) => Some((lease, reason)),
            _ => None,
        })
    }

    /// Waits until one of the leases is lost. Returns its index and the reason.
    ///
    /// The future never completes if all leases are released before that.
    ///
    /// Cancel safe: dropping the future changes nothing.
    pub fn lost(&self) -> impl Future<Output = (usize, LossReason)> + Send + 'static {
        let mut losses: Vec<Pin<Box<dyn Future<Output = LossReason> + Send>>> = Vec::new();
        for lease in self.leases() {
            losses.push(Box::pin(lease.lost()));
        }
        poll_fn(move |context| {
            for (index, loss) in losses.iter_mut().enumerate() {
                if let Poll::Ready(reason) = loss.as_mut().poll(context) {
                    return Poll::Ready((index, reason));
                }
            }
            Poll::Pending
        })
    }

    /// Releases all leases that are not released yet, the newest first.
    ///
    /// This function starts all releases before it returns. The returned future waits until the
    /// servers acknowledge them. For each lease, it waits at most for the time that
    /// [`remaining`](Lease::remaining) returns at the call. See [`Lease::release`].
    ///
    /// Cancel safe: if the future is dropped, the release continues in the background.
    ///
    /// # Errors
    /// [`NotHeld`](crate::ErrorKind::NotHeld) if all leases were released before, or
    /// [`Forked`](crate::ErrorKind::Forked) in a forked child process.
    pub fn release(&self) -> impl Future<Output = Result<()>> + Send + 'static {
        self.release_with(Timeout::Forever)
    }

    /// Like [`release`](Self::release), but waits for at most `time` in total. A timeout is not an
    /// error.
    ///
    /// Cancel safe like [`release`](Self::release).
    ///
    /// # Errors
    /// Same as [`release`](Self::release).
    pub fn release_within(&self, time: Duration) -> impl Future<Output = Result<()>> + Send + 'static {
        self.release_with(Timeout::For(time))
    }

    /// Releases all leases, and waits for the acknowledgements. The timeout is counted from this
    /// call, for all leases together.
    pub(crate) fn release_with(&self, timeout: Timeout) -> impl Future<Output = Result<()>> + Send + 'static {
        let begun = self.release_each(|lease| lease.begin_release(timeout));
        async move {
            for acknowledged in begun?.into_iter().flatten() {
                acknowledged.await.ok();
            }
            Ok(())
        }
    }

    /// Releases the leases like [`release`](Self::release), but does not wait for the
    /// acknowledgements.
    ///
    /// # Errors
    /// Same as [`release`](Self::release).
    pub fn release_in_background(&self) -> Result<()> {
        self.release_each(Lease::release_in_background).map(drop)
    }

    /// Calls `release` for each lease, the newest first. Skips released leases, but fails if all
    /// leases were released before.
    fn release_each<T>(&self, release: impl Fn(&Lease) -> Result<T>) -> Result<Vec<T>> {
        let mut released = Vec::new();
        for lease in self.leases().rev() {
            match release(lease) {
                Ok(done) => released.push(done),
                Err(error) if error.kind() == ErrorKind::NotHeld => {}
                Err(error) => return Err(error),
            }
        }
        if released.is_empty() {
            return Err(Error::not_held("these leases have already been released"));
        }
        Ok(released)
    }
}

impl<L> Drop for Leases<L> {
    fn drop(&mut self) {
        while let Some(newest) = self.0.pop() {
            drop(newest);
        }
    }
}

impl<L> Index<usize> for Leases<L> {
    type Output = L;

    fn index(&self, index: usize) -> &L {
        &self.0[index]
    }
}

/// Iterates over the leases in the order in which they were acquired.
impl<L> IntoIterator for Leases<L> {
    type Item = L;
    type IntoIter = std::vec::IntoIter<L>;

    fn into_iter(mut self) -> Self::IntoIter {
        std::mem::take(&mut self.0).into_iter()
    }
}

impl<'a, L> IntoIterator for &'a Leases<L> {
    type Item = &'a L;
    type IntoIter = std::slice::Iter<'a, L>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::time::Duration;

    use tokio::sync::oneshot;

    use super::*;
    use crate::config::lock_path::LockPath;
    use crate::lease::hold::{Grant, HoldTable, Notice, Report};
    use crate::lease::owner::Owner;
    use crate::lease::request::AcquireRequest;
    use crate::queue::{Kind, NodeName};
    use crate::runtime::clock::BootInstant;
    use crate::runtime::fork::ForkGuard;
    use crate::session::term::Term;

    #[derive(Default)]
    struct Driver {
        released: Mutex<Vec<u64>>,
        acknowledge: Mutex<Vec<oneshot::Sender<()>>>,
    }

    impl Report for Driver {
        fn report(&self, _: &Arc<str>, notice: Notice) -> Result<()> {
            if let Notice::Released { node, release } = notice {
                self.released.lock().unwrap().push(node.sequence());
                self.acknowledge.lock().unwrap().extend(release.waiter.map(|waiter| waiter.done));
            }
            Ok(())
        }

        fn no_answer(&self) -> Error {
            Error::client_closed()
        }

        fn heard_since(&self, _: tokio::time::Instant) -> bool {
            false
        }
    }

    struct Directory {
        driver: Arc<Driver>,
        holds: Arc<HoldTable>,
    }

    impl Directory {
        fn new() -> Self {
            let driver = Arc::new(Driver::default());
            let report: Arc<dyn Report> = Arc::clone(&driver) as _;
            let place = LockPath::new("", "/lock", "").unwrap();
            Self { driver, holds: Arc::new(HoldTable::new(place, ForkGuard::new(), Arc::default(), report)) }
        }

        fn node(number: u64) -> NodeName {
            NodeName::parse(&format!("lock-{number:010}")).unwrap()
        }

        fn grant(&self, number: u64) -> Lease {
            let term = Term::new(Duration::from_secs(60), 1);
            term.prove(BootInstant::now(), 1);
            let claim = AcquireRequest::new(Owner::new(), Kind::Permit(9), None);
            let grant =
                Grant { node: Self::node(number), fencing_token: 1, session_id: 1, term: Arc::new(term) };
            self.holds.grant(claim, grant)
        }

        fn three(&self) -> Leases {
            Leases((1..=3).map(|number| self.grant(number)).collect())
        }

        fn released(&self) -> Vec<u64> {
            self.driver.released.lock().unwrap().clone()
        }
    }

    #[tokio::test]
    async fn all_releases_are_on_their_way_before_the_first_is_waited_for_the_newest_first() {
        let directory = Directory::new();
        let leases = directory.three();
        let mut released = Box::pin(leases.release());
        assert_eq!(directory.released(), [3, 2, 1]);
        assert!(std::future::poll_fn(|cx| Poll::Ready(released.as_mut().poll(cx))).await.is_pending());
        for done in directory.driver.acknowledge.lock().unwrap().drain(..) {
            done.send(()).unwrap();
        }
        released.await.unwrap();
        assert_eq!(leases.release().await.unwrap_err().kind(), ErrorKind::NotHeld);
        assert_eq!(leases.release_in_background().unwrap_err().kind(), ErrorKind::NotHeld);
    }

    #[test]
    fn one_that_was_released_by_itself_is_left_out() {
        let directory = Directory::new();
        let leases = directory.three();
        leases[1].release_in_background().unwrap();
        assert!(leases.is_open() && !leases.is_held());
        assert_eq!(leases.check().unwrap_err().kind(), ErrorKind::NotHeld);
        leases.release_in_background().unwrap();
        assert_eq!(directory.released(), [2, 3, 1]);
        assert!(!leases.is_open());
    }

    #[test]
    fn dropping_them_releases_the_newest_first() {
        let directory = Directory::new();
        drop(directory.three());
        assert_eq!(directory.released(), [3, 2, 1]);
    }

    #[tokio::test]
    async fn the_first_loss_is_told() {
        let directory = Directory::new();
        let leases = directory.three();
        assert!(leases.is_held() && leases.first_loss().is_none());
        directory.holds.lose(&Directory::node(2), LossReason::NodeDeleted);
        assert_eq!(leases.lost().await, (1, LossReason::NodeDeleted));
        let (lease, reason) = leases.first_loss().unwrap();
        assert_eq!((lease.node(), reason), (leases[1].node(), LossReason::NodeDeleted));
        assert_eq!(leases.check().unwrap_err().kind(), ErrorKind::LockLost);
        // A lost lease must be released too, but the driver receives no notice about this.
        leases.release_in_background().unwrap();
        assert_eq!(directory.released(), [3, 1]);
    }

    #[test]
    fn a_lease_that_nobody_receives_is_released_once() {
        let directory = Directory::new();
        let (reply, answer) = oneshot::channel();
        reply.send(directory.grant(1)).unwrap();
        assert_eq!(directory.released(), [0; 0]);
        drop(answer);
        assert_eq!(directory.released(), [1]);
        let (reply, answer) = oneshot::channel();
        drop(answer);
        drop(reply.send(directory.grant(2)));
        assert_eq!(directory.released(), [1, 2]);
    }
}
