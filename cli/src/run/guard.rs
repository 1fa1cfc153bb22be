//! When the command has to stop, go on or end, by the state of its lease. Decides only; reads no clock, sends nothing.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use zklock::{LeaseState, LossReason};

use crate::run::options::{OnLost, OnSuspend, Options};

/// What the options ask for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Policy {
    on_suspend: OnSuspend,
    on_lost: OnLost,
    /// With so much left of the term the command is told to end.
    kill_after: Duration,
    /// With so much left it is killed: the time in which the kernel has to end it.
    margin: Duration,
    /// The longest time without a look at the lease: its clock runs on while the machine sleeps, timers do not.
    look: Duration,
}

/// So long before the end of the term a command is killed, unless the session time-out is very short.
const MARGIN: Duration = Duration::from_millis(200);

/// The longest time without a look at the lease.
const LOOK: Duration = Duration::from_millis(500);

impl Policy {
    pub(crate) fn new(options: &Options, session_timeout: Duration) -> Self {
        let margin = MARGIN.min(session_timeout / 16);
        Self {
            on_suspend: options.on_suspend,
            on_lost: options.on_lost,
            kill_after: options.kill_after.unwrap_or(session_timeout / 8).max(margin),
            margin,
            look: LOOK.min(session_timeout / 20),
        }
    }
}

/// What has been done to the command.
pub(crate) struct Guard {
    policy: Policy,
    stopped: bool,
    told: bool,
    killed: bool,
    /// When a loss was seen, and told of.
    lost: Option<Instant>,
}

/// What to do now.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// Signals for the command's group.
    pub(crate) signals: Vec<Signal>,
    /// When to look again at the latest.
    pub(crate) look_again: Duration,
}

impl Guard {
    pub(crate) fn new(policy: Policy) -> Self {
        Self { policy, stopped: false, told: false, killed: false, lost: None }
    }

    /// Whether the command was ended for the sake of the lock.
    pub(crate) fn told(&self) -> bool {
        self.told || self.killed
    }

    /// Whether the command is stopped until a server answers.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// What follows from the state of the lease, and what is left of its term.
    pub(crate) fn step(&mut self, state: LeaseState, remaining: Duration, now: Instant) -> Step {
        let mut signals = Vec::new();
        let next = match state {
            LeaseState::Lost(reason) => self.lost(reason, now, &mut signals),
            LeaseState::Suspended => {
                match self.policy.on_suspend {
                    OnSuspend::Continue => {}
                    OnSuspend::Stop if self.stopped || self.told() => {}
                    OnSuspend::Stop => {
                        self.stopped = true;
                        signals.push(Signal::SIGSTOP);
                    }
                    OnSuspend::Term => self.tell(&mut signals),
                }
                self.certain(remaining, &mut signals)
            }
            _ => {
                self.proceed(&mut signals);
                self.certain(remaining, &mut signals)
            }
        };
        Step { signals, look_again: next.min(self.policy.look).max(Duration::from_millis(1)) }
    }

    /// The lock is still certain for a while.
    fn certain(&mut self, remaining: Duration, signals: &mut Vec<Signal>) -> Duration {
        let Policy { on_lost, kill_after, margin, .. } = self.policy;
        if on_lost == OnLost::Ignore {
            return remaining;
        }
        if remaining <= margin {
            self.kill(signals);
            return remaining;
        }
        if on_lost == OnLost::Term && remaining <= kill_after {
            self.tell(signals);
        }
        if self.told || on_lost == OnLost::Kill {
            remaining.saturating_sub(margin)
        } else {
            remaining.saturating_sub(kill_after)
        }
    }

    /// Another contender may hold the lock.
    fn lost(&mut self, reason: LossReason, now: Instant, signals: &mut Vec<Signal>) -> Duration {
        let since = *self.lost.get_or_insert(now);
        let Policy { on_lost, kill_after, look, .. } = self.policy;
        match on_lost {
            OnLost::Ignore => {
                self.proceed(signals);
                return look;
            }
            // At the end of the term all of its time is over.
            OnLost::Term if reason != LossReason::TermEnded => {
                self.tell(signals);
                let left = (since + kill_after).saturating_duration_since(now);
                if !left.is_zero() {
                    return left;
                }
            }
            _ => {}
        }
        self.kill(signals);
        look
    }

    fn proceed(&mut self, signals: &mut Vec<Signal>) {
        if std::mem::take(&mut self.stopped) {
            signals.push(Signal::SIGCONT);
        }
    }

