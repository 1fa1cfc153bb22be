//! How many permits a semaphore has: a number that all contenders state, or one in a node, which may change.

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

/// After this long without news of a number in a node, a waiter reads it again, whatever the watch says (rule 10).
const LONG_SILENCE: Duration = Duration::from_secs(20);

impl Semaphore {
    /// For a waiter: the number of permits, once it has changed. Fails if others state a different number.
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
                NodeWatch::changed_within(changed, LONG_SILENCE).await?;
            }
        };
        tokio::select! {
            biased;
            changed = changed => changed,
            never = self.look_who_has_permits() => match never {},
        }
    }

    /// Remembers who has permits, for the error of a waiter whose time is up. Nobody else adds a node meanwhile (rule 17),
    /// so once is enough. Without an answer the error names nobody.
    async fn look_who_has_permits(&self) -> Infallible {
        if let (Ok(resolved), Ok(contenders)) = (self.leases.resolve(), self.leases.contenders().await) {
            resolved.holds.permit_news().remember(&contenders);
        }
        std::future::pending().await
    }

    /// How many permits there are now.
    pub(super) async fn number(&self, deadline: Deadline) -> Result<u32> {
        match &self.permits {
            Permits::Fixed(permits) => Ok(*permits),
            Permits::SharedCount(node) => Ok(self.read(node, false, deadline).await?.0),
        }
    }

    /// Fails if there is no number to read, before a node or a directory is created for nothing. Only at the client's
    /// first use of the path: later the turn's own look must do, or each acquire would cost a request more.
    pub(super) async fn expect_number(&self, deadline: Deadline) -> Result<()> {
        if matches!(self.permits, Permits::SharedCount(_)) {
            let resolved = self.leases.resolve()?;
            let news = resolved.holds.permit_news();
            if !news.number_seen.load(Ordering::Relaxed) {
                self.number(deadline).await?;
                news.number_seen.store(true, Ordering::Relaxed);
            }
        }
        Ok(())
    }

    /// The number of permits in a node, and a watch on it if requested.
    async fn read(&self, node: &str, watch: bool, deadline: Deadline) -> Result<(u32, Option<NodeWatch>)> {
        let client = self.leases.resolve()?.client.clone();
        let full: Arc<str> = format!("{}{node}", client.address().chroot).into();
        let read = || {
            let node = Arc::clone(&full);
            self.leases.ask(move |_, reply| Query::Number { node: Arc::clone(&node), watch, reply })
        };
        let problem = match deadline.ask_until_answered(self.path(), || client.was_connected(), read).await? {
            Some(number) => match number.value() {
                Some(value) => return Ok((value, number.changed)),
                None => "does not hold a number of permits",
            },
            None => "does not exist",
        };
        let hint = "create it with Curator's SharedCount, or write the number as 4 bytes, the highest first";
        Err(Error::bad_argument("shared_count", format!("{node:?} {problem}; {hint}")))
    }

    /// Fails if another contender on the path states a different number of permits.
    pub(super) async fn compare(&self, permits: u32, deadline: Deadline) -> Result<()> {
        let resolved = self.leases.resolve()?;
        let contenders = || self.leases.contenders();
        let contenders =
            deadline.ask_until_answered(self.path(), || resolved.client.was_connected(), contenders).await?;
        resolved.holds.permit_news().remember(&contenders);
        for contender in contenders {
            if let Some(theirs) = contender.permits.filter(|theirs| *theirs != permits) {
                let whom = match &contender.about {
                    Some(about) => format!("process {} on {}", about.pid, Escaped(&about.host)),
                    None => format!("the contender {}", Escaped(&contender.node)),
                };
                let message = format!(
                    "{:?} has {theirs} permits for {whom}, but {permits} here; all must agree on the number",
                    self.path()
                );
                return Err(Error::new(ErrorKind::PermitsMismatch, message));
            }
        }
        Ok(())
    }
}
