//! Reads fields like the real server: invalid UTF-8 is replaced, and every byte except 0 is `true`.

use zklock_jute::{Error, Reader};

/// The bytes are not a valid record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BadRecord;

impl From<Error> for BadRecord {
    fn from(_: Error) -> Self {
        BadRecord
    }
}

/// The fields of requests.
pub(crate) trait Fields: Sized {
    fn flag(&mut self) -> Result<bool, BadRecord>;

    /// Reads bytes or null.
    fn data(&mut self) -> Result<Option<Vec<u8>>, BadRecord>;

    /// Reads a text or null.
    fn nullable(&mut self) -> Result<Option<String>, BadRecord>;

    /// Reads a text that must not be null.
    fn string(&mut self) -> Result<String, BadRecord> {
        self.nullable()?.ok_or(BadRecord)
    }

    /// Reads a list. A null list counts as empty. Memory is reserved for one element at a time,
    /// because the length field can be wrong.
    fn list<T>(
        &mut self,
        element: impl FnMut(&mut Self) -> Result<T, BadRecord>,
    ) -> Result<Vec<T>, BadRecord>;
}

impl Fields for Reader<'_> {
    fn flag(&mut self) -> Result<bool, BadRecord> {
        Ok(self.byte()? != 0)
    }

    fn data(&mut self) -> Result<Option<Vec<u8>>, BadRecord> {
        Ok(self.buffer()?.map(<[u8]>::to_vec))
    }

    fn nullable(&mut self) -> Result<Option<String>, BadRecord> {
        Ok(self.buffer()?.map(|bytes| String::from_utf8_lossy(bytes).into_owned()))
    }

    fn list<T>(
        &mut self,
        mut element: impl FnMut(&mut Self) -> Result<T, BadRecord>,
    ) -> Result<Vec<T>, BadRecord> {
        let mut elements = Vec::new();
        // Each element has at least four bytes: a number or a length.
        for _ in 0..self.count(4)? {
            elements.push(element(self)?);
        }
        Ok(elements)
    }
}