    fn tell(&mut self, signals: &mut Vec<Signal>) {
        if !self.told {
            self.told = true;
            signals.push(Signal::SIGTERM);
            // It sees the signal when it goes on.
            self.proceed(signals);
        }
    }

    fn kill(&mut self, signals: &mut Vec<Signal>) {
        if !self.killed {
            self.killed = true;
            signals.push(Signal::SIGKILL);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn guard(on_suspend: OnSuspend, on_lost: OnLost) -> Guard {
        Guard::new(Policy { on_suspend, on_lost, kill_after: SECOND, margin: MARGIN, look: LOOK })
    }

    fn signals(guard: &mut Guard, state: LeaseState, millis: u64) -> Vec<Signal> {
        guard.step(state, Duration::from_millis(millis), Instant::now()).signals
    }

    #[test]
    fn it_is_told_at_kill_after_and_killed_before_the_end_each_once() {
        let mut guard = guard(OnSuspend::Continue, OnLost::Term);
        assert_eq!(signals(&mut guard, LeaseState::Suspended, 1001), []);
        assert_eq!(signals(&mut guard, LeaseState::Suspended, 1000), [Signal::SIGTERM]);
        assert_eq!(signals(&mut guard, LeaseState::Suspended, 201), []);
        assert_eq!(signals(&mut guard, LeaseState::Suspended, 200), [Signal::SIGKILL]);
        assert_eq!(signals(&mut guard, LeaseState::Lost(LossReason::TermEnded), 0), []);
    }

    #[test]
    fn it_is_looked_at_again_before_the_next_signal_is_due() {
        let mut guard = guard(OnSuspend::Continue, OnLost::Term);
        let mut again = |millis| {
            guard.step(LeaseState::Suspended, Duration::from_millis(millis), Instant::now()).look_again
        };
        assert_eq!(again(9000), LOOK);
        assert_eq!(again(1100), Duration::from_millis(100));
        assert_eq!(again(300), Duration::from_millis(100));
    }

    #[test]
    fn a_broken_lock_ends_it_at_once_and_kills_it_later() {
        let mut guard = guard(OnSuspend::Continue, OnLost::Term);
        let broken = LeaseState::Lost(LossReason::NodeDeleted);
        let now = Instant::now();
        let step = guard.step(broken, Duration::ZERO, now);
        assert_eq!(step.signals, [Signal::SIGTERM]);
        assert_eq!(guard.step(broken, Duration::ZERO, now + SECOND / 2).signals, []);
        assert_eq!(guard.step(broken, Duration::ZERO, now + SECOND).signals, [Signal::SIGKILL]);
    }

    #[test]
    fn after_the_end_of_the_term_there_is_no_time_left() {
        let mut guard = guard(OnSuspend::Continue, OnLost::Term);
        assert_eq!(signals(&mut guard, LeaseState::Lost(LossReason::TermEnded), 0), [Signal::SIGKILL]);
    }

    #[test]
    fn kill_sends_no_sigterm_and_ignore_nothing() {
        let mut kills = guard(OnSuspend::Continue, OnLost::Kill);
        assert_eq!(signals(&mut kills, LeaseState::Suspended, 500), []);
        assert_eq!(signals(&mut kills, LeaseState::Suspended, 200), [Signal::SIGKILL]);
        let mut ignores = guard(OnSuspend::Continue, OnLost::Ignore);
        assert_eq!(signals(&mut ignores, LeaseState::Suspended, 100), []);
        assert_eq!(signals(&mut ignores, LeaseState::Lost(LossReason::TermEnded), 0), []);
        assert!(!ignores.told());
    }

    #[test]
    fn a_stopped_command_goes_on_when_a_server_answers_or_when_it_has_to_end() {
        let mut answered = guard(OnSuspend::Stop, OnLost::Term);
        assert_eq!(signals(&mut answered, LeaseState::Suspended, 3000), [Signal::SIGSTOP]);
        assert_eq!(signals(&mut answered, LeaseState::Suspended, 2500), []);
        assert_eq!(signals(&mut answered, LeaseState::Held, 5000), [Signal::SIGCONT]);
        assert_eq!(signals(&mut answered, LeaseState::Suspended, 3000), [Signal::SIGSTOP]);
        assert_eq!(signals(&mut answered, LeaseState::Suspended, 900), [Signal::SIGTERM, Signal::SIGCONT]);
        let mut ends = guard(OnSuspend::Term, OnLost::Term);
        assert_eq!(signals(&mut ends, LeaseState::Suspended, 3000), [Signal::SIGTERM]);
    }
}
