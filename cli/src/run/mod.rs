//! `zklock run`: takes a lock, runs a program, and releases the lock when the program has ended.

mod acquire;
mod child;
mod guard;
mod options;
mod supervise;
mod terminal;

use std::time::Duration;

use nix::sys::signal::Signal;
use zklock::{Client, Lease, LossReason};

use crate::failure::{Failure, LOST, after_signal};
use crate::run::child::{End, Launch};
use crate::run::guard::{Guard, Policy};
pub(crate) use crate::run::options::Options;
use crate::run::supervise::Supervision;
use crate::session::runtime;
use crate::signals::Signals;
use crate::terminal_output::complain;

/// Those that end a wait.
const ENDING: [Signal; 6] =
    [Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT, Signal::SIGUSR1, Signal::SIGUSR2, Signal::SIGTERM];

/// Runs the program under the lock; returns the exit status.
pub(crate) fn run(options: &Options) -> Result<u8, Failure> {
    // On this thread: the kernel ends the child with the thread that started it.
    runtime()?.block_on(under_lock(options))
}

async fn under_lock(options: &Options) -> Result<u8, Failure> {
    let mut signals = Signals::listen(&ENDING)?;
    let client = Client::new(options.client()?);
    let acquired = tokio::select! {
        biased;
        signal = signals.next() => Err(Failure::signal(signal as i32)),
        acquired = acquire::acquire(&client, options) => acquired,
    };
    let outcome = match acquired {
        Ok(lease) => supervised(&client, lease, options, signals).await,
        Err(failure) => Err(failure),
    };
    // Whatever is left in the queue goes with the session.
    client.close().await.ok();
    outcome
}

async fn supervised(
    client: &Client,
    lease: Lease,
    options: &Options,
    signals: Signals,
) -> Result<u8, Failure> {
    let policy = Policy::new(options, lease.session_timeout());
    let launch = Launch::new(&options.command, &lease);
    let mut supervision = Supervision::start(launch, Guard::new(policy), signals)?;
    let (end, left) = supervision.watch(client, &lease).await?;
    let told = supervision.told();
    // The child is reaped: nothing of it works under the lock any more.
    lease.release().await.ok();
    let lost = lease.loss_reason();
    if lost.is_none() && !told {
        return Ok(status(end));
    }
    let why = lost.map_or("no server proved it in time", |reason| reason.as_str());
    let when = in_time(lost, left);
    let path = lease.path();
    complain(format_args!(
        "the lock {path:?} was lost while the command ran ({why}); the command {end}{when}"
    ));
    if options.ignores_loss() { Ok(status(end)) } else { Err(Failure { code: LOST, message: None }) }
}

/// Whether the command had ended when another contender could get the lock: the question, if two of them overlapped.
fn in_time(lost: Option<LossReason>, left: Duration) -> String {
    match lost {
        // Another contender may have had it before the term's end.
        Some(reason) if reason != LossReason::TermEnded => String::new(),
        _ if left.is_zero() => ", after the lock's term".to_owned(),
        _ => format!(", with {:.3} s of the lock's term left", left.as_secs_f64()),
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

    #[test]
    fn only_a_term_that_ran_out_tells_whether_the_command_was_in_time() {
        let left = Duration::from_millis(150);
        assert_eq!(in_time(None, left), ", with 0.150 s of the lock's term left");
        for lost in [None, Some(LossReason::TermEnded)] {
            assert_eq!(in_time(lost, Duration::ZERO), ", after the lock's term");
        }
        assert_eq!(in_time(Some(LossReason::NodeDeleted), Duration::ZERO), "");
        assert_eq!(in_time(Some(LossReason::SessionExpired), left), "");
    }
}
