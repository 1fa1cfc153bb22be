//! Decides when the command must be stopped, continued or ended. The decision depends on the state
//! of the lease and its *term*, the time for which the lock is certain. This module reads no clock
//! and sends nothing.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use zklock::internal::term_left;
use zklock::{Lease, LeaseState, LossReason};

use crate::run::options::{OnLost, OnSuspend, Options};

/// The part of the options that concerns the lease.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Policy {
    on_suspend: OnSuspend,
    on_lost: OnLost,
    /// The command receives SIGTERM when this much of the term is left.
    kill_after: Duration,
    /// Time between the report of a loss and the earliest grant to another contender.
    grace: Duration,
    /// Remaining term at which the command is killed. The kernel needs some time to end the
    /// command.
    margin: Duration,
    /// A heartbeat counts as late when the rest of the term is shorter than this.
    late: Duration,
    /// The longest time between two checks of the lease. It must be short: while the machine
    /// sleeps, the time of the lease runs on, but timers do not.
    check_interval: Duration,
}

/// Time between the kill of the command and the earliest grant to another contender. Shorter if the
/// session timeout is very short.
const MARGIN: Duration = Duration::from_millis(200);

/// The longest time between two checks of the lease.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// The longest time between two checks while the command is stopped and the next heartbeat is
/// pending.
const STOPPED_CHECK_INTERVAL: Duration = Duration::from_millis(20);

impl Policy {
    pub(crate) fn new(options: &Options, session_timeout: Duration) -> Self {
        let margin = MARGIN.min(session_timeout / 16);
        Self {
            on_suspend: options.on_suspend,
            on_lost: options.on_lost,
            // With a grace, the command receives SIGTERM when the lease is reported lost.
            kill_after: options.grace.or(options.kill_after).unwrap_or(session_timeout / 8).max(margin),
            grace: options.grace(),
            margin,
            // A term is 12/24 of the session timeout. A heartbeat is sent 4/24 into the term, and
            // its reply counts as late 1/24 after that. At that time 7/24 are left.
            late: session_timeout * 7 / 24,
            check_interval: CHECK_INTERVAL.min(session_timeout / 20),
        }
    }
}

/// State of the supervised command: the signals that the guard has sent to it, and the reason for
/// them.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own, and they come in any combination"
)]
pub(crate) struct Guard {
    policy: Policy,
    /// True while the command must be stopped until a server replies.
    must_stop: bool,
    /// True if the guard has stopped the command with SIGSTOP.
    stopped: bool,
    /// True if the command is stopped because this process was paused. A paused process sends no
    /// heartbeats, so its term can be almost over although the servers are reachable. The reply to
    /// the next heartbeat might arrive soon.
    paused: bool,
    terminated: bool,
    killed: bool,
    /// When a loss was first seen.
    lost: Option<Instant>,
    /// For a lock with a grace: the time at which another contender could get the lock. It is
    /// computed by each check until the lease is lost.
    term_ends: Option<Instant>,
}

/// The lease and the command, as seen at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Observation {
    pub(crate) state: LeaseState,
    /// The rest of the lease's term, including the grace.
    pub(crate) remaining: Duration,
    pub(crate) now: Instant,
    /// Delay of this check. A long delay means that this process was paused.
    pub(crate) delay: Duration,
    /// True if the command was stopped, but not by the guard.
    pub(crate) idle: bool,
}

/// Result of one check: the signals to send, and the time of the next check.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// Signals for the command's process group.
    pub(crate) signals: Vec<Signal>,
    /// Maximum time until the next check.
    pub(crate) next_check: Duration,
}

impl Guard {
    pub(crate) fn new(policy: Policy) -> Self {
        let (must_stop, stopped, paused, terminated, killed) = (false, false, false, false, false);
        Self { policy, must_stop, stopped, paused, terminated, killed, lost: None, term_ends: None }
    }

    /// Returns `true` if the command received SIGTERM or SIGKILL because of the lock.
    pub(crate) fn was_signaled(&self) -> bool {
        self.terminated || self.killed
    }

    /// Returns `true` if the command continues to run after the lock is lost.
    pub(crate) fn ignores_loss(&self) -> bool {
        self.policy.on_lost == OnLost::Ignore
    }

