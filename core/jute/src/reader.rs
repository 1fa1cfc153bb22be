//! Reads the fields of a record in order.

use std::fmt;

/// The reason why bytes are not a valid record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The record ends within a field of this many bytes.
    Short {
        /// Number of bytes that are left.
        left: usize,
        /// Number of bytes that the field needs.
        needed: usize,
    },
    /// A boolean is neither 0 nor 1.
    Boolean(u8),
    /// A length below -1.
    Length(i32),
    /// A text is not UTF-8.
    Text,
    /// A list has more elements than the rest of the record can hold.
    List {
        /// Number of bytes that are left.
        left: usize,
        /// Number of elements.
        count: usize,
    },
    /// This many bytes follow the last field.
    Trailing(usize),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Short { left, needed } => write!(f, "{left} bytes where {needed} are expected"),
            Self::Boolean(byte) => write!(f, "{byte} where true or false is expected"),
            Self::Length(length) => write!(f, "a length of {length}"),
            Self::Text => f.write_str("a text that is not UTF-8"),
            Self::List { left, count } => {
                write!(f, "a list of {count} elements, but only {left} bytes remain")
            }
            Self::Trailing(count) => write!(f, "{count} bytes too many"),
        }
    }
}

impl std::error::Error for Error {}

/// Reads a record. Never reads past the end of the record, and allocates no memory for a length
/// that exceeds the rest of the record.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// Creates a reader of this record.
    #[must_use]
    pub const fn new(record: &'a [u8]) -> Self {
        Self(record)
    }

    /// Reads `count` bytes.
    ///
    /// # Errors
    /// [`Error::Short`] if fewer than `count` bytes are left.
    pub fn bytes(&mut self, count: usize) -> Result<&'a [u8], Error> {
        let (head, tail) =
            self.0.split_at_checked(count).ok_or(Error::Short { left: self.0.len(), needed: count })?;
        self.0 = tail;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let (head, tail) =
            self.0.split_first_chunk().ok_or(Error::Short { left: self.0.len(), needed: N })?;
        self.0 = tail;
        Ok(*head)
    }

    /// Reads one byte.
    ///
    /// # Errors
    /// [`Error::Short`] if no byte is left.
    pub fn byte(&mut self) -> Result<u8, Error> {
        self.array().map(|[byte]| byte)
    }

    /// Reads a 32-bit number.
    ///
    /// # Errors
    /// [`Error::Short`] if the record ends within it.
    pub fn int(&mut self) -> Result<i32, Error> {
        self.array().map(i32::from_be_bytes)
    }

    /// Reads a 64-bit number.
    ///
    /// # Errors
    /// [`Error::Short`] if the record ends within it.
    pub fn long(&mut self) -> Result<i64, Error> {
        self.array().map(i64::from_be_bytes)
    }

    /// Reads a boolean. Every value except 0 and 1 is an error.
    ///
    /// # Errors
    /// [`Error::Short`] or [`Error::Boolean`].
    pub fn boolean(&mut self) -> Result<bool, Error> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(Error::Boolean(other)),
        }
    }

    /// Reads a length or a number of elements. -1 stands for null.
    fn length(&mut self) -> Result<Option<usize>, Error> {
        match self.int()? {
            -1 => Ok(None),
            length => usize::try_from(length).map(Some).map_err(|_| Error::Length(length)),
        }
    }

    /// Reads bytes or null.
    ///
    /// # Errors
    /// [`Error::Short`] or [`Error::Length`].
    pub fn buffer(&mut self) -> Result<Option<&'a [u8]>, Error> {
        match self.length()? {
            Some(length) => self.bytes(length).map(Some),
            None => Ok(None),
        }
    }

    /// Reads a text. Null counts as an empty text.
    ///
    /// # Errors
    /// [`Error::Short`], [`Error::Length`] or [`Error::Text`].
    pub fn text(&mut self) -> Result<&'a str, Error> {
        std::str::from_utf8(self.buffer()?.unwrap_or_default()).map_err(|_| Error::Text)
    }

    /// Reads the number of elements of a list. `least` is the minimum size of an element in bytes,
    /// and must not be zero. Null counts as an empty list.
    ///
    /// # Errors
    /// [`Error::Short`], [`Error::Length`], or [`Error::List`] if the record is too short for the
    /// elements.
    pub fn count(&mut self, least: usize) -> Result<usize, Error> {
        let count = self.length()?.unwrap_or(0);
        if self.0.len() / least < count {
            return Err(Error::List { left: self.0.len(), count });
        }
        Ok(count)
    }

    /// Returns `true` if every byte was read.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Checks that every byte was read.
    ///
    /// # Errors
    /// [`Error::Trailing`] if bytes are left.
    pub const fn end(self) -> Result<(), Error> {
        if self.is_empty() { Ok(()) } else { Err(Error::Trailing(self.0.len())) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_that_the_record_does_not_hold_is_refused() {
        let record = |length: i32| [&length.to_be_bytes()[..], b"four"].concat();
        assert_eq!(Reader::new(&record(5)).buffer(), Err(Error::Short { left: 4, needed: 5 }));
        assert_eq!(Reader::new(&record(-2)).buffer(), Err(Error::Length(-2)));
        assert_eq!(Reader::new(&record(3)).count(2), Err(Error::List { left: 4, count: 3 }));
        assert_eq!(Reader::new(&record(2)).count(2), Ok(2));
        assert_eq!(Reader::new(&record(i32::MAX)).count(1), Err(Error::List { left: 4, count: 0x7fff_ffff }));
    }

    #[test]
    fn null_is_an_empty_text_and_an_empty_list() {
        let null = (-1_i32).to_be_bytes();
        assert_eq!(Reader::new(&null).buffer(), Ok(None));
        assert_eq!(Reader::new(&null).text(), Ok(""));
        assert_eq!(Reader::new(&null).count(4), Ok(0));
    }

    #[test]
    fn bad_values_and_trailing_bytes_are_refused() {
        assert_eq!(Reader::new(&[2]).boolean(), Err(Error::Boolean(2)));
        assert_eq!(Reader::new(&[]).boolean(), Err(Error::Short { left: 0, needed: 1 }));
        assert_eq!(Reader::new(&[0, 0, 0, 1, 0xff]).text(), Err(Error::Text));
        assert_eq!(Reader::new(&[0; 3]).int(), Err(Error::Short { left: 3, needed: 4 }));
        let mut reader = Reader::new(&[0; 6]);
        assert_eq!((reader.int(), reader.end()), (Ok(0), Err(Error::Trailing(2))));
    }
}
