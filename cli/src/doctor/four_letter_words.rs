//! The four-letter words: what a server says of itself to anyone, on its client port.

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

/// For each step of an answer.
const LIMIT: Duration = Duration::from_secs(2);

/// More than any server has to say.
const MOST: u64 = 64 << 10;

/// What became of a question.
pub(crate) enum Answer {
    Text(String),
    /// It says nothing, or does not tell this to anyone.
    Silence,
    /// No connection, and why.
    Unreachable(String),
}

/// Asks a server.
pub(crate) fn ask(server: &str, word: &str) -> Answer {
    let address = match server.to_socket_addrs().map(|mut all| all.next()) {
        Ok(Some(address)) => address,
        Ok(None) => return Answer::Unreachable("its name has no address".to_owned()),
        Err(error) => return Answer::Unreachable(error.to_string()),
    };
    let connection = match TcpStream::connect_timeout(&address, LIMIT) {
        Ok(connection) => connection,
        Err(error) => return Answer::Unreachable(error.to_string()),
    };
    match read(connection, word) {
        Some(text) if !text.is_empty() && !text.contains("not in the whitelist") => Answer::Text(text),
        _ => Answer::Silence,
    }
}

fn read(mut connection: TcpStream, word: &str) -> Option<String> {
    connection.set_read_timeout(Some(LIMIT)).ok()?;
    connection.write_all(word.as_bytes()).ok()?;
    let mut answer = Vec::new();
    connection.take(MOST).read_to_end(&mut answer).ok()?;
    Some(String::from_utf8_lossy(&answer).into_owned())
}
