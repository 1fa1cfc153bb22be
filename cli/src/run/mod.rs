//! `zklock run`: takes a lock, runs a program, and releases the lock when the program has ended.

mod acquire;
mod child;
mod guard;
mod options;
mod signals;
mod supervise;
mod terminal;

use nix::sys::signal::Signal;
use tokio::runtime::Builder;
use zklock::{Client, Lease};

use crate::failure::{Failure, after_signal};
use crate::output::complain;
use crate::run::acquire::Wish;
use crate::run::child::{End, Launch};
use crate::run::guard::{Guard, Policy};
pub(crate) use crate::run::options::Options;
use crate::run::signals::Signals;
use crate::run::supervise::Supervision;

/// Those that end a wait.
const ENDING: [Signal; 6] =
    [Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT, Signal::SIGUSR1, Signal::SIGUSR2, Signal::SIGTERM];

/// Runs the program under the lock; returns the exit status.
pub(crate) fn run(options: &Options) -> Result<u8, Failure> {
    // On this thread: the kernel ends the child with the thread that started it.
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::system("cannot start", &error))?;
    runtime.block_on(under_lock(options))
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
    let launch = Launch::new(&options.command, &lease, Wish::of(options).mode());
    let mut supervision = Supervision::start(launch, Guard::new(policy), signals)?;
    let end = supervision.watch(client, &lease).await?;
    let told = supervision.told();
    // The child is reaped: nothing of it works under the lock any more.
    lease.release().await.ok();
    let lost = lease.loss_reason();
    if options.ignores_loss() {
        return Ok(status(end));
    }
    match (lost, told) {
        (None, false) => Ok(status(end)),
        (reason, _) => {
            let why = reason.map_or("no server proved it in time".to_owned(), |reason| reason.to_string());
            complain(format_args!(
                "the lock {:?} was lost while the command ran ({why}); the command {end}",
                lease.path()
            ));
            Err(Failure { code: crate::failure::LOST, message: None })
        }
    }
}

fn status(end: End) -> u8 {
    match end {
        End::Exited(code) => code,
        End::Signaled(signal) => after_signal(signal as i32),
    }
}
