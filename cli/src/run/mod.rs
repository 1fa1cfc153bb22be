//! `zklock run`: takes a lock, runs a program, and releases the lock when the program has ended.

mod acquire;
mod child;
mod guard;
mod layout;
mod line_writer;
mod metrics;
mod once;
mod options;
mod reaper;
mod report;
mod supervise;
mod terminal;

use std::time::Duration;

use nix::sys::signal::Signal;
use zklock::{Client, LossReason};

use crate::failure::{Failure, LOST, after_signal};
use crate::run::child::{End, Launch};
use crate::run::guard::{Guard, Policy};
use crate::run::metrics::Metrics;
use crate::run::once::Held;
pub(crate) use crate::run::options::Options;
use crate::run::reaper::reap_during;
use crate::run::report::Reporter;
use crate::run::supervise::{Ended, Supervision};
use crate::session::runtime;
use crate::signals::Signals;

/// Signals that end a wait.
const ENDING_SIGNALS: [Signal; 6] =
    [Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT, Signal::SIGUSR1, Signal::SIGUSR2, Signal::SIGTERM];

/// The reason why no program can be run under a lock on this system, or `None` if that is possible.
pub(crate) const REFUSAL: Option<&str> = None;

/// Runs the program under the lock; returns the exit status.
pub(crate) fn run(options: &Options) -> Result<u8, Failure> {
    let reporter = Reporter::start(options.reports)?;
    let outcome = measured(options, &reporter).map_err(|failure| report(&reporter, failure));
    reporter.finish();
    outcome
}

/// Runs the program, and writes the metrics of the run.
fn measured(options: &Options, reporter: &Reporter) -> Result<u8, Failure> {
    let metrics = Metrics::begin(options.metrics.as_deref(), &options.path, reporter)?;
    // The command must be started on this thread, because the kernel kills it when the thread that
    // started it exits.
    let outcome = runtime()?.block_on(under_lock(options, &metrics, reporter));
    metrics.ended(outcome.as_ref().map_or_else(|failure| failure.code, |status| *status));
    outcome
}

/// Reports a failure; returns the failure without its message.
fn report(reporter: &Reporter, failure: Failure) -> Failure {
    let Failure { code, message } = failure;
    if let Some(message) = message {
        reporter.report("failed", message);
    }
    Failure { code, message: None }
}

async fn under_lock(options: &Options, metrics: &Metrics, reporter: &Reporter) -> Result<u8, Failure> {
    let mut signals = Signals::listen(&ENDING_SIGNALS)?;
    let client = Client::new(options.client()?);
    let acquired = tokio::select! {
        biased;
        signal = signals.next() => Err(Failure::signal(signal as i32)),
        acquired = reap_during(acquire::acquire(&client, options, reporter)) => acquired,
    };
    let outcome = match acquired {
        Ok(held) => supervised(&client, held, options, metrics, reporter, signals).await,
        Err(failure) => Err(failure),
    };
    // The end of the session also removes any node that is still in the queue.
    client.close().await.ok();
    outcome
}

async fn supervised(
    client: &Client,
    held: Held,
    options: &Options,
    metrics: &Metrics,
    reporter: &Reporter,
    signals: Signals,
) -> Result<u8, Failure> {
    metrics.granted();
    let lease = &*held;
    layout::warn_of_other_kind(client, lease, options, reporter).await;
    let policy = Policy::new(options, lease.session_timeout());
    let launch = Launch::new(&options.command, lease);
    let guard = Guard::new(policy);
    let started = Supervision::start(lease, launch, guard, signals, reporter.clone());
    let mut supervision = started.inspect_err(|failure| {
        if failure.code == LOST {
            metrics.lost();
        }
    })?;
    let ended = supervision.watch(client, lease, options.on_revoke).await?;
    let was_signaled = supervision.was_signaled();
    // The child is reaped, so it no longer works under the lock.
    let (lease, recorded) = held.end(!was_signaled && ended.end == End::Exited(0)).await;
    let lost = lease.loss_reason();
    if lost.is_none() && !was_signaled {
        recorded?;
        return Ok(status(ended.end));
    }
    metrics.lost();
    let path = lease.path();
    let (end, why, when) =
        (ended.end, why_lost(lost, &ended), in_time(lost, &ended, lease.session_timeout()));
    reporter.report(
        "ended",
        format_args!("the lock {path:?} was lost while the command ran: {why}; the command {end}{when}"),
    );
    if options.ignores_loss() { Ok(status(end)) } else { Err(Failure { code: LOST, message: None }) }
}

