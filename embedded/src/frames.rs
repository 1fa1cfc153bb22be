//! Splits a connection's bytes into messages.

use crate::four_letter_words::Word;
use crate::requests::{Connect, Request};

/// A message from a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inbound(pub(crate) ClientMessage);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ClientMessage {
    Connect(Connect),
    Request(Request),
    Word(Word),
}

/// The bytes do not follow the protocol, or a frame is too long. The connection must be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// Splits one connection's bytes into messages. The decoder keeps only the bytes that were received
/// and not consumed yet. It reserves no memory for the length that a frame announces, and refuses a
/// length over the limit as soon as it has read it.
#[derive(Debug)]
pub struct Decoder {
    received: Vec<u8>,
    /// Number of bytes of `received` that were consumed.
    taken: usize,
    limit: usize,
    connected: bool,
}

impl Decoder {
    /// Creates a decoder for a new connection. `limit` is
    /// [`Settings::max_frame`](crate::Settings::max_frame).
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Decoder { received: Vec::new(), taken: 0, limit, connected: false }
    }

    /// Appends received bytes.
    pub fn extend(&mut self, bytes: &[u8]) {
        self.received.drain(..self.taken);
        self.taken = 0;
        self.received.extend_from_slice(bytes);
    }

    /// Returns the next message once it is complete.
    ///
    /// # Errors
    /// [`Malformed`] if the bytes do not follow the protocol. The connection must then be closed.
    pub fn next_message(&mut self) -> Result<Option<Inbound>, Malformed> {
        let Some((length, rest)) = self.received[self.taken..].split_first_chunk::<4>() else {
            return Ok(None);
        };
        if !self.connected {
            if let Some(word) = Word::from_bytes(*length) {
                self.taken += 4;
                return Ok(Some(Inbound(ClientMessage::Word(word))));
            }
        }
        let length = usize::try_from(i32::from_be_bytes(*length)).map_err(|_| Malformed)?;
        if length > self.limit {
            return Err(Malformed);
        }
        let Some(frame) = rest.get(..length) else { return Ok(None) };
        let said = if self.connected {
            ClientMessage::Request(Request::read(frame).map_err(|_| Malformed)?)
        } else {
            ClientMessage::Connect(Connect::read(frame).map_err(|_| Malformed)?)
        };
        self.connected = true;
        self.taken += 4 + length;
        Ok(Some(Inbound(said)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::requests::Op;
    use proptest::collection::vec;
    use proptest::prelude::*;

    const LIMIT: usize = 1000;

    fn connect() -> Vec<u8> {
        let mut frame = 44_i32.to_be_bytes().to_vec();
        frame.extend([0; 24]);
        frame.extend(16_i32.to_be_bytes());
        frame.extend([0; 16]);
        frame
    }

    fn request(number: i32, record: &[u8]) -> Vec<u8> {
        let mut frame = u32::try_from(8 + record.len()).unwrap().to_be_bytes().to_vec();
        frame.extend(7_i32.to_be_bytes());
        frame.extend(number.to_be_bytes());
        frame.extend(record);
        frame
    }

    fn connected() -> Decoder {
        let mut decoder = Decoder::new(LIMIT);
        decoder.extend(&connect());
        assert!(matches!(decoder.next_message(), Ok(Some(Inbound(ClientMessage::Connect(_))))));
        decoder
    }

    #[test]
    fn messages_arrive_in_pieces_and_in_clumps() {
        let mut bytes = connect();
        bytes.extend(request(11, &[]));
        bytes.extend(request(-11, &[]));
        for size in [1, 3, bytes.len()] {
            let (mut decoder, mut count) = (Decoder::new(LIMIT), 0);
            for piece in bytes.chunks(size) {
                decoder.extend(piece);
                while decoder.next_message().unwrap().is_some() {
                    count += 1;
                }
            }
            assert_eq!(count, 3, "{size}");
        }
    }

    #[test]
    fn the_read_only_byte_is_optional() {
        let mut with = connect();
        with[3] = 45;
        with.push(1);
        for (bytes, knows) in [(connect(), false), (with, true)] {
            let mut decoder = Decoder::new(LIMIT);
            decoder.extend(&bytes);
            let Ok(Some(Inbound(ClientMessage::Connect(connect)))) = decoder.next_message() else {
                panic!("no connect")
            };
            assert_eq!(connect.knows_read_only, knows);
        }
    }

    #[test]
    fn a_length_over_the_limit_is_refused_before_the_frame_arrives() {
        for length in [1001_i32, i32::MAX, -1] {
            let mut decoder = connected();
            decoder.extend(&length.to_be_bytes());
            assert_eq!(decoder.next_message(), Err(Malformed));
        }
    }

    #[test]
    fn words_are_words_only_on_a_bare_connection() {
        let mut decoder = Decoder::new(LIMIT);
        decoder.extend(b"ruok");
        assert_eq!(decoder.next_message(), Ok(Some(Inbound(ClientMessage::Word(Word::Ruok)))));
        let mut decoder = connected();
        decoder.extend(b"ruok");
        assert_eq!(decoder.next_message(), Err(Malformed));
    }

    #[test]
    fn a_record_without_sense_spoils_its_request_alone() {
        let mut decoder = connected();
        decoder.extend(&request(4, &i32::MAX.to_be_bytes()));
        decoder.extend(&request(999, &[]));
        for expected in [Op::Malformed, Op::Unknown] {
            let Ok(Some(Inbound(ClientMessage::Request(request)))) = decoder.next_message() else {
                panic!("no request")
            };
            assert_eq!((request.xid, request.op), (7, expected));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]

        /// No input causes a panic, and the decoder never keeps more bytes than it received.
        #[test]
        fn any_bytes(number in -12_i32..110, record in vec(any::<u8>(), 0..200), junk in vec(any::<u8>(), 0..200)) {
            let mut decoder = connected();
            let frame = request(number, &record);
            for bytes in [&frame, &junk] {
                decoder.extend(bytes);
                while let Ok(Some(_)) = decoder.next_message() {}
                prop_assert!(decoder.received.capacity() <= 2 * (connect().len() + frame.len() + junk.len()));
            }
        }

        #[test]
        fn any_first_bytes(junk in vec(any::<u8>(), 0..200)) {
            let mut decoder = Decoder::new(LIMIT);
            decoder.extend(&junk);
            while let Ok(Some(_)) = decoder.next_message() {}
        }
    }
}
