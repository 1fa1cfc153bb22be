//! Campaigns and leads repeatedly, as long as the program runs.

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
/// Without pauses, the campaigns would form a busy loop if the body returns immediately or if a
/// server rejects every client. The pauses become longer if the candidate led only for a short
/// time. During a pause, other candidates can lead.
#[derive(Debug, Default)]
pub struct Rounds {
    backoff: RestartBackoff,
    /// Time when the leadership of this round began. `None` if the candidate does not lead.
    began: Option<Instant>,
}

impl Rounds {
    /// Notes that a leadership began.
    pub fn begin(&mut self) {
        self.began = Some(Instant::now());
    }

    /// Records that the candidate no longer leads. Returns the pause before the next campaign.
    pub fn end(&mut self) -> Duration {
        let lasted = self.began.take().map(|began| began.elapsed()).unwrap_or_default();
        self.backoff.after(lasted)
    }

    /// Handles a failed campaign. Returns the pause before the next campaign, or `None` if the
    /// client is closed.
    ///
    /// # Errors
    /// Returns `error` itself if another campaign would fail in the same way.
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

    /// Returns a copy of `election` that keeps its current client, even after it is closed.
    ///
    /// # Errors
    /// The errors that [`Election::campaign`] can return before it sends a request.
    pub fn election(election: &Election) -> Result<Election> {
        election.on_one_client()
    }

    /// Returns `true` if no further campaign is possible, because the client is closed. Pass the
    /// candidate that [`election`](Self::election) returned, because any other candidate might
    /// switch to a new client.
    #[must_use]
    pub fn are_over(election: &Election) -> bool {
        election.lock.resolve().is_ok_and(|resolved| !resolved.client.mailbox().status.is_open())
    }

    /// Waits for `time` before the next campaign. Returns earlier if the client is closed.
    ///
    /// # Errors
    /// [`Forked`](ErrorKind::Forked), or [`ConnectionFailed`](ErrorKind::ConnectionFailed) if the
    /// operating system cannot start a thread.
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
    /// Campaigns and runs `body` while this candidate leads, again and again.
    ///
    /// The body receives the lease. When the body returns, the candidate resigns. If the leadership
    /// is lost, the body is dropped at its next await point. If the body returns after the loss
    /// without reaching an await point, its result is ignored, even if it is an error. If the
    /// candidate led for less than five seconds, the loop pauses for up to six seconds.
    ///
    /// The loop ends when the client is closed or drained. Closing a shared client also affects the
    /// other locks of the process on the same hosts. To end the loop in another way, drop the
    /// future, or return an error from the body.
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
    /// The errors of the body, and the errors of [`campaign`](Self::campaign). There is one
    /// exception: after [`ConnectionFailed`](ErrorKind::ConnectionFailed), the candidate campaigns
    /// again.
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
                    // A loss ends only this round.
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
