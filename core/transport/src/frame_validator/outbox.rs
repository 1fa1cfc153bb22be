//! [`Outbox`]: separates the bytes that the client writes into requests.

use std::borrow::Cow;

/// Stores the written part of a frame until the rest follows.
#[derive(Debug, Default)]
pub(super) struct Outbox(Vec<u8>);

impl Outbox {
    /// Takes the next complete frame off `bytes` and returns it without its length. Stores an
    /// incomplete frame.
    pub(super) fn next<'a>(&mut self, bytes: &mut &'a [u8]) -> Option<Cow<'a, [u8]>> {
        let whole = if self.0.is_empty() { size(bytes).filter(|size| bytes.len() >= *size) } else { None };
        if let Some(size) = whole {
            let (frame, rest) = bytes.split_at(size);
            *bytes = rest;
            return Some(Cow::Borrowed(&frame[4..]));
        }
        loop {
            let missing = size(&self.0).unwrap_or(4) - self.0.len();
            if missing == 0 && self.0.len() >= 4 {
                let mut frame = std::mem::take(&mut self.0);
                frame.drain(..4);
                return Some(Cow::Owned(frame));
            }
            if bytes.is_empty() {
                return None;
            }
            let (next, rest) = bytes.split_at(missing.min(bytes.len()));
            self.0.extend_from_slice(next);
            *bytes = rest;
        }
    }
}

/// Returns the size of a frame, including its length field, if that field is complete.
fn size(bytes: &[u8]) -> Option<usize> {
    let length = u32::from_be_bytes(*bytes.first_chunk()?);
    Some(4 + length as usize)
}
