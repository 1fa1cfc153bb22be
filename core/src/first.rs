//! Who is first in a queue, for those that observe it.

use crate::contender::Contender;
use crate::number::NumberWatch;

/// The first contender in a directory.
pub(crate) struct First {
    /// None if there is no contender.
    pub(crate) contender: Option<Contender>,
    /// Fires when another one may be first, if it was requested and there was room for it. Set before what is told here
    /// was read, so no change falls between the two.
    pub(crate) changed: Option<NumberWatch>,
}
