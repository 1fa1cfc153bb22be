//! How many contenders there are of which kind.

use super::super::name::Kind;
use super::join::{Join, conflict};

/// Kinds that conflict with the same kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    Read,
    Alone,
    Permit,
}

impl From<Kind> for Class {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Read => Self::Read,
            Kind::Exclusive | Kind::Write | Kind::Lead => Self::Alone,
            Kind::Permit(_) => Self::Permit,
        }
    }
}

/// How many contenders of each class something is true of. Follows each of their changes, like an index: every
/// conclusion asks whether there is one, and none asks which.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Census([usize; 3]);

impl Census {
    /// Counts a contender as it is now, and no longer as it was.
    pub(super) fn update(&mut self, before: Option<&Join>, after: Option<&Join>, is: impl Fn(&Join) -> bool) {
        if let Some(join) = before.filter(|join| is(join)) {
            self.0[Class::from(join.kind) as usize] -= 1;
        }
        if let Some(join) = after.filter(|join| is(join)) {
            self.0[Class::from(join.kind) as usize] += 1;
        }
    }

    /// How many there are of this class.
    pub(super) fn of(&self, class: Class) -> usize {
        self.0[class as usize]
    }

    /// How many there are.
    pub(super) fn all(&self) -> usize {
        self.0.iter().sum()
    }

    /// Whether there is one that cannot hold together with this kind.
    pub(super) fn conflicts(&self, kind: Kind) -> bool {
        let others = [(Class::Read, Kind::Read), (Class::Alone, Kind::Exclusive)];
        others.into_iter().any(|(class, other)| conflict(kind, other) && self.of(class) > 0)
    }
}
