//! Encodes and decodes the protocol without the server's own code, so that the test detects an
//! error in that code.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Maximum time for a server's reply.
const PATIENCE: Duration = Duration::from_secs(20);

/// A record that is being written.
#[derive(Clone, Default)]
pub(crate) struct Record(pub(crate) Vec<u8>);

impl Record {
    pub(crate) fn int(mut self, value: i32) -> Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    pub(crate) fn long(mut self, value: i64) -> Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    pub(crate) fn byte(mut self, value: u8) -> Self {
        self.0.push(value);
        self
    }

    pub(crate) fn bytes(self, value: Option<&[u8]>) -> Self {
        let Some(value) = value else { return self.int(-1) };
        let mut record = self.int(i32::try_from(value.len()).expect("a short value"));
        record.0.extend(value);
        record
    }

    pub(crate) fn text(self, value: &str) -> Self {
        self.bytes(Some(value.as_bytes()))
    }

    pub(crate) fn texts(self, values: &[String]) -> Self {
        let count = self.int(i32::try_from(values.len()).expect("a few values"));
        values.iter().fold(count, |record, value| record.text(value))
    }
}

/// A record that is being read.
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

/// The record is too short or has an invalid value.
#[derive(Debug)]
pub(crate) struct BadReply(pub(crate) String);

impl<'a> Fields<'a> {
    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8], BadReply> {
        let (taken, rest) =
            self.0.split_at_checked(count).ok_or_else(|| BadReply(format!("ends {count} bytes early")))?;
        self.0 = rest;
        Ok(taken)
    }

    pub(crate) fn int(&mut self) -> Result<i32, BadReply> {
        let bytes = self.take(4)?;
        Ok(i32::from_be_bytes(bytes.try_into().expect("4 bytes")))
    }

    pub(crate) fn long(&mut self) -> Result<i64, BadReply> {
        let bytes = self.take(8)?;
        Ok(i64::from_be_bytes(bytes.try_into().expect("8 bytes")))
    }

    pub(crate) fn byte(&mut self) -> Result<u8, BadReply> {
        Ok(self.take(1)?[0])
    }

    pub(crate) fn bytes(&mut self) -> Result<Option<&'a [u8]>, BadReply> {
        match self.int()? {
            -1 => Ok(None),
            length => {
                let length =
                    usize::try_from(length).map_err(|_| BadReply(format!("a length of {length}")))?;
                self.take(length).map(Some)
            }
        }
    }

    /// Returns text in quotes for the report, or `null`.
    pub(crate) fn text(&mut self) -> Result<String, BadReply> {
        let bytes = self.bytes()?;
        Ok(bytes.map_or("null".to_owned(), |bytes| format!("{:?}", String::from_utf8_lossy(bytes))))
    }

    /// Reads a list, with each element as text.
    pub(crate) fn list(
        &mut self,
        mut element: impl FnMut(&mut Self) -> Result<String, BadReply>,
    ) -> Result<Vec<String>, BadReply> {
        let count = self.int()?;
        (0..count).map(|_| element(self)).collect()
    }

    pub(crate) fn end(&self) -> Result<(), BadReply> {
        match self.0.len() {
            0 => Ok(()),
            left => Err(BadReply(format!("{left} bytes too many"))),
        }
    }
}

/// A connection to a server.
pub(crate) struct Line {
    stream: TcpStream,
    received: Vec<u8>,
}

impl Line {
    pub(crate) fn open(address: &str) -> Self {
        let stream = TcpStream::connect(address).expect("a server that listens");
        stream.set_nodelay(true).expect("a socket");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        Line { stream, received: Vec::new() }
    }

    /// Sends a frame. An error is ignored: if the server has closed the connection, the next read
    /// reports this.
    pub(crate) fn send(&mut self, record: &Record) {
        let mut frame = Record::default().bytes(Some(&record.0));
        self.stream.write_all(&frame.0).unwrap_or_default();
        frame.0.clear();
    }

    pub(crate) fn frame(&mut self) -> Option<Vec<u8>> {
        loop {
            if let Some((length, rest)) = self.received.split_first_chunk::<4>() {
                let length = usize::try_from(u32::from_be_bytes(*length)).expect("a length");
                if let Some(frame) = rest.get(..length) {
                    let frame = frame.to_vec();
                    self.received.drain(..4 + length);
                    return Some(frame);
                }
            }
            let mut chunk = [0; 16 * 1024];
            match self.stream.read(&mut chunk) {
                Ok(0) => return None,
                Ok(count) => self.received.extend_from_slice(&chunk[..count]),
                Err(error) if closed(&error) => return None,
                Err(error) => panic!("no answer: {error}"),
            }
        }
    }
}

fn closed(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::ConnectionAborted)
}
