//! One contender of the demo and its processes.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Instant;

use zklock::Contender;
use zklock::internal::VARIABLES;

use crate::demo::Program;
use crate::demo::play::PATH;
use crate::failure::Failure;

/// Number of `zklock run` processes in each line of the picture. They run one after the other.
const ROUNDS: usize = 3;
/// Duration of each hold of `zklock run`, in seconds.
const HOLD: &str = "0.4";
/// Session timeout of `zklock run`: the lock of a killed process stays taken for this long.
const SESSION: &str = "2s";

/// A line of the picture. It runs one process after the other.
pub(super) struct Contestant {
    pub(super) title: String,
    command: Vec<OsString>,
    hosts: String,
    /// `true` if the user gave this program with `--with`. Its messages are shown in plain mode.
    is_program: bool,
    verbose: bool,
    /// Number of processes to start one after the other.
    rounds: usize,
    process: Option<Child>,
    /// Process id of the process that was started last. It is needed even after a kill, because the
    /// node of a killed process exists until its session expires.
    pid: u32,
    started: usize,
    /// `true` if its nodes have no data, such as Curator's.
    pub(super) is_anonymous: bool,
    /// Number of grants that were seen.
    pub(super) grants: usize,
    /// Fencing token of its last grant.
    pub(super) token: i64,
    /// Time when the last grant was seen.
    pub(super) granted: Instant,
    /// Time when its process was killed.
    pub(super) killed: Option<Instant>,
    pub(super) queued: Instant,
}

impl Drop for Contestant {
    fn drop(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().ok();
            process.wait().ok();
        }
    }
}

impl Contestant {
    fn new(title: String, command: Vec<OsString>, hosts: &str, rounds: usize) -> Self {
        let now = Instant::now();
        Self {
            title,
            command,
            hosts: hosts.to_owned(),
            is_program: false,
            verbose: false,
            rounds,
            process: None,
            pid: 0,
            started: 0,
            is_anonymous: false,
            grants: 0,
            token: 0,
            granted: now,
            killed: None,
            queued: now,
        }
    }

    /// Creates a contestant that runs `zklock run` several times.
    pub(super) fn of_zklock_run(number: usize, zklock: &Path, hosts: &str) -> Self {
        let title = format!("process {number}");
        let options = ["run", "-z", hosts, "--session-timeout", SESSION, "--label", &title, PATH, "--"];
        let words = options.into_iter().chain(["sleep", HOLD]).map(OsString::from);
        let command = [zklock.as_os_str().to_owned()].into_iter().chain(words).collect();
        Self::new(title, command, hosts, ROUNDS)
    }

    /// Creates a contestant that runs the user's program once.
    pub(super) fn of_program(program: &Program, hosts: &str, verbose: bool) -> Self {
        // `exec` replaces the shell, so the program has the process id of the shell. This id is
        // needed to find the program's nodes, whose data contains it.
        let command = ["sh", "-c", &format!("exec {}", program.command)].map(OsString::from).into();
        let mut contestant = Self::new(program.title.clone(), command, hosts, 1);
        contestant.is_program = true;
        contestant.verbose = verbose;
        contestant
    }

    /// Starts the next process.
    pub(super) fn start(&mut self) -> Result<(), Failure> {
        let mut command = Command::new(&self.command[0]);
        for name in VARIABLES {
            // The demo must not use the user's own servers.
            command.env_remove(name);
        }
        command.args(&self.command[1..]).stdin(Stdio::null()).stdout(Stdio::null());
        if self.is_program {
            command.env("ZKLOCK_HOSTS", &self.hosts);
        } else {
            command.env_remove("ZKLOCK_HOSTS");
        }
        if !self.verbose {
            command.stderr(Stdio::null());
        }
        let program = self.command[0].to_string_lossy();
        let process = command
            .spawn()
            .map_err(|error| Failure::system("cannot start a process", &format!("{program}: {error}")))?;
        self.pid = process.id();
        self.process = Some(process);
        self.started += 1;
        self.queued = Instant::now();
        Ok(())
    }

    /// Returns `true` if a process of this contestant created this contender's node.
    pub(super) fn owns(&self, contender: &Contender) -> bool {
        contender.about.as_ref().map_or(self.is_anonymous, |about| about.pid == self.pid)
    }

    /// Returns the status of the current process if it has just ended.
    pub(super) fn ended(&mut self) -> Result<Option<ExitStatus>, Failure> {
        let Some(process) = &mut self.process else { return Ok(None) };
        let ended =
            process.try_wait().map_err(|error| Failure::system("cannot wait for a process", &error))?;
        if ended.is_some() {
            self.process = None;
        }
        Ok(ended)
    }

    /// Describes the time for which the lock stays taken after a kill.
    pub(super) fn session(&self) -> String {
        if self.is_program {
            "the lock is free when its session ends".to_owned()
        } else {
            format!("its session lasts for up to {SESSION}")
        }
    }

    /// Describes the failure of a process that ended with this status.
    pub(super) fn failure(&self, status: ExitStatus) -> Failure {
        let advice = if self.is_program && !self.verbose { "; `--plain` shows its messages" } else { "" };
        Failure::system(&format!("{} failed", self.title), &format!("{status}{advice}"))
    }

    pub(super) fn runs(&self) -> bool {
        self.process.is_some()
    }

    /// Returns `true` if another process has to be started.
    pub(super) fn continues(&self) -> bool {
        self.killed.is_none() && self.started < self.rounds
    }

    /// Returns `true` if it holds the lock for the second time.
    pub(super) fn holds_again(&self, newest: i64) -> bool {
        self.runs() && self.grants == 2 && self.token == newest
    }

    pub(super) fn kill(&mut self) {
        if let Some(process) = &mut self.process {
            process.kill().ok();
            self.killed = Some(Instant::now());
        }
    }
}
