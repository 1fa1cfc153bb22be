//! The bytes that arrived and were not read yet.

/// The length in front of a reply, and its header: `xid`, zxid, error.
pub(super) const HEAD: usize = 4 + 16;

/// What an empty buffer may keep of its memory.
const KEPT: usize = 64 * 1024;

/// Keeps frames until they are checked. It grows with what arrives, never with what is announced.
///
/// Once the head of a frame is known to be in order, the reader gets its bytes as they arrive, but the last one only when
/// all is checked; it does not look at a frame before it has all of it. So a slow server shows that it is alive.
#[derive(Debug, Default)]
pub(super) struct FrameBuffer {
    bytes: Vec<u8>,
    read: usize,
    checked: usize,
    /// Whether the head of the next frame is in order.
    open: bool,
    skip: Option<Skip>,
}

/// A frame whose body is dropped as it arrives. In its place stands a reply that fails; its bytes are given out as
/// the body goes by.
#[derive(Clone, Copy, Debug)]
struct Skip {
    size: usize,
    left: usize,
}

impl FrameBuffer {
    /// Takes in bytes, except those that are skipped.
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

    /// What is not checked yet. Nothing while a frame is being skipped.
    pub(super) fn unchecked(&self) -> &[u8] {
        if self.skip.is_some() { &[] } else { &self.bytes[self.checked..] }
    }

    /// The next frame may be read as it arrives, but for its last byte.
    pub(super) fn open(&mut self) {
        self.open = true;
    }

    /// The next frame, which has so many bytes, may be read.
    pub(super) fn pass(&mut self, size: usize) {
        self.checked += size;
        self.open = false;
    }

    /// Puts this reply in place of the next frame, which has so many bytes and is not open. Not all of them need to be
    /// there yet.
    pub(super) fn replace(&mut self, size: usize, reply: [u8; HEAD]) {
        let rest = self.bytes.split_off(self.checked);
        self.bytes.extend_from_slice(&reply);
        let there = rest.len().min(size);
        self.skip = Some(Skip { size, left: size - there });
        self.push(&rest[there..]);
    }

    /// Takes the next frame out, which has so many bytes, all of them there, and is not open.
    pub(super) fn remove(&mut self, size: usize) -> Vec<u8> {
        self.bytes.drain(self.checked..self.checked + size).collect()
    }

    /// Puts these frames in front of what is not checked yet.
    pub(super) fn insert(&mut self, frames: &[u8]) {
        self.bytes.splice(self.checked..self.checked, frames.iter().copied());
    }

    /// Drops what is not checked: nothing more will come.
    pub(super) fn end(&mut self) {
        self.skip = None;
        self.open = false;
        self.bytes.truncate(self.checked.max(self.read));
        self.checked = self.bytes.len();
    }

    /// Moves bytes out. Returns how many.
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
