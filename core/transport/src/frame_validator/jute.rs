//! Reads ZooKeeper's encoding, jute: numbers are big-endian, and texts, buffers and lists begin
//! with their length.

use std::borrow::Cow;
use std::fmt;
use std::io;

/// A message that no honest server sends, and that therefore closes the connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Malformed(Cow<'static, str>);

impl Malformed {
    pub(super) fn new(what: impl Into<Cow<'static, str>>) -> Self {
        Self(what.into())
    }
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "it sent {}", self.0)
    }
}

impl std::error::Error for Malformed {}

impl From<Malformed> for io::Error {
    fn from(malformed: Malformed) -> Self {
        Self::new(io::ErrorKind::InvalidData, malformed)
    }
}

/// Reads a record and never reads past its end.
#[derive(Clone, Copy)]
pub(super) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn new(record: &'a [u8]) -> Self {
        Self(record)
    }

    pub(super) fn skip(&mut self, size: usize) -> Result<&'a [u8], Malformed> {
        let Some((head, tail)) = self.0.split_at_checked(size) else {
            return Err(Malformed::new(format!("{} bytes where {size} are due", self.0.len())));
        };
        self.0 = tail;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let mut array = [0; N];
        array.copy_from_slice(self.skip(N)?);
        Ok(array)
    }

    pub(super) fn int(&mut self) -> Result<i32, Malformed> {
        self.array().map(i32::from_be_bytes)
    }

    pub(super) fn long(&mut self) -> Result<i64, Malformed> {
        self.array().map(i64::from_be_bytes)
    }

    pub(super) fn flag(&mut self) -> Result<bool, Malformed> {
        match self.array()? {
            [0] => Ok(false),
            [1] => Ok(true),
            [other] => Err(Malformed::new(format!("{other} where true or false is due"))),
        }
    }

    /// Reads a length or a number of elements. −1 stands for none.
    fn length(&mut self) -> Result<Option<usize>, Malformed> {
        match self.int()? {
            -1 => Ok(None),
            length => match usize::try_from(length) {
                Ok(length) => Ok(Some(length)),
                Err(_) => Err(Malformed::new(format!("a length of {length}"))),
            },
        }
    }

    pub(super) fn buffer(&mut self) -> Result<Option<&'a [u8]>, Malformed> {
        match self.length()? {
            Some(length) => self.skip(length).map(Some),
            None => Ok(None),
        }
    }

    pub(super) fn text(&mut self) -> Result<&'a str, Malformed> {
        let text = self.buffer()?.unwrap_or_default();
        std::str::from_utf8(text).map_err(|_| Malformed::new("a text that is not UTF-8"))
    }

    /// Reads the number of elements of a list. Each element takes at least `least` bytes.
    pub(super) fn count(&mut self, least: usize) -> Result<usize, Malformed> {
        let count = self.length()?.unwrap_or(0);
        if self.0.len() / least < count {
            let left = self.0.len();
            return Err(Malformed::new(format!("a list of {count} elements where {left} bytes are left")));
        }
        Ok(count)
    }

    pub(super) fn is_at_the_end(self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn end(self) -> Result<(), Malformed> {
        if self.is_at_the_end() {
            return Ok(());
        }
        Err(Malformed::new(format!("{} bytes too many", self.0.len())))
    }
}