/// Describes the cause of a loss.
fn why_lost(lost: Option<LossReason>, ended: &Ended) -> String {
    match lost {
        None | Some(LossReason::TermEnded) => {
            let Ended { unproven, paused, servers, .. } = ended;
            let time = unproven.as_secs_f64();
            if *paused >= *unproven / 2 {
                let paused = paused.as_secs_f64();
                return format!(
                    "this process was stopped, or the machine was suspended, for {paused:.1} s, and the session was \
                     not confirmed for {time:.1} s"
                );
            }
            format!("no server confirmed the session for {time:.1} s ({servers})")
        }
        Some(reason) => reason.to_string(),
    }
}

/// Describes whether the command ended before another contender could get the lock. From this,
/// users see whether two commands might have run at the same time.
fn in_time(lost: Option<LossReason>, ended: &Ended, session_timeout: Duration) -> String {
    match lost {
        // After a loss for another reason, such as a broken lock, another contender might have held
        // the lock before the end of the term. So the remaining time says nothing.
        Some(reason) if reason != LossReason::TermEnded => String::new(),
        _ if ended.left.is_zero() => {
            // The term is half of the session timeout.
            let late = ended.unproven.saturating_sub(session_timeout / 2).as_secs_f64();
            format!(
                ", {late:.1} s AFTER the term: another process might have held the lock meanwhile; check the results"
            )
        }
        _ => format!(", with {:.3} s of the lock's term left", ended.left.as_secs_f64()),
    }
}

fn status(end: End) -> u8 {
    match end {
        End::Exited(code) => code,
        End::Signaled(signal) => after_signal(signal as i32),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn ended(left: Duration, unproven: Duration) -> Ended {
        let (end, servers, paused) = (End::Exited(0), "10.0.0.1:2181: no answer".to_owned(), Duration::ZERO);
        Ended { end, left, unproven, servers, paused }
    }

    #[test]
    fn only_a_term_that_ran_out_tells_whether_the_command_was_in_time() {
        let left = Duration::from_millis(150);
        let said = |lost, left, unproven| in_time(lost, &ended(left, unproven), 10 * SECOND);
        assert_eq!(said(None, left, 5 * SECOND), ", with 0.150 s of the lock's term left");
        let late =
            ", 12.0 s AFTER the term: another process might have held the lock meanwhile; check the results";
        for lost in [None, Some(LossReason::TermEnded)] {
            assert_eq!(said(lost, Duration::ZERO, 17 * SECOND), late);
        }
        assert_eq!(said(Some(LossReason::NodeDeleted), Duration::ZERO, SECOND), "");
        assert_eq!(said(Some(LossReason::SessionExpired), left, SECOND), "");
    }

    #[test]
    fn a_loss_names_its_cause() {
        let silent = ended(Duration::ZERO, Duration::from_millis(3_800));
        let said = "no server confirmed the session for 3.8 s (10.0.0.1:2181: no answer)";
        assert_eq!([None, Some(LossReason::TermEnded)].map(|lost| why_lost(lost, &silent)), [said, said]);
        assert_eq!(why_lost(Some(LossReason::NodeDeleted), &silent), "node deleted");
        let paused = Ended { paused: 30 * SECOND, ..ended(Duration::ZERO, 31 * SECOND) };
        let said = "this process was stopped, or the machine was suspended, for 30.0 s, and the session was not \
                    confirmed for 31.0 s";
        assert_eq!(why_lost(Some(LossReason::TermEnded), &paused), said);
    }
}
