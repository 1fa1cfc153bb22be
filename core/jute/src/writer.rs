//! Writes the fields of a record in order.

/// Writes a record. Each method appends one field.
#[derive(Clone, Debug, Default)]
pub struct Writer(Vec<u8>);

impl Writer {
    /// Writes bytes without a length.
    pub fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend(bytes);
        self
    }

    /// Writes a boolean.
    pub fn boolean(&mut self, value: bool) -> &mut Self {
        self.0.push(u8::from(value));
        self
    }

    /// Writes a 32-bit number.
    pub fn int(&mut self, value: i32) -> &mut Self {
        self.bytes(&value.to_be_bytes())
    }

    /// Writes a 64-bit number.
    pub fn long(&mut self, value: i64) -> &mut Self {
        self.bytes(&value.to_be_bytes())
    }

    /// Writes a length or a number of elements. Frames are far shorter than 2 GiB, so the number
    /// always fits.
    pub fn count(&mut self, count: usize) -> &mut Self {
        self.int(i32::try_from(count).unwrap_or(i32::MAX))
    }

    /// Writes bytes with their length.
    pub fn buffer(&mut self, bytes: &[u8]) -> &mut Self {
        self.count(bytes.len()).bytes(bytes)
    }

    /// Writes bytes with their length, or null.
    pub fn nullable(&mut self, bytes: Option<&[u8]>) -> &mut Self {
        match bytes {
            Some(bytes) => self.buffer(bytes),
            None => self.int(-1),
        }
    }

    /// Writes a text in the encoding of Apache ZooKeeper. This is UTF-8, except that a character
    /// above U+FFFF is written as two surrogates of three bytes each. Paths of nodes cannot contain
    /// such characters, but names of users can.
    pub fn text(&mut self, text: &str) -> &mut Self {
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
        self.buffer(&bytes)
    }

    /// Writes the number of elements and then each element.
    pub fn list<T>(&mut self, elements: &[T], mut write: impl FnMut(&mut Self, &T)) -> &mut Self {
        self.count(elements.len());
        for element in elements {
            write(self, element);
        }
        self
    }

    /// Returns the record.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    /// Returns the record behind its length, which is how it is sent.
    #[must_use]
    pub fn into_frame(self) -> Vec<u8> {
        let mut frame = Self::default();
        frame.buffer(&self.0);
        frame.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Reader;

    #[test]
    fn written_values_are_read_back() {
        let mut writer = Writer::default();
        writer.int(-7).long(i64::MIN).boolean(true).text("zoë").nullable(None);
        writer.list(&["a", "b"], |writer, name| {
            writer.text(name);
        });
        let frame = writer.into_frame();
        let mut reader = Reader::new(&frame);
        assert_eq!(reader.int(), Ok(i32::try_from(frame.len()).unwrap() - 4));
        assert_eq!(reader.int(), Ok(-7));
        assert_eq!(reader.long(), Ok(i64::MIN));
        assert_eq!(reader.boolean(), Ok(true));
        assert_eq!(reader.text(), Ok("zoë"));
        assert_eq!(reader.buffer(), Ok(None));
        assert_eq!((reader.count(4), reader.text(), reader.text()), (Ok(2), Ok("a"), Ok("b")));
        assert_eq!(reader.end(), Ok(()));
    }

    #[test]
    fn a_character_beyond_16_bits_is_written_as_two_surrogates() {
        let mut writer = Writer::default();
        writer.text("é\u{1f600}");
        assert_eq!(writer.into_bytes(), [0, 0, 0, 8, 0xc3, 0xa9, 0xed, 0xa0, 0xbd, 0xed, 0xb8, 0x80]);
    }
}
