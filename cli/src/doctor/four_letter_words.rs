//! Sends four-letter words, which make a server describe itself to anyone on its client port.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Duration;

use zklock::ClientOptions;
use zklock::internal::{four_letter_word, resolve};

/// For an answer.
const LIMIT: Duration = Duration::from_secs(2);

/// The answer of a server to a four-letter word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Text(String),
    /// The server's whitelist does not have the word.
    NotAllowed,
    /// The server closed the connection without an answer.
    Closed,
    /// The server accepted a connection, or may have, and said nothing in time.
    None,
    /// The server's name was not resolved in time.
    Unresolved,
    /// Nothing listens there.
    Refused,
    /// No connection, and why.
    Unreachable(String),
}

/// The addresses of a server, or the answer that it gets without any. A resolver that hangs says nothing of the server.
pub(super) async fn addresses(server: &str) -> Result<Vec<SocketAddr>, Answer> {
    resolve(server, LIMIT).await.map_err(|error| match error.kind() {
        ErrorKind::TimedOut => Answer::Unresolved,
        _ => Answer::Unreachable(error.to_string()),
    })
}

/// Asks a server. A port for TLS waits for a fifth byte before it finds that this is no TLS, so a server that does not
/// answer is asked once more.
pub(super) async fn ask(
    options: &ClientOptions,
    server: &str,
    addresses: &[SocketAddr],
    word: &str,
) -> Answer {
    match ask_once(options, server, addresses, word).await {
        Answer::None => match ask_once(options, server, addresses, &format!("{word}\n")).await {
            Answer::Closed => Answer::Closed,
            _ => Answer::None,
        },
        answer => answer,
    }
}

async fn ask_once(options: &ClientOptions, server: &str, addresses: &[SocketAddr], word: &str) -> Answer {
    match four_letter_word(options, server, addresses, word, LIMIT).await {
        Ok(text) if text.contains("not in the whitelist") => Answer::NotAllowed,
        Ok(text) if text.is_empty() => Answer::Closed,
        Ok(text) => Answer::Text(text),
        Err(error) => match error.kind() {
            ErrorKind::TimedOut => Answer::None,
            ErrorKind::ConnectionRefused => Answer::Refused,
            ErrorKind::ConnectionReset | ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe => Answer::Closed,
            _ => Answer::Unreachable(error.to_string()),
        },
    }
}
