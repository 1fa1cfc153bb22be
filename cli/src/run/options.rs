//! The options of `zklock run`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};
use zklock::{ClientOptions, LockOptions};

use crate::connection::{Connection, with_session_timeout};
use crate::duration;
use crate::failure::{CONFLICT, Failure};
use crate::run::once::OncePerSlot;
use crate::run::report::ReportOptions;

const EXAMPLES: &str = "\
Exit status:
  the command's own; 128+N if signal N ended it, or ended the wait for the lock
  75   the lock is taken (with -n, or after the time of -w), or too many contenders already wait for
       it (--max-waiters); -E sets another status
  79   the lock was lost while the command ran, and zklock ended the command
  69   no server can be reached        77   credentials refused
  64   wrong usage                     126, 127   the command cannot be run, or is not found
  70   a system call failed, or the lock's directory has used up its sequence numbers

Environment of the command:
  ZKLOCK_PATH, ZKLOCK_NODE, ZKLOCK_TOKEN (fencing token), ZKLOCK_SESSION, ZKLOCK_MODE

Examples:
  zklock run -n /locks/nightly -- ./nightly.sh        # one host of many; the others exit with 75
  zklock run -n -E 0 /locks/nightly -- ./nightly.sh   # the same in a crontab: no mail from the others
  zklock run -w 30 /locks/deploy -- make deploy       # wait for at most 30 seconds
  zklock run --max-waiters 2 /locks/deploy -- make deploy  # do not wait behind two waiters
  zklock run --grace 1.5 /locks/feed -- ./feed.sh     # SIGTERM comes 1.5 seconds before the deadline
  zklock run --once-per 1d /jobs/report -- ./report.sh  # once a day, on the first host that gets the lock
  zklock run --slots 3 /locks/gpu -- ./train.sh       # three at a time
  zklock run -s /locks/data -- ./report.sh            # together with other readers, but no writer (-x)
  ZKLOCK_HOSTS=zk1,zk2,zk3/app zklock run /locks/job -- ./job.sh";

/// Take a lock, run a command, and release the lock when the command has ended
///
/// The command runs without a shell, and receives the signals that zklock receives. Meanwhile,
/// zklock sends heartbeats to the servers. If they do not reply, it ends the command before another
/// contender can get the lock.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// The lock's path, such as /locks/nightly
    #[arg(value_name = "PATH")]
    pub(crate) path: String,
    /// The command and its arguments
    #[arg(value_name = "COMMAND", required = true, trailing_var_arg = true)]
    pub(crate) command: Vec<OsString>,

    /// Acquire the write lock of a read/write lock. Without -x, -s and --slots the lock is a mutex
    #[arg(short = 'x', long, group = "mode")]
    pub(crate) exclusive: bool,
    /// Acquire the read lock of a read/write lock, which several readers can hold together
    #[arg(short = 's', long, group = "mode")]
    pub(crate) shared: bool,
    /// Acquire one of the N permits of a semaphore; all contenders must specify the same N
    #[arg(long, value_name = "N", group = "mode", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) slots: Option<u32>,

    /// Do not wait: if the lock is taken, exit with status 75
    #[arg(short = 'n', long = "nonblock", group = "timeout")]
    pub(crate) nonblock: bool,
    /// Wait for at most this long: 30, 1.5, 500ms, 1m30s
    #[arg(short = 'w', long = "wait", value_name = "TIME", group = "timeout", value_parser = duration::parse)]
    pub(crate) wait: Option<Duration>,
    /// If N contenders already wait, exit with status 75 immediately; with 0, never wait
    #[arg(long, value_name = "N", conflicts_with = "nonblock")]
    pub(crate) max_waiters: Option<u32>,
    /// The exit status if the lock is taken; 0 also suppresses the message
    #[arg(short = 'E', long, value_name = "CODE", default_value_t = CONFLICT)]
    pub(crate) conflict_exit_code: u8,

    /// The session timeout to request. If this machine fails, the lock stays taken for this time
    /// [env: `ZKLOCK_SESSION_TIMEOUT`] [default: 10s]
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub(crate) session_timeout: Option<Duration>,
    /// Action while no server replies, but the lock is still certain to be held
    #[arg(long, value_enum, default_value_t = OnSuspend::Continue)]
    pub(crate) on_suspend: OnSuspend,
    /// Action when the lock is about to be lost
    #[arg(long, value_enum, default_value_t = OnLost::Term)]
    pub(crate) on_lost: OnLost,
    /// Action when another program asks for the lock, as `zklock revoke` does
    #[arg(long, value_enum, default_value_t = OnRevoke::Ignore)]
    pub(crate) on_revoke: OnRevoke,
    /// Send SIGTERM to the command this long before another contender could get the lock, and
    /// SIGKILL 0.2 s before that [default: an eighth of the session timeout]
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub(crate) kill_after: Option<Duration>,
    /// Report the loss of the lock, and send SIGTERM, this long before another contender could get
    /// the lock; replaces --kill-after. The lock stays taken until the command has ended or this
    /// time is over. SIGKILL follows 0.2 s before this time is over. At most a sixth of the session
    /// timeout
    #[arg(long, value_name = "TIME", value_parser = duration::parse, conflicts_with = "kill_after")]
    pub(crate) grace: Option<Duration>,
    #[command(flatten)]
    pub(crate) once: OncePerSlot,
    #[command(flatten)]
    pub(crate) reports: ReportOptions,
    /// Write metrics of the run to this file, in the format of Prometheus: its start and end, how
    /// long it waited and held the lock, its exit status and the number of losses. For
    /// `node_exporter`'s textfile collector, use a separate file *.prom for each job
    #[arg(long, value_name = "FILE")]
    pub(crate) metrics: Option<PathBuf>,
    /// A name for this contender, which `zklock ls` shows [default: the command's name]
    #[arg(long, value_name = "TEXT")]
    label: Option<String>,

    #[command(flatten)]
    connection: Connection,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnSuspend {
    /// Let it run
    Continue,
    /// Stop it (SIGSTOP) when the connection is lost or a heartbeat is late, and continue it when a
    /// server replies
    Stop,
    /// End it (SIGTERM)
    Term,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnLost {
    /// SIGTERM first, and SIGKILL if it is still there
    Term,
    /// SIGKILL alone
    Kill,
    /// Let it run without the lock: for commands that check a fencing token themselves
    Ignore,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnRevoke {
    /// Let it run, and report that
    Ignore,
    /// End it with SIGTERM (and SIGCONT if it is stopped), without a time limit
    Term,
}

impl Options {
    /// Returns the grace: the time between the report of a loss and the earliest grant to another
    /// contender.
    pub(crate) fn grace(&self) -> Duration {
        self.grace.unwrap_or_default()
    }

    /// Returns the options of the lock.
    pub(crate) fn lock(&self) -> LockOptions {
        let options = LockOptions::default().grace(self.grace());
        match self.max_waiters {
            Some(waiters) => options.max_waiters(waiters),
            None => options,
        }
    }

    pub(crate) fn ignores_loss(&self) -> bool {
        self.on_lost == OnLost::Ignore
    }

    /// Returns the options of the client.
    pub(crate) fn client(&self) -> Result<ClientOptions, Failure> {
        // Use only the command's name as the label, because its arguments can contain secrets.
        let name = || self.command.first().and_then(|name| Path::new(name).file_name());
        let label = self.label.clone().or_else(|| Some(name()?.to_string_lossy().into_owned()));
        let options = self.connection.options(self.wait)?;
        Ok(with_session_timeout(options, self.session_timeout)?.label(label)?)
    }
}
