//! Supervises the command: passes signals on, and ends the command before its lease can end.

use std::future::pending;
use std::pin::pin;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use zklock::internal::{last_proof, why_unproven};
use zklock::{Client, ClientState, Lease, LeaseState};

use crate::failure::{Failure, LOST};
use crate::run::child::{Change, Child, End, Launch};
use crate::run::guard::{Guard, Look};
use crate::run::options::OnRevoke;
use crate::run::reaper::reap_orphans;
use crate::run::report::Reporter;
use crate::run::terminal::Terminal;
use crate::signals::{Signals, has_job_control, is_ignored, stop_ourselves};

/// Passed on to the command beside those that end a wait.
const PASSED_ON: [Signal; 2] = [Signal::SIGTSTP, Signal::SIGWINCH];

/// The command, and what it is watched by.
pub(crate) struct Supervision {
    child: Child,
    guard: Guard,
    signals: Signals,
    children: Signals,
    terminal: Option<Terminal>,
    reporter: Reporter,
    /// Whether somebody has stopped the command.
    stopped: bool,
    /// Whether somebody continues it, as soon as the lock allows it.
    resuming: bool,
    /// When the lease was to be looked at again.
    next_look: Instant,
    /// By how much a look was late at most.
    paused: Duration,
}

/// The end of the command, and the state of its lock then.
pub(crate) struct Ended {
    pub(crate) end: End,
    /// The rest of the lock's term.
    pub(crate) left: Duration,
    /// For how long no server had confirmed the session.
    pub(crate) unproven: Duration,
    /// The servers, and what is known of them.
    pub(crate) servers: String,
    /// The longest time for which this process was stopped, or the machine asleep.
    pub(crate) paused: Duration,
}

impl Supervision {
    /// Starts the command, unless its lock is lost already.
    pub(crate) fn start(
        lease: &Lease,
        launch: Launch,
        guard: Guard,
        mut signals: Signals,
        reporter: Reporter,
    ) -> Result<Self, Failure> {
        signals.add(PASSED_ON.into_iter().filter(|signal| !is_ignored(*signal)))?;
        signals.add([Signal::SIGCONT])?;
        let mut children = Signals::listen(&[])?;
        children.add([Signal::SIGCHLD])?;
        let terminal = Terminal::open();
        let foreground = terminal.clone().filter(Terminal::is_for_the_command);
        // Last: since the grant a file was written and a server asked, and this process may have been stopped.
        if let LeaseState::Lost(_) = lease.state() {
            reporter.lost(lease, "the command was not started");
            return Err(Failure { code: LOST, message: None });
        }
        let child = launch.start(foreground.clone()).inspect_err(|_| {
            if let Some(terminal) = foreground {
                // It may have had it already.
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
            next_look: Instant::now(),
            paused: Duration::ZERO,
        })
    }

    /// Whether the command was ended for the sake of the lock.
    pub(crate) fn told(&self) -> bool {
        self.guard.told()
    }

    /// Returns when the command has ended, and is reaped. If it was ended for the sake of the lock, all of its group has
    /// been sent SIGKILL.
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
            let look_again = self.obey(lease);
            tokio::select! {
                biased;
                _ = self.children.next() => if let Some(end) = self.changed()? { break end },
                signal = self.signals.next() => self.pass_on(signal, lease),
                _ = &mut lost, if !is_lost => {
                    is_lost = true;
                    let runs_on = self.guard.ignores_loss();
                    let then = if runs_on { "the command runs on without it" } else { "the command is ended" };
                    self.reporter.lost(lease, then);
                }
                () = &mut revoked, if !is_revoked => {
                    is_revoked = true;
                    if on_revoke == OnRevoke::Term {
                        self.pass_on(Signal::SIGTERM, lease);
                        if self.stopped {
                            // It sees the signal when it goes on.
                            self.pass_on(Signal::SIGCONT, lease);
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
                () = tokio::time::sleep(look_again) => {}
            }
        };
        if self.told() {
            // What it has started and left behind.
            self.child.signal(Signal::SIGKILL);
        }
        let ended = Ended {
            end,
            left: self.guard.left(lease, Instant::now()),
            unproven: last_proof(lease).unwrap_or_default(),
            servers: why_unproven(client),
            paused: self.paused,
        };
        if let Some(terminal) = &self.terminal {
            terminal.take_back(self.child.group());
        }
        Ok(ended)
    }

    /// Does what the state of the lease asks for; returns when to look again.
    fn obey(&mut self, lease: &Lease) -> Duration {
        let now = Instant::now();
        let late = now.saturating_duration_since(self.next_look);
        self.paused = self.paused.max(late);
        let (state, remaining) = (lease.state(), self.guard.left(lease, now));
        let step = self.guard.step(Look { state, remaining, now, late, idle: self.stopped });
        for signal in step.signals {
            let left = self.guard.left(lease, now);
            self.child.signal(signal);
            if signal == Signal::SIGTERM && self.stopped {
                self.child.signal(Signal::SIGCONT);
            }
            self.reporter.signal(signal, left);
        }
        if self.resuming && !self.guard.is_still() && !self.guard.told() {
            self.go_on();
        }
        self.next_look = now + step.look_again;
        step.look_again
    }

    /// A signal for us is one for the command.
    fn pass_on(&mut self, signal: Signal, lease: &Lease) {
        match signal {
            // After a pause the lock may be lost: then the command does not go on, not even for a moment.
            Signal::SIGCONT if self.stopped => {
                self.resuming = true;
                self.obey(lease);
            }
            Signal::SIGCONT => {
                self.obey(lease);
                if !self.guard.is_stopped() {
                    self.child.signal(Signal::SIGCONT);
                }
            }
            // Ctrl-Z again, while it waits for a proof of the lock.
            Signal::SIGTSTP if self.resuming => self.suspended(signal),
            _ => self.child.signal(signal),
        }
    }

    /// Has the command continue; in the foreground, if we are there.
    fn go_on(&mut self) {
        if let Some(terminal) = self.terminal.as_ref().filter(|terminal| terminal.is_ours()) {
            terminal.hand_to(self.child.group());
        }
        (self.stopped, self.resuming) = (false, false);
        self.child.signal(Signal::SIGCONT);
    }

    /// Some children have changed: what became of ours, if it has ended.
    fn changed(&mut self) -> Result<Option<End>, Failure> {
        while let Some(change) = self.child.look()? {
            match change {
                Change::Ended(end) => return Ok(Some(end)),
                Change::Continued => self.stopped = false,
                Change::Stopped(signal) => self.suspended(signal),
            }
        }
        reap_orphans(Some(self.child.group()));
        Ok(None)
    }

    /// The command has stopped. If the shell is to see that, we stop too; our heartbeats stop with us, and when we go on,
    /// the lease is looked at before the command.
    fn suspended(&mut self, by: Signal) {
        if self.guard.is_stopped() {
            return;
        }
        (self.stopped, self.resuming) = (true, false);
        let Some(terminal) = &self.terminal else { return };
        let wants_the_terminal = matches!(by, Signal::SIGTTIN | Signal::SIGTTOU);
        if wants_the_terminal && terminal.is_ours() {
            self.go_on();
        } else if has_job_control() {
            terminal.take_back(self.child.group());
            stop_ourselves();
        } else if by == Signal::SIGTSTP {
            // Ctrl-Z where nobody could continue it: as the kernel does, not heard.
            self.go_on();
        }
    }
}