    pub(crate) fn must_stop(&self) -> bool {
        self.must_stop
    }

    /// Returns `true` if the guard has stopped the command.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// Returns the time until another contender can hold the lock. With a grace, the lease is
    /// reported lost before that time. Then this function returns the rest of the grace.
    ///
    /// A reply to a heartbeat within the grace does not extend this time, so the function uses the
    /// value from the last check before the loss. The result is at most the rest of the session's
    /// term, because the machine might have been suspended since that check.
    pub(crate) fn time_left(&mut self, lease: &Lease, now: Instant) -> Duration {
        let grace = self.policy.grace;
        match lease.state() {
            _ if grace.is_zero() => lease.remaining(),
            LeaseState::Lost(LossReason::TermEnded) => {
                let left = self.term_ends.map(|end| end.saturating_duration_since(now));
                left.unwrap_or_default().min(grace).min(term_left(lease))
            }
            LeaseState::Lost(_) => Duration::ZERO,
            _ => {
                let left = lease.remaining() + grace;
                self.term_ends = Some(now + left);
                left
            }
        }
    }

    pub(crate) fn step(&mut self, seen: Observation) -> Step {
        let mut signals = Vec::new();
        let next = match seen.state {
            LeaseState::Lost(reason) => self.lost(reason, seen, &mut signals),
            _ => self.certain(seen, &mut signals),
        };
        Step { signals, next_check: next.min(self.policy.check_interval).max(Duration::from_millis(1)) }
    }

    /// Handles a lease that is not lost. Adds signals to `signals`, and returns the time until the
    /// next check.
    fn certain(&mut self, seen: Observation, signals: &mut Vec<Signal>) -> Duration {
        let Policy { on_suspend, on_lost, kill_after, margin, late, check_interval, .. } = self.policy;
        let (remaining, suspended) = (seen.remaining, seen.state == LeaseState::Suspended);
        if on_lost != OnLost::Ignore && remaining <= margin {
            self.kill(signals);
            return remaining;
        }
        let is_due = on_lost == OnLost::Term && remaining <= kill_after;
        if is_due && seen.delay > check_interval + margin {
            self.paused = true;
        } else if !is_due && !suspended {
            self.paused = false;
        }
        let unproven = on_suspend == OnSuspend::Stop && (suspended || remaining < late);
        if on_suspend == OnSuspend::Term && suspended || is_due && !self.paused {
            self.terminate(signals);
        }
        self.must_stop = (unproven || self.paused) && !self.was_signaled();
        if !self.must_stop {
            self.proceed(signals);
        } else if !self.stopped && !seen.idle {
            self.stopped = true;
            signals.push(Signal::SIGSTOP);
        }
        let until = |left: Duration| remaining.saturating_sub(left);
        let next = match on_lost {
            OnLost::Ignore => remaining,
            OnLost::Term if !self.terminated && !self.paused => until(kill_after),
            _ => until(margin),
        };
        match on_suspend {
            _ if self.must_stop => next.min(STOPPED_CHECK_INTERVAL),
            OnSuspend::Stop if !self.was_signaled() => next.min(until(late)),
            _ => next,
        }
    }

    /// Handles a lost lock, which another contender can hold already.
    fn lost(&mut self, reason: LossReason, seen: Observation, signals: &mut Vec<Signal>) -> Duration {
        let now = seen.now;
        let since = *self.lost.get_or_insert(now);
        let Policy { on_lost, kill_after, margin, check_interval, .. } = self.policy;
        match on_lost {
            OnLost::Ignore => {
                self.must_stop = false;
                self.proceed(signals);
                return check_interval;
            }
            // The lease is reported lost, but the grace is not over.
            OnLost::Term if reason == LossReason::TermEnded && seen.remaining > margin => {
                self.terminate(signals);
                return seen.remaining.saturating_sub(margin);
            }
            // If the lease is lost before the end of its term, for example because the lock was
            // broken, the command must exit within `kill_after` of the loss. If the lease is lost
            // at the end of its term, the command is killed immediately.
            OnLost::Term if reason != LossReason::TermEnded => {
                self.terminate(signals);
                let left = (since + kill_after).saturating_duration_since(now);
                if !left.is_zero() {
                    return left;
                }
            }
            _ => {}
        }
        self.kill(signals);
        check_interval
    }

