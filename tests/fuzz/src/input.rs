//! Reads choices off the fuzzer's bytes.

/// The rest of the bytes.
pub(crate) struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The next byte; `None` at the end.
    pub(crate) fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    /// A number below `limit`, which is not zero; 0 at the end.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        usize::from(self.byte().unwrap_or(0)) % limit
    }

    /// A number of two bytes.
    pub(crate) fn short(&mut self) -> usize {
        self.below(256) << 8 | self.below(256)
    }

    /// As many bytes as the next one says, or as there are.
    pub(crate) fn bytes(&mut self) -> &'a [u8] {
        let size = self.below(256).min(self.0.len());
        let (bytes, rest) = self.0.split_at(size);
        self.0 = rest;
        bytes
    }

    /// All that is left.
    pub(crate) fn rest(self) -> &'a [u8] {
        self.0
    }
}
