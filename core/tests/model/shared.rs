//! A value that several states share until one of them changes it.

use std::ops::{Deref, DerefMut};
use std::rc::Rc;

/// Most steps change one client of several, and the explorer keeps millions of states: each has its own copy only of the
/// clients that changed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Shared<T>(Rc<T>);

impl<T> Shared<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Rc::new(value))
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Clone> DerefMut for Shared<T> {
    /// Copies the value if another state has it, too: ask whether there is anything to change before.
    fn deref_mut(&mut self) -> &mut T {
        Rc::make_mut(&mut self.0)
    }
}