    fn proceed(&mut self, signals: &mut Vec<Signal>) {
        if std::mem::take(&mut self.stopped) {
            signals.push(Signal::SIGCONT);
        }
    }

    fn terminate(&mut self, signals: &mut Vec<Signal>) {
        if !self.terminated {
            self.terminated = true;
            self.must_stop = false;
            signals.push(Signal::SIGTERM);
            // Continue the command, because a stopped command cannot handle SIGTERM.
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

    /// Returns a guard for a session timeout of 8 s, so the lock is certain for 4 s after a
    /// heartbeat. The next heartbeat counts as late when less than 7/3 s of these 4 s is left.
    fn guard(on_suspend: OnSuspend, on_lost: OnLost) -> Guard {
        let late = SECOND * 7 / 3;
        let (kill_after, grace) = (SECOND, Duration::ZERO);
        Guard::new(Policy {
            on_suspend,
            on_lost,
            kill_after,
            grace,
            margin: MARGIN,
            late,
            check_interval: CHECK_INTERVAL,
        })
    }

    fn observe(state: LeaseState, millis: u64) -> Observation {
        let (remaining, now) = (Duration::from_millis(millis), Instant::now());
        Observation { state, remaining, now, delay: Duration::ZERO, idle: false }
    }

    fn signals(guard: &mut Guard, state: LeaseState, millis: u64) -> Vec<Signal> {
        guard.step(observe(state, millis)).signals
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
        let mut again = |millis| guard.step(observe(LeaseState::Suspended, millis)).next_check;
        assert_eq!(again(9000), CHECK_INTERVAL);
        assert_eq!(again(1100), Duration::from_millis(100));
        assert_eq!(again(300), Duration::from_millis(100));
    }

    #[test]
    fn a_broken_lock_ends_it_at_once_and_kills_it_later() {
        let mut guard = guard(OnSuspend::Continue, OnLost::Term);
        let broken = LeaseState::Lost(LossReason::NodeDeleted);
        let now = Instant::now();
        let mut step = |now| guard.step(Observation { now, ..observe(broken, 0) }).signals;
        assert_eq!(step(now), [Signal::SIGTERM]);
        assert_eq!(step(now + SECOND / 2), []);
        assert_eq!(step(now + SECOND), [Signal::SIGKILL]);
    }

    #[test]
    fn after_the_end_of_the_term_there_is_no_time_left() {
        let mut guard = guard(OnSuspend::Continue, OnLost::Term);
        assert_eq!(signals(&mut guard, LeaseState::Lost(LossReason::TermEnded), 0), [Signal::SIGKILL]);
    }

    #[test]
    fn within_the_grace_it_is_told_and_at_its_end_it_is_killed() {
        let mut guard = guard(OnSuspend::Continue, OnLost::Term);
        let lost = LeaseState::Lost(LossReason::TermEnded);
        assert_eq!(signals(&mut guard, LeaseState::Suspended, 1001), []);
        let step = guard.step(observe(lost, 1000));
        assert_eq!((step.signals, step.next_check), (vec![Signal::SIGTERM], CHECK_INTERVAL));
        let step = guard.step(observe(lost, 500));
        assert_eq!((step.signals, step.next_check), (vec![], Duration::from_millis(300)));
        assert_eq!(signals(&mut guard, lost, 200), [Signal::SIGKILL]);
        let mut kills = self::guard(OnSuspend::Continue, OnLost::Kill);
        assert_eq!(signals(&mut kills, lost, 1000), [Signal::SIGKILL]);
    }

    #[test]
    fn kill_sends_no_sigterm_and_ignore_nothing() {
        let mut kills = guard(OnSuspend::Continue, OnLost::Kill);
        assert_eq!(signals(&mut kills, LeaseState::Suspended, 500), []);
        assert_eq!(signals(&mut kills, LeaseState::Suspended, 200), [Signal::SIGKILL]);
        let mut ignores = guard(OnSuspend::Continue, OnLost::Ignore);
        assert_eq!(signals(&mut ignores, LeaseState::Suspended, 100), []);
        assert_eq!(signals(&mut ignores, LeaseState::Lost(LossReason::TermEnded), 0), []);
        assert!(!ignores.was_signaled());
    }

    #[test]
    fn a_stopped_command_goes_on_when_a_server_answers_or_when_it_has_to_end() {
        let mut answered = guard(OnSuspend::Stop, OnLost::Term);
        assert_eq!(signals(&mut answered, LeaseState::Suspended, 3900), [Signal::SIGSTOP]);
        assert_eq!(signals(&mut answered, LeaseState::Suspended, 2500), []);
        assert_eq!(signals(&mut answered, LeaseState::Held, 3900), [Signal::SIGCONT]);
        assert_eq!(signals(&mut answered, LeaseState::Suspended, 3000), [Signal::SIGSTOP]);
        assert_eq!(signals(&mut answered, LeaseState::Suspended, 900), [Signal::SIGTERM, Signal::SIGCONT]);
        let mut ends = guard(OnSuspend::Term, OnLost::Term);
        assert_eq!(signals(&mut ends, LeaseState::Suspended, 3000), [Signal::SIGTERM]);
    }

    #[test]
    fn a_late_heartbeat_stops_it_although_the_connection_seems_well() {
        let mut guard = guard(OnSuspend::Stop, OnLost::Term);
        assert_eq!(signals(&mut guard, LeaseState::Held, 2340), []);
        assert!(guard.step(observe(LeaseState::Held, 2340)).next_check < Duration::from_millis(10));
        assert_eq!(signals(&mut guard, LeaseState::Held, 2330), [Signal::SIGSTOP]);
        assert!(guard.must_stop() && guard.is_stopped());
        assert_eq!(signals(&mut guard, LeaseState::Held, 3990), [Signal::SIGCONT]);
        assert!(!guard.must_stop() && !guard.is_stopped());
    }

    /// `zklock` was stopped for three seconds while the command ran.
    #[test]
    fn after_a_pause_it_stands_still_until_a_heartbeat_is_answered_or_the_term_is_over() {
        let paused = Observation { delay: 3 * SECOND, ..observe(LeaseState::Suspended, 600) };
        let mut proven = guard(OnSuspend::Continue, OnLost::Term);
        assert_eq!(proven.step(paused).signals, [Signal::SIGSTOP]);
        assert_eq!(signals(&mut proven, LeaseState::Suspended, 590), []);
        assert!(proven.step(observe(LeaseState::Suspended, 580)).next_check <= STOPPED_CHECK_INTERVAL);
        assert_eq!(signals(&mut proven, LeaseState::Held, 3990), [Signal::SIGCONT]);
        assert!(!proven.was_signaled());
        let mut unproven = guard(OnSuspend::Continue, OnLost::Term);
        assert_eq!(unproven.step(paused).signals, [Signal::SIGSTOP]);
        assert_eq!(signals(&mut unproven, LeaseState::Suspended, 200), [Signal::SIGKILL]);
        // A short delay does not count as a pause, because the servers had time to reply.
        let late = Observation { delay: CHECK_INTERVAL, ..paused };
        assert_eq!(guard(OnSuspend::Continue, OnLost::Term).step(late).signals, [Signal::SIGTERM]);
        // The rest of the term is long enough, so the command continues to run without a reply from
        // a server.
        let early = Observation { delay: SECOND, ..observe(LeaseState::Held, 1100) };
        assert_eq!(guard(OnSuspend::Continue, OnLost::Term).step(early).signals, []);
    }

    #[test]
    fn a_command_that_others_have_stopped_is_not_continued_for_them() {
        let mut guard = guard(OnSuspend::Stop, OnLost::Term);
        let idle = |state, millis| Observation { idle: true, ..observe(state, millis) };
        assert_eq!(guard.step(idle(LeaseState::Suspended, 3000)).signals, []);
        assert!(guard.must_stop() && !guard.is_stopped());
        assert_eq!(guard.step(idle(LeaseState::Held, 3900)).signals, []);
        assert!(!guard.must_stop());
    }
}
