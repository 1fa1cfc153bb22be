//! How many may stand before a waiter that is near.

/// A waiter with at most this many before it may soon hold: the term must run when its turn comes.
pub const NEAR: usize = 2;

/// A waiter with more than this many before it is far.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct FarBeyond(u8);

impl FarBeyond {
    pub(super) fn new(limit: u8) -> Self {
        Self(limit)
    }

    pub(super) fn get(self) -> usize {
        self.0.into()
    }
}

impl Default for FarBeyond {
    fn default() -> Self {
        Self(u8::try_from(NEAR).unwrap_or(u8::MAX))
    }
}
