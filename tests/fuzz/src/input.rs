//! Converts the fuzzer's bytes into choices.

/// The unread bytes.
pub(crate) struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Returns the next byte, or `None` at the end.
    pub(crate) fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    /// Returns a number below `limit`, which must not be zero. Returns 0 at the end of the input.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        usize::from(self.byte().unwrap_or(0)) % limit
    }

    /// Returns a number of two bytes.
    pub(crate) fn short(&mut self) -> usize {
        self.below(256) << 8 | self.below(256)
    }

    /// Returns a slice whose length is the value of the next byte, or less at the end of the input.
    pub(crate) fn bytes(&mut self) -> &'a [u8] {
        let size = self.below(256).min(self.0.len());
        let (bytes, rest) = self.0.split_at(size);
        self.0 = rest;
        bytes
    }

    /// Returns all unread bytes.
    pub(crate) fn rest(self) -> &'a [u8] {
        self.0
    }
}
