//! Leading again and again, for as long as a program runs.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::driver::status::ClientState;
use crate::error::escape::Escaped;
use crate::error::{Error, ErrorKind, Result};
use crate::lease::Lease;
use crate::lock::election::Election;
use crate::lock::scoped;
use crate::runtime;
use crate::runtime::backoff::RestartBackoff;

/// Decides how long a candidate pauses before it campaigns again, and when it stops.
///
/// A body that returns at once, or a server that turns every client away, must not make a busy loop: leaderships that end
/// young are followed by longer and longer pauses, in which others can lead.
#[derive(Debug, Default)]
pub struct Rounds {
    backoff: RestartBackoff,
    /// When the leadership of this round began, if there was one.
    began: Option<Instant>,
}

impl Rounds {
    /// A leadership began.
    pub fn begin(&mut self) {
        self.began = Some(Instant::now());
    }

    /// The leadership is over. Returns the pause before the next campaign.
    pub fn end(&mut self) -> Duration {
        let lasted = self.began.take().map(|began| began.elapsed()).unwrap_or_default();
        self.backoff.after(lasted)
    }

    /// A campaign failed. Returns the pause before the next one; `None` if the client is closed, and there will be none.
    ///
    /// # Errors
    /// The failure, if it would only be repeated.
    pub fn fail(&mut self, path: &str, error: Error) -> Result<Option<Duration>> {
        match error.kind() {
            ErrorKind::ClientClosed => Ok(None),
            ErrorKind::ConnectionFailed => {
                let pause = self.end();
                tracing::warn!(path = %Escaped(path), %error, ?pause, "the campaign failed; campaigning again");
                Ok(Some(pause))
            }
            _ => Err(error),
        }
    }

    /// The election as the same candidate, on the client that it has now.
    ///
    /// # Errors
    /// As [`Election::campaign`] without a request.
    pub fn election(election: &Election) -> Result<Election> {
        election.on_one_client()
    }

    /// Whether there is no next campaign, because the client is closed. `election` is on one client.
    #[must_use]
    pub fn are_over(election: &Election) -> bool {
        election.lock.resolve().is_ok_and(|resolved| resolved.client.state() == ClientState::Closed)
    }

    /// Waits for `time` before the next campaign, and no longer than until the client is closed.
    ///
    /// # Errors
    /// [`Forked`](ErrorKind::Forked); [`ConnectionFailed`](ErrorKind::ConnectionFailed) if the operating system refuses a
    /// thread.
    pub async fn pause(election: &Election, time: Duration) -> Result<()> {
        let client = election.lock.resolve()?.client.clone();
        let mut states = client.states();
        let closed =
            async { while client.state() != ClientState::Closed && states.next().await.is_some() {} };
        tokio::select! {
            slept = runtime::sleep(time) => slept,
            () = closed => Ok(()),
        }
    }
}

impl Election {
    /// Campaigns, runs `body` while this candidate leads, and campaigns again: for a program that is to lead whenever it
    /// can. The body gets the lease of the leadership. When it returns, the leadership is resigned; if the leadership is
    /// lost, the body is dropped where it awaits something; one that returns nevertheless, because it does not await, has
    /// no say any more, and an error of its own is not returned. Leaderships that end within five seconds are followed by
    /// pauses of up to six seconds.
    ///
    /// Returns when the client is closed or drained, also the one that locks on the same hosts share. To stop it otherwise, drop the future, or let the body fail.
    ///
    /// ```no_run
    /// # async fn example(client: &zklock::Client) -> zklock::Result<()> {
    /// let election = zklock::Election::new(client, "/elections/scheduler")?;
    /// election.run(|lease| async move { schedule(lease.fencing_token()).await }).await
    /// # }
    /// # async fn schedule(_: i64) -> zklock::Result<()> { Ok(()) }
    /// ```
    ///
    /// Cancel safe: dropping the future drops the body, withdraws the candidate and resigns.
    ///
    /// # Errors
    /// The body's, and those of [`campaign`](Self::campaign) that campaigning again would not change: not
    /// [`ConnectionFailed`](ErrorKind::ConnectionFailed), after which it does.
    pub async fn run<F, E>(&self, mut body: impl FnMut(Arc<Lease>) -> F) -> Result<(), E>
    where
        F: Future<Output = Result<(), E>>,
        E: From<Error>,
    {
        let mut rounds = Rounds::default();
        let election = self.on_one_client()?;
        loop {
            let pause = match election.campaign().await {
                Ok(leadership) => {
                    rounds.begin();
                    // A loss ends the round, and no more than that.
                    if let Ok(outcome) = scoped::run(Lease::from(leadership), &mut body).await {
                        outcome?;
                    }
                    Some(rounds.end())
                }
                Err(error) => rounds.fail(self.path(), error)?,
            };
            let Some(pause) = pause else { return Ok(()) };
            Rounds::pause(&election, pause).await?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn leaderships_that_end_young_are_followed_by_longer_and_longer_pauses() {
        let mut rounds = Rounds::default();
        let mut pauses = Vec::new();
        for seconds in [1, 1, 1, 1, 1, 1, 1, 10] {
            rounds.begin();
            tokio::time::advance(Duration::from_secs(seconds)).await;
            pauses.push(rounds.end());
        }
        assert!(pauses[0].is_zero() && !pauses[1].is_zero() && pauses[6] > 4 * pauses[1], "{pauses:?}");
        assert!(pauses[7].is_zero(), "it led for long");
    }

    #[test]
    fn only_a_failure_to_connect_is_worth_another_campaign() {
        let fail = |kind| Rounds::default().fail("/e", Error::new(kind, "it failed"));
        assert_eq!(fail(ErrorKind::ConnectionFailed).unwrap(), Some(Duration::ZERO));
        assert_eq!(fail(ErrorKind::ClientClosed).unwrap(), None);
        assert_eq!(fail(ErrorKind::AuthFailed).unwrap_err().kind(), ErrorKind::AuthFailed);
    }
}
