//! How many contenders there are of which kind.

use crate::queue::machine::entry::{Entry, conflict};
use crate::queue::node_name::Kind;

/// Kinds that conflict with the same kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::queue::machine) enum Class {
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
pub(in crate::queue::machine) struct Census([usize; 3]);

impl Census {
    /// Counts a contender as it is now, and no longer as it was.
    pub(in crate::queue::machine) fn update(
        &mut self,
        before: Option<&Entry>,
        after: Option<&Entry>,
        is: impl Fn(&Entry) -> bool,
    ) {
        if let Some(join) = before.filter(|join| is(join)) {
            self.0[Class::from(join.kind) as usize] -= 1;
        }
        if let Some(join) = after.filter(|join| is(join)) {
            self.0[Class::from(join.kind) as usize] += 1;
        }
    }

    /// How many there are of this class.
    pub(in crate::queue::machine) fn of(&self, class: Class) -> usize {
        self.0[class as usize]
    }

    /// How many there are.
    pub(in crate::queue::machine) fn all(&self) -> usize {
        self.0.iter().sum()
    }

    /// Whether there is one that cannot hold together with this kind.
    pub(in crate::queue::machine) fn conflicts(&self, kind: Kind) -> bool {
        let others = [(Class::Read, Kind::Read), (Class::Alone, Kind::Exclusive)];
        others.into_iter().any(|(class, other)| conflict(kind, other) && self.of(class) > 0)
    }
}
