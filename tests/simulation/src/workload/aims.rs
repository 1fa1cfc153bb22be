//! Steers attempts toward the features that they aim at.

use std::time::Duration;

use super::want::{Member, WaitStyle, Want};
use super::{Attempt, Contender};
use crate::features::{self, Feature, Features};
use crate::oracle::{Beginning, Granted};

/// Two attempts of a run have different aims if the run has at most `CONTENDERS` contenders with at
/// most `ATTEMPTS` attempts each.
const ATTEMPTS: u64 = 16;
const CONTENDERS: u64 = 16;

impl Contender {
    /// Returns the aims of the next attempt: the features that it tries to combine. They differ
    /// between the attempts of a run.
    pub(super) fn aims(&self) -> Features {
        if !self.together {
            return Features::new();
        }
        let turn = (self.seed * CONTENDERS + self.number as u64) * ATTEMPTS + self.attempts;
        features::aims(turn)
    }

    /// Adapts the plan of an attempt to its aims.
    pub(super) fn aimed(
        &mut self,
        aims: &Features,
        want: Want,
        style: WaitStyle,
        limit: Option<Duration>,
    ) -> (Want, WaitStyle, Option<Duration>) {
        if aims.is_empty() {
            return (want, style, limit);
        }
        let has = |feature| aims.contains(&feature);
        let other = has(Feature::OtherClient);
        let want = match aims.iter().find(|feature| feature.is_kind()) {
            Some(Feature::Mutex) => Want::Mutex(0),
            Some(Feature::Read) => Want::Read,
            Some(Feature::Write) => Want::Write,
            Some(Feature::Permits) => Want::Permits(0, 1),
            Some(Feature::Leads) => Want::Lead,
            _ if has(Feature::KazooNames) => {
                Want::Several(vec![(Member::Mutex(1), false), (Member::Write, other)])
            }
            _ => Want::Several(vec![(Member::Mutex(0), false), (Member::Permit, other)]),
        };
        let longest = 2 * self.setting.timeout;
        let limit =
            limit.or(has(Feature::IsLimited).then_some(Duration::from_millis(self.setting.timeout / 2)));
        // A multi-lock acquires a member again if the member's hold limit expires before all
        // members are acquired. With a short limit, it would do so very often and overload the
        // servers.
        let least = Duration::from_millis(self.setting.timeout / 2);
        let several = matches!(want, Want::Several(_));
        let limit =
            limit.filter(|_| want != Want::Lead).map(|limit| if several { limit.max(least) } else { limit });
        // The hold limits of the first members can expire again and again while the attempt waits
        // for the last ones. A timeout ends such an attempt.
        let in_vain = limit.is_some() && several;
        let style = if has(Feature::Tries) {
            WaitStyle::Try
        } else if has(Feature::GivesUp) {
            WaitStyle::GiveUp(longest)
        } else if has(Feature::TimesOut) || in_vain {
            WaitStyle::Within(longest)
        } else if has(Feature::Waits) || want == Want::Lead {
            WaitStyle::Wait
        } else {
            WaitStyle::Within(longest)
        };
        (want, style, limit)
    }

    /// Draws a limit of waiters, if the attempt aims at one.
    pub(super) fn limit_of_waiters(&mut self, aims: &Features, want: &Want) -> Option<u32> {
        let limits = aims.contains(&Feature::LimitsWaiters) && *want != Want::Lead;
        limits.then(|| self.chance.pick(&[0, 1, 2, 4]))
    }

    /// Returns `true` if the attempt acquires the lock by a call that runs code once per time slot.
    /// Such a call never reuses a kept node.
    pub(super) fn runs_once(&mut self, attempt: &Attempt) -> bool {
        attempt.aims(Feature::RunsOnce) && !attempt.aims(Feature::Keeps) && self.chance.percent(75)
    }

    /// Records the features that follow from the request.
    pub(super) fn meets_what_it_asks_for(&self, attempt: &Attempt) {
        attempt.meets(match attempt.want {
            Want::Mutex(_) => Feature::Mutex,
            Want::Read => Feature::Read,
            Want::Write | Want::Downgrade => Feature::Write,
            Want::Permits(..) => Feature::Permits,
            Want::Several(_) => Feature::Several,
            Want::Lead => Feature::Leads,
        });
        attempt.meets(match attempt.style {
            WaitStyle::Wait => Feature::Waits,
            WaitStyle::Within(_) => Feature::TimesOut,
            WaitStyle::Try => Feature::Tries,
            WaitStyle::GiveUp(_) => Feature::GivesUp,
        });
        let members = if let Want::Several(members) = &attempt.want { members.as_slice() } else { &[] };
        let semaphore = matches!(attempt.want, Want::Permits(..) | Want::Lead);
        for (met, feature) in [
            (attempt.limit.is_some(), Feature::IsLimited),
            (!attempt.grace.is_zero(), Feature::HasGrace),
            (self.setting.private == Some(self.of), Feature::Private),
            (attempt.aims(Feature::KazooNames) && !semaphore, Feature::KazooNames),
            (members.iter().any(|(_, other)| *other), Feature::OtherClient),
        ] {
            if met {
                attempt.meets(feature);
            }
        }
    }

    /// Asks the holder to give up the lock, or breaks the lock, if the attempt has this aim.
    pub(super) async fn is_disturbed(&mut self, granted: &[Granted], attempt: &Attempt) {
        let node = granted[0].node.clone();
        if attempt.aims(Feature::IsAsked) {
            self.ask_for(&node).await;
        }
        if attempt.aims(Feature::IsBroken) {
            self.break_through(self.other, &node).await;
        }
        let oracle = self.oracle.borrow();
        if oracle.requests.asked_since(&node).is_some() {
            attempt.meets(Feature::IsAsked);
        }
        if oracle.requests.gone_since(&node).is_some() {
            attempt.meets(Feature::IsBroken);
        }
    }

    pub(super) fn notes_shared_scope(&self, attempt: &Attempt) {
        let mut oracle = self.oracle.borrow_mut();
        if oracle.sharing > 1 {
            attempt.meets(Feature::SharesObject);
        }
        oracle.sharing -= 1;
    }
}

impl Attempt {
    pub(super) fn begins_on_a_node(&self, beginning: Beginning) {
        match beginning {
            Beginning::NewNode => {}
            Beginning::HandedOn => self.meets(Feature::HandsOn),
            Beginning::TakenAgain => self.meets(Feature::Keeps),
        }
    }
}
