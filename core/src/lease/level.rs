//! A lease's own level of a hold.

use std::sync::{Arc, OnceLock};

use crate::hold::Held;
use crate::lease_state::LossReason;
use crate::release::Level;

/// The level of one lease: in the lease itself, until it is shared. Hardly anybody else looks at an inner level, which
/// lasts for no longer than a function call perhaps, so it allocates nothing.
///
/// It is shared, and it ends, only while the holds are borrowed: so nothing happens to what was in the lease after it
/// was copied. Whoever only looks needs to borrow nothing: what they find was so when they looked for a shared level.
#[derive(Debug, Default)]
pub(super) struct OwnLevel {
    own: Level,
    shared: OnceLock<Arc<Level>>,
}

impl OwnLevel {
    /// One that was released.
    pub(super) fn over() -> Self {
        let level = Self::default();
        level.own.end();
        level
    }

    fn level(&self) -> &Level {
        self.shared.get().map_or(&self.own, |shared| shared)
    }

    /// For those that wait for its end, and for the driver when the lock is released.
    pub(super) fn share(&self, _: &Held) -> &Arc<Level> {
        self.shared.get_or_init(|| Arc::new(self.own.copy()))
    }

    #[cfg(test)]
    pub(super) fn is_shared(&self) -> bool {
        self.shared.get().is_some()
    }

    /// As [`Level::is_open`].
    pub(super) fn is_open(&self) -> bool {
        self.level().is_open()
    }

    /// As [`Level::end`].
    pub(super) fn end(&self, _: &Held) -> Option<bool> {
        self.level().end()
    }

    /// As [`Level::is_over`].
    pub(super) fn is_over(&self) -> bool {
        self.level().is_over()
    }

    /// As [`Level::end_lost`].
    pub(super) fn end_lost(&self, _: &Held) {
        self.level().end_lost();
    }

    /// As [`Level::late_loss`].
    pub(super) fn late_loss(&self) -> Option<LossReason> {
        self.level().late_loss()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_that_is_shared_goes_on_where_it_was() {
        let held = Held::default();
        let [open, ended, lost] = [(); 3].map(|()| OwnLevel::default());
        assert_eq!([&ended, &lost].map(|level| level.end(&held)), [Some(false); 2]);
        lost.end_lost(&held);
        let shared = [&open, &ended, &lost].map(|level| Arc::clone(level.share(&held)));
        let seen = shared.each_ref().map(|level| (level.is_open(), level.is_over()));
        assert_eq!(seen, [(true, false), (false, true), (false, false)]);
    }

    #[test]
    fn what_happens_to_a_level_after_it_was_shared_is_seen_on_both_sides() {
        let held = Held::default();
        let level = OwnLevel::default();
        let shared = Arc::clone(level.share(&held));
        shared.watch();
        assert_eq!((level.end(&held), level.end(&held)), (Some(true), None));
        assert!(shared.is_over() && level.is_over() && !level.is_open());
    }
}
