//! Watches over the command: passes signals on, and keeps it within its lease.

use std::future::pending;
use std::pin::pin;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use zklock::{Client, Lease};

use crate::failure::Failure;
use crate::run::child::{Change, Child, End, Launch};
use crate::run::guard::Guard;
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
    /// Whether somebody has stopped the command.
    stopped: bool,
}

impl Supervision {
    /// Starts the command.
    pub(crate) fn start(launch: Launch, guard: Guard, mut signals: Signals) -> Result<Self, Failure> {
        signals.add(PASSED_ON.into_iter().filter(|signal| !is_ignored(*signal)))?;
        signals.add([Signal::SIGCONT])?;
        let mut children = Signals::listen(&[])?;
        children.add([Signal::SIGCHLD])?;
        let terminal = Terminal::open();
        let foreground = terminal.clone().filter(Terminal::is_for_the_command);
        let child = launch.start(foreground.clone()).inspect_err(|_| {
            if let Some(terminal) = foreground {
                // It may have had it already.
                terminal.hand_to(nix::unistd::getpgrp());
            }
        })?;
        Ok(Self { child, guard, signals, children, terminal, stopped: false })
    }

    /// Whether the command was ended for the sake of the lock.
    pub(crate) fn told(&self) -> bool {
        self.guard.told()
    }

    /// Returns when the command has ended, and is reaped: how it ended, and how much of the lock's term was left then. If
    /// it was ended for the sake of the lock, all of its group has been sent SIGKILL.
    pub(crate) async fn watch(&mut self, client: &Client, lease: &Lease) -> Result<(End, Duration), Failure> {
        let mut states = client.states();
        let mut lost = pin!(lease.lost());
        let (mut is_lost, mut stateless) = (false, false);
        let end = loop {
            let look_again = self.obey(lease);
            tokio::select! {
                biased;
                _ = self.children.next() => if let Some(end) = self.changed()? { break end },
                signal = self.signals.next() => self.pass_on(signal, lease),
                _ = &mut lost, if !is_lost => is_lost = true,
                state = async { if stateless { pending().await } else { states.next().await } } => {
                    stateless = state.is_none();
                }
                () = tokio::time::sleep(look_again) => {}
            }
        };
        if self.told() {
            // What it has started and left behind.
            self.child.signal(Signal::SIGKILL);
        }
        let left = lease.remaining();
        if let Some(terminal) = &self.terminal {
            terminal.take_back(self.child.group());
        }
        Ok((end, left))
    }

    /// Does what the state of the lease asks for; returns when to look again.
    fn obey(&mut self, lease: &Lease) -> Duration {
        let step = self.guard.step(lease.state(), lease.remaining(), Instant::now());
        for signal in step.signals {
            self.child.signal(signal);
            if signal == Signal::SIGTERM && self.stopped {
                self.child.signal(Signal::SIGCONT);
            }
        }
        step.look_again
    }

    /// A signal for us is one for the command.
    fn pass_on(&mut self, signal: Signal, lease: &Lease) {
        if signal != Signal::SIGCONT {
            self.child.signal(signal);
            return;
        }
        // After a pause the lock may be lost: then the command does not go on, not even for a moment.
        self.obey(lease);
        if self.guard.is_stopped() {
            return;
        }
        if self.stopped {
            self.go_on();
        } else {
            self.child.signal(Signal::SIGCONT);
        }
    }

    /// Has the command continue; in the foreground, if we are there.
    fn go_on(&mut self) {
        if let Some(terminal) = self.terminal.as_ref().filter(|terminal| terminal.is_ours()) {
            terminal.hand_to(self.child.group());
        }
        self.stopped = false;
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
        Ok(None)
    }

    /// The command has stopped. If the shell is to see that, we stop too; our heartbeats stop with us, and when we go on,
    /// the lease is looked at before the command.
    fn suspended(&mut self, by: Signal) {
        self.stopped = true;
        let Some(terminal) = self.terminal.as_ref().filter(|_| !self.guard.is_stopped()) else { return };
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
