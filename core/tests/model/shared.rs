//! A value that several states share until one of them changes it.

use std::ops::{Deref, DerefMut};
use std::rc::Rc;

/// A copy-on-write value. Most steps change one of several clients, and the explorer keeps millions
/// of states, so each state has its own copy only of the changed clients.
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
    /// Copies the value if another state shares it. Before calling this, check whether there is
    /// anything to change.
    fn deref_mut(&mut self) -> &mut T {
        Rc::make_mut(&mut self.0)
    }
}
