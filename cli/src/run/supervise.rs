//! Supervises the command: forwards signals, and ends the command before its lease can end.

use std::future::pending;
use std::pin::pin;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use zklock::internal::{last_proof, why_unproven};
use zklock::{Client, ClientState, Lease, LeaseState};

use crate::failure::{Failure, LOST};
use crate::run::child::{Change, Child, End, Launch};
use crate::run::guard::{Guard, Observation};
use crate::run::options::OnRevoke;
use crate::run::reaper::reap_orphans;
use crate::run::report::Reporter;
use crate::run::terminal::Terminal;
use crate::signals::{Signals, has_job_control, is_ignored, stop_ourselves};

/// Signals that are forwarded to the command, in addition to those that end a wait for the lock.
const FORWARDED_SIGNALS: [Signal; 2] = [Signal::SIGTSTP, Signal::SIGWINCH];

/// The running command and the state of its supervision.
pub(crate) struct Supervision {
    child: Child,
    guard: Guard,
    signals: Signals,
    children: Signals,
    terminal: Option<Terminal>,
    reporter: Reporter,
    /// True if the command was stopped, but not by the guard.
    stopped: bool,
    /// True if the user wants the command to continue, but no server has confirmed the lock yet.
    resuming: bool,
    /// Time for which the next check of the lease is planned.
    next_check_at: Instant,
    /// Longest delay of a check.
    paused: Duration,
}

/// How the command ended, and the state of its lock at that moment.
pub(crate) struct Ended {
    pub(crate) end: End,
    /// The rest of the lock's term.
    pub(crate) left: Duration,
    /// Time since a server last confirmed the session.
    pub(crate) unproven: Duration,
    /// The servers and their known state.
    pub(crate) servers: String,
    /// Longest time for which this process was stopped or the machine was suspended.
    pub(crate) paused: Duration,
}

impl Supervision {
    /// Starts the command, unless its lock is already lost.
    pub(crate) fn start(
        lease: &Lease,
        launch: Launch,
        guard: Guard,
        mut signals: Signals,
        reporter: Reporter,
    ) -> Result<Self, Failure> {
        signals.add(FORWARDED_SIGNALS.into_iter().filter(|signal| !is_ignored(*signal)))?;
        signals.add([Signal::SIGCONT])?;
        let mut children = Signals::listen(&[])?;
        children.add([Signal::SIGCHLD])?;
        let terminal = Terminal::open();
        let foreground = terminal.clone().filter(Terminal::is_for_the_command);
        // Check the lease immediately before the start: since the grant, this process has written a
        // file and sent a request, and might have been stopped.
        if let LeaseState::Lost(_) = lease.state() {
            reporter.lost(lease, "the command was not started");
            return Err(Failure { code: LOST, message: None });
        }
        let child = launch.start(foreground.clone()).inspect_err(|_| {
            if let Some(terminal) = foreground {
                // The child might already own the terminal.
                terminal.hand_to(nix::unistd::getpgrp());
            }
        })?;
        Ok(Self {
            child,
            guard,
            signals,
            children,
            terminal,
            reporter,
            stopped: false,
            resuming: false,
            next_check_at: Instant::now(),
            paused: Duration::ZERO,
        })
    }

    pub(crate) fn was_signaled(&self) -> bool {
        self.guard.was_signaled()
    }

    /// Waits until the command has ended, and reaps it. If the command was ended because the lock
    /// was lost, also kills the rest of its process group.
    pub(crate) async fn watch(
        &mut self,
        client: &Client,
        lease: &Lease,
        on_revoke: OnRevoke,
    ) -> Result<Ended, Failure> {
        let mut states = client.states();
        let (mut lost, mut revoked) = (pin!(lease.lost()), pin!(lease.revoked()));
        let mut is_revoked = false;
        let (mut is_lost, mut stateless, mut suspended) = (false, false, false);
        let end = loop {
            let next_check = self.apply_guard(lease);
            tokio::select! {
                biased;
                _ = self.children.next() => if let Some(end) = self.children_changed()? { break end },
                signal = self.signals.next() => self.forward_signal(signal, lease),
                _ = &mut lost, if !is_lost => {
                    is_lost = true;
                    let runs_on = self.guard.ignores_loss();
                    let then = if runs_on { "the command continues without it" } else { "the command is ended" };
                    self.reporter.lost(lease, then);
                }
                () = &mut revoked, if !is_revoked => {
                    is_revoked = true;
                    if on_revoke == OnRevoke::Term {
                        self.forward_signal(Signal::SIGTERM, lease);
                        if self.stopped {
                            // Continue the command, because a stopped command cannot handle
                            // SIGTERM.
                            self.forward_signal(Signal::SIGCONT, lease);
                        }
                    }
                    self.reporter.revoked(lease, on_revoke);
                }
                state = async { if stateless { pending().await } else { states.next().await } } => {
                    stateless = state.is_none();
                    if let Some(state) = state {
                        self.reporter.state(client, lease, state, suspended);
                        suspended = state == ClientState::Suspended;
                    }
                }
                () = tokio::time::sleep(next_check) => {}
            }
        };
        if self.was_signaled() {
            // Kill processes that the command has started and left running.
            self.child.signal(Signal::SIGKILL);
        }
        let ended = Ended {
            end,
            left: self.guard.time_left(lease, Instant::now()),
            unproven: last_proof(lease).unwrap_or_default(),
            servers: why_unproven(client),
            paused: self.paused,
        };
        if let Some(terminal) = &self.terminal {
            terminal.take_back(self.child.group());
        }
        Ok(ended)
    }

