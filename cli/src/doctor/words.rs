//! The four-letter words: what a server says of itself to anyone, on its client port.

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

/// For each step of an answer.
const LIMIT: Duration = Duration::from_secs(2);

/// More than any server has to say.
const MOST: u64 = 64 << 10;

/// A server's answer; none if it gives none, or does not give this one to anyone.
pub(crate) fn ask(server: &str, word: &str) -> Option<String> {
    let address = server.to_socket_addrs().ok()?.next()?;
    let mut connection = TcpStream::connect_timeout(&address, LIMIT).ok()?;
    connection.set_read_timeout(Some(LIMIT)).ok()?;
    connection.write_all(word.as_bytes()).ok()?;
    let mut answer = Vec::new();
    connection.take(MOST).read_to_end(&mut answer).ok()?;
    let text = String::from_utf8_lossy(&answer).into_owned();
    (!text.is_empty() && !text.contains("not in the whitelist")).then_some(text)
}
