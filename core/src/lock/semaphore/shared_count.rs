//! The number of permits of a semaphore: a fixed number, or a number in a separate node, which can
//! change. Each contender writes the fixed number into its node, so that contenders can compare it.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::{Permits, Semaphore};
use crate::config::timeout::Deadline;
use crate::driver::mailbox::Query;
use crate::driver::mailbox::node_watch::NodeWatch;
use crate::error::escape::Escaped;
use crate::error::{Error, ErrorKind, Result};

/// If a waiter receives no event for this long, it reads the number in the node again, in case it
/// missed a watch event (rule 10).
const RECHECK_INTERVAL: Duration = Duration::from_secs(20);

impl Semaphore {
    /// Waits until the number of permits changes, and returns the new number. Fails if another
    /// contender has a different number.
    pub(super) async fn changed(&self, permits: u32, deadline: Deadline) -> Result<u32> {
        let Permits::SharedCount(node) = &self.permits else {
            self.compare(permits, deadline).await?;
            return std::future::pending().await;
        };
        let changed = async {
            loop {
                let (number, changed) = self.read(node, true, deadline).await?;
                if number != permits {
                    return Ok(number);
                }
                NodeWatch::changed_within(changed, RECHECK_INTERVAL).await?;
            }
        };
        tokio::select! {
            biased;
            changed = changed => changed,
            never = self.remember_permit_holders() => match never {},
        }
    }

    /// Stores the holders of permits, for the error message of a waiter that times out.
    ///
    /// One read is enough, because no other contender adds a node in the meantime (rule 17). If no
    /// reply arrives, the message names no holder.
    async fn remember_permit_holders(&self) -> Infallible {
        if let (Ok(resolved), Ok(contenders)) = (self.leases.resolve(), self.leases.contenders().await) {
            resolved.holds.permit_state().remember(&contenders);
        }
        std::future::pending().await
    }

    /// Returns the current number of permits.
    pub(super) async fn number(&self, deadline: Deadline) -> Result<u32> {
        match &self.permits {
            Permits::Fixed(permits) => Ok(*permits),
            Permits::SharedCount(node) => Ok(self.read(node, false, deadline).await?.0),
        }
    }

    /// Fails if the node of the shared count does not contain a number. The client makes this check
    /// before it creates a node or a directory.
    ///
    /// The number is read only when the client first uses the path. To save a request, later
    /// acquires rely on the read that they send while they hold the semaphore's internal mutex.
    pub(super) async fn check_number_exists(&self, deadline: Deadline) -> Result<()> {
        if matches!(self.permits, Permits::SharedCount(_)) {
            let resolved = self.leases.resolve()?;
            let permit_state = resolved.holds.permit_state();
            if !permit_state.number_seen.load(Ordering::Relaxed) {
                self.number(deadline).await?;
                permit_state.number_seen.store(true, Ordering::Relaxed);
            }
        }
        Ok(())
    }

    /// Reads the number of permits from `node`. Sets a watch on the node if `watch` is `true`.
    async fn read(&self, node: &str, watch: bool, deadline: Deadline) -> Result<(u32, Option<NodeWatch>)> {
        let client = self.leases.resolve()?.client.clone();
        let full: Arc<str> = format!("{}{node}", client.address().chroot).into();
        let read = || {
            let node = Arc::clone(&full);
            self.leases.ask(move |_, reply| Query::ReadData { node: Arc::clone(&node), watch, reply })
        };
        let problem = match deadline.ask_until_answered(self.path(), || client.was_connected(), read).await? {
            Some(number) => match number.value() {
                Some(value) => return Ok((value, number.changed)),
                None => "does not hold a number of permits",
            },
            None => "does not exist",
        };
        let hint = "create it with Curator's SharedCount, or write the number as a 4-byte big-endian integer";
        Err(Error::bad_argument("shared_count", format!("{node:?} {problem}; {hint}")))
    }

    /// Fails if another contender with the same path has a different number of permits.
    pub(super) async fn compare(&self, permits: u32, deadline: Deadline) -> Result<()> {
        let resolved = self.leases.resolve()?;
        let contenders = || self.leases.contenders();
        let contenders =
            deadline.ask_until_answered(self.path(), || resolved.client.was_connected(), contenders).await?;
        resolved.holds.permit_state().remember(&contenders);
        for contender in contenders {
            if let Some(theirs) = contender.permits.filter(|theirs| *theirs != permits) {
                let whom = match &contender.about {
                    Some(about) => format!("process {} on {}", about.pid, Escaped(&about.host)),
                    None => format!("the contender {}", Escaped(&contender.node)),
                };
                let message = format!(
                    "{:?} has {theirs} permits for {whom}, but {permits} here; all contenders must use the same number",
                    self.path()
                );
                return Err(Error::new(ErrorKind::PermitsMismatch, message));
            }
        }
        Ok(())
    }
}
