//! Counts of contenders by kind, to find out whether a conflicting contender exists without
//! examining each one.

use crate::queue::machine::entry::{Entry, conflict};
use crate::queue::node_name::Kind;

/// A group of kinds that conflict with the same kinds.
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

/// Number of contenders in each class that satisfy a condition. It is updated whenever a contender
/// changes.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::queue::machine) struct ClassCounts([u32; 3]);

impl ClassCounts {
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

    pub(in crate::queue::machine) fn of(&self, class: Class) -> usize {
        self.0[class as usize] as usize
    }

    pub(in crate::queue::machine) fn all(&self) -> usize {
        self.0.iter().map(|count| *count as usize).sum()
    }

    pub(in crate::queue::machine) fn conflicts(&self, kind: Kind) -> bool {
        let others = [(Class::Read, Kind::Read), (Class::Alone, Kind::Exclusive)];
        others.into_iter().any(|(class, other)| conflict(kind, other) && self.of(class) > 0)
    }
}
