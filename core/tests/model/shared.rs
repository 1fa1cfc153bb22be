//! A value that several states share until one of them changes it.

use std::ops::{Deref, DerefMut};
use std::rc::Rc;

/// A copy-on-write value. The explorer keeps millions of states, and most steps change only one
/// client, so the states share the clients that a step does not change.
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
    /// Copies the value if another state shares it, so use this only to change the value.
    fn deref_mut(&mut self) -> &mut T {
        Rc::make_mut(&mut self.0)
    }
}
