//! [`FrameBuffer`]: the bytes that have arrived but were not read yet.

/// Size of a reply's length field and its header: `xid`, zxid, error.
pub(super) const HEAD: usize = 4 + 16;

/// Memory that an empty buffer can keep, in bytes.
const KEPT: usize = 64 * 1024;

/// Stores frames until they are validated. It grows with the bytes that arrive, never with the
/// length that a frame announces.
///
/// Once the head of a frame is valid, the reader gets the frame's bytes as they arrive. So the
/// reader does not mistake a slow server for a dead one. The last byte is held back until the whole
/// frame is valid, because the reader does not parse an incomplete frame.
#[derive(Debug, Default)]
pub(super) struct FrameBuffer {
    bytes: Vec<u8>,
    read: usize,
    checked: usize,
    /// `true` if the head of the next frame is valid.
    open: bool,
    skip: Option<Skip>,
}

/// A frame whose bytes are dropped when they arrive. Meanwhile, the reader gets the reply that
/// replaces the frame, piece by piece.
#[derive(Clone, Copy, Debug)]
struct Skip {
    size: usize,
    left: usize,
}

impl FrameBuffer {
    /// Appends bytes, except those of a skipped frame.
    pub(super) fn push(&mut self, mut bytes: &[u8]) {
        if let Some(skip) = &mut self.skip {
            let skipped = skip.left.min(bytes.len());
            skip.left -= skipped;
            bytes = &bytes[skipped..];
            if skip.left == 0 {
                self.skip = None;
                self.checked += HEAD;
            }
        }
        if !bytes.is_empty() {
            let gone = self.read.min(self.checked);
            self.bytes.drain(..gone);
            self.read -= gone;
            self.checked -= gone;
            self.bytes.extend_from_slice(bytes);
        }
    }

    /// Returns the bytes that are not validated yet. Empty while a frame is skipped.
    pub(super) fn unchecked(&self) -> &[u8] {
        if self.skip.is_some() { &[] } else { &self.bytes[self.checked..] }
    }

    /// Lets the reader get the bytes of the next frame as they arrive, except for the last byte.
    pub(super) fn open(&mut self) {
        self.open = true;
    }

    /// Allows the next frame, which has `size` bytes, to be read.
    pub(super) fn pass(&mut self, size: usize) {
        self.checked += size;
        self.open = false;
    }

    /// Replaces the next frame, of `size` bytes, with this reply. The frame can be incomplete.
    /// [`open`](Self::open) must not have been called for it.
    pub(super) fn replace(&mut self, size: usize, reply: [u8; HEAD]) {
        let rest = self.bytes.split_off(self.checked);
        self.bytes.extend_from_slice(&reply);
        let there = rest.len().min(size);
        self.skip = Some(Skip { size, left: size - there });
        self.push(&rest[there..]);
    }

    /// Removes the next frame. The frame has `size` bytes, is complete, and must not have been
    /// opened ([`open`](Self::open)).
    pub(super) fn remove(&mut self, size: usize) -> Vec<u8> {
        self.bytes.drain(self.checked..self.checked + size).collect()
    }

    /// Inserts these frames in front of the bytes that are not validated yet.
    pub(super) fn insert(&mut self, frames: &[u8]) {
        self.bytes.splice(self.checked..self.checked, frames.iter().copied());
    }

    /// Drops the bytes that are not validated, because nothing more will be read from the
    /// connection.
    pub(super) fn end(&mut self) {
        self.skip = None;
        self.open = false;
        self.bytes.truncate(self.checked.max(self.read));
        self.checked = self.bytes.len();
    }

    /// Moves bytes out and returns their number.
    pub(super) fn take(&mut self, out: &mut [u8]) -> usize {
        let end = match self.skip {
            Some(Skip { size, left }) => self.checked + (size - left) / size.div_ceil(HEAD - 1),
            None if self.open => self.bytes.len() - 1,
            None => self.checked,
        };
        let ready = &self.bytes[self.read..end];
        let size = ready.len().min(out.len());
        out[..size].copy_from_slice(&ready[..size]);
        self.read += size;
        if self.read == self.bytes.len() && self.skip.is_none() {
            self.bytes.clear();
            self.bytes.shrink_to(KEPT);
            (self.read, self.checked) = (0, 0);
        }
        size
    }

    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.bytes.capacity()
    }
}
