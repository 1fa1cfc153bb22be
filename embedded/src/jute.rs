//! Jute, the encoding of the protocol's records.

/// The bytes are not a valid record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BadRecord;

/// Reads values from the front of a record. Never allocates more memory than the record's length.
#[derive(Clone)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(record: &'a [u8]) -> Self {
        Reader { rest: record }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], BadRecord> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or(BadRecord)?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], BadRecord> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or(BadRecord)?;
        self.rest = rest;
        Ok(*taken)
    }

    pub(crate) fn boolean(&mut self) -> Result<bool, BadRecord> {
        Ok(self.array::<1>()? != [0])
    }

    pub(crate) fn int(&mut self) -> Result<i32, BadRecord> {
        Ok(i32::from_be_bytes(self.array()?))
    }

    pub(crate) fn long(&mut self) -> Result<i64, BadRecord> {
        Ok(i64::from_be_bytes(self.array()?))
    }

    /// Reads bytes or null.
    pub(crate) fn buffer(&mut self) -> Result<Option<Vec<u8>>, BadRecord> {
        match self.int()? {
            -1 => Ok(None),
            length => {
                let length = usize::try_from(length).map_err(|_| BadRecord)?;
                Ok(Some(self.take(length)?.to_vec()))
            }
        }
    }

    /// Reads text or null. Invalid UTF-8 is replaced, as in the real server.
    pub(crate) fn nullable(&mut self) -> Result<Option<String>, BadRecord> {
        Ok(self.buffer()?.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
    }

    pub(crate) fn string(&mut self) -> Result<String, BadRecord> {
        self.nullable()?.ok_or(BadRecord)
    }

    /// Reads a list. A null list becomes an empty one. The count on the wire reserves no memory:
    /// elements are read one by one.
    pub(crate) fn list<T>(
        &mut self,
        mut element: impl FnMut(&mut Self) -> Result<T, BadRecord>,
    ) -> Result<Vec<T>, BadRecord> {
        let count = self.int()?;
        if count < -1 {
            return Err(BadRecord);
        }
        let mut elements = Vec::new();
        for _ in 0..count {
            elements.push(element(self)?);
        }
        Ok(elements)
    }
}

/// Writes a record.
#[derive(Default)]
pub(crate) struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    pub(crate) fn boolean(&mut self, value: bool) {
        self.bytes.push(u8::from(value));
    }

    pub(crate) fn int(&mut self, value: i32) {
        self.bytes.extend(value.to_be_bytes());
    }

    pub(crate) fn long(&mut self, value: i64) {
        self.bytes.extend(value.to_be_bytes());
    }

    /// Writes a length or a count. It cannot overflow: everything in memory arrived in frames far
    /// shorter than 2 GiB.
    pub(crate) fn count(&mut self, count: usize) {
        self.int(i32::try_from(count).unwrap_or(i32::MAX));
    }

    pub(crate) fn buffer(&mut self, bytes: &[u8]) {
        self.count(bytes.len());
        self.bytes.extend(bytes);
    }

    pub(crate) fn nullable(&mut self, bytes: Option<&[u8]>) {
        match bytes {
            Some(bytes) => self.buffer(bytes),
            None => self.int(-1),
        }
    }

    /// Writes text. A character beyond 16 bits is written like in the real server, which does not
    /// use UTF-8 here: each of the two surrogates takes three bytes. Node paths cannot contain such
    /// characters, but user names can.
    pub(crate) fn string(&mut self, text: &str) {
        if text.bytes().all(|byte| byte < 0xf0) {
            return self.buffer(text.as_bytes());
        }
        let mut bytes = Vec::new();
        for unit in text.encode_utf16() {
            match char::from_u32(u32::from(unit)) {
                Some(c) => bytes.extend(c.encode_utf8(&mut [0; 3]).bytes()),
                None => bytes.extend([
                    0xe0 | (unit >> 12) as u8,
                    0x80 | (unit >> 6 & 0x3f) as u8,
                    0x80 | (unit & 0x3f) as u8,
                ]),
            }
        }
        self.buffer(&bytes);
    }

    pub(crate) fn list<T>(&mut self, elements: &[T], mut element: impl FnMut(&mut Self, &T)) {
        self.count(elements.len());
        for each in elements {
            element(self, each);
        }
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_back_as_they_were_written() {
        let mut writer = Writer::default();
        writer.int(-7);
        writer.long(i64::MIN);
        writer.boolean(true);
        writer.string("zoë");
        writer.nullable(None);
        writer.list(&["a", "b"], |writer, name| writer.string(name));
        let bytes = writer.into_bytes();
        let mut reader = Reader::new(&bytes);
        assert_eq!(reader.int(), Ok(-7));
        assert_eq!(reader.long(), Ok(i64::MIN));
        assert_eq!(reader.boolean(), Ok(true));
        assert_eq!(reader.string().as_deref(), Ok("zoë"));
        assert_eq!(reader.buffer(), Ok(None));
        assert_eq!(reader.list(Reader::string), Ok(vec!["a".to_owned(), "b".to_owned()]));
        assert!(reader.is_empty());
    }

    #[test]
    fn characters_beyond_16_bits_are_two_of_three_bytes() {
        let mut writer = Writer::default();
        writer.string("é\u{1f600}");
        assert_eq!(writer.into_bytes(), [0, 0, 0, 8, 0xc3, 0xa9, 0xed, 0xa0, 0xbd, 0xed, 0xb8, 0x80],);
    }

    #[test]
    fn lengths_that_the_record_does_not_hold_are_refused() {
        for length in [5_i32, i32::MAX, -2] {
            let mut bytes = length.to_be_bytes().to_vec();
            bytes.extend(b"four");
            assert_eq!(Reader::new(&bytes).buffer(), Err(BadRecord));
        }
        assert_eq!(Reader::new(&i32::MAX.to_be_bytes()).list(Reader::int), Err(BadRecord));
    }
}