    /// Sends the signals that the state of the lease requires. Returns the time until the next
    /// check.
    fn apply_guard(&mut self, lease: &Lease) -> Duration {
        let now = Instant::now();
        let delay = now.saturating_duration_since(self.next_check_at);
        self.paused = self.paused.max(delay);
        let (state, remaining) = (lease.state(), self.guard.time_left(lease, now));
        let step = self.guard.step(Observation { state, remaining, now, delay, idle: self.stopped });
        for signal in step.signals {
            let left = self.guard.time_left(lease, now);
            self.child.signal(signal);
            if signal == Signal::SIGTERM && self.stopped {
                self.child.signal(Signal::SIGCONT);
            }
            self.reporter.signal(signal, left);
        }
        if self.resuming && !self.guard.must_stop() && !self.guard.was_signaled() {
            self.resume_command();
        }
        self.next_check_at = now + step.next_check;
        step.next_check
    }

    /// Forwards a signal that this process received to the command.
    fn forward_signal(&mut self, signal: Signal, lease: &Lease) {
        match signal {
            // Check the lease before the command runs: the lock might have been lost while this
            // process was stopped.
            Signal::SIGCONT if self.stopped => {
                self.resuming = true;
                self.apply_guard(lease);
            }
            Signal::SIGCONT => {
                self.apply_guard(lease);
                if !self.guard.is_stopped() {
                    self.child.signal(Signal::SIGCONT);
                }
            }
            // The user pressed Ctrl-Z again before a server had confirmed the lock, so the command
            // is still stopped.
            Signal::SIGTSTP if self.resuming => self.suspended(signal),
            _ => self.child.signal(signal),
        }
    }

    /// Continues the command. If our process group is in the foreground, the command's group
    /// becomes the foreground group.
    fn resume_command(&mut self) {
        if let Some(terminal) = self.terminal.as_ref().filter(|terminal| terminal.is_ours()) {
            terminal.hand_to(self.child.group());
        }
        (self.stopped, self.resuming) = (false, false);
        self.child.signal(Signal::SIGCONT);
    }

    fn children_changed(&mut self) -> Result<Option<End>, Failure> {
        while let Some(change) = self.child.poll_change()? {
            match change {
                Change::Ended(end) => return Ok(Some(end)),
                Change::Continued => self.stopped = false,
                Change::Stopped(signal) => self.suspended(signal),
            }
        }
        reap_orphans(Some(self.child.group()));
        Ok(None)
    }

    /// Handles a stop of the command. If a shell with job control runs this process, this process
    /// then stops itself too. It sends no heartbeats while it is stopped, so it must check the
    /// lease before it continues the command.
    fn suspended(&mut self, by: Signal) {
        if self.guard.is_stopped() {
            return;
        }
        (self.stopped, self.resuming) = (true, false);
        let Some(terminal) = &self.terminal else { return };
        let wants_the_terminal = matches!(by, Signal::SIGTTIN | Signal::SIGTTOU);
        if wants_the_terminal && terminal.is_ours() {
            self.resume_command();
        } else if has_job_control() {
            terminal.take_back(self.child.group());
            stop_ourselves();
        } else if by == Signal::SIGTSTP {
            // Without job control, no shell could continue the command. Ignore Ctrl-Z, as the
            // kernel does.
            self.resume_command();
        }
    }
}
