//! Sends ZooKeeper's four-letter words, such as `srvr`. A server answers them on its client port
//! with a description of itself.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Duration;

use zklock::ClientOptions;
use zklock::internal::{four_letter_word, resolve};

/// Maximum time for a reply.
const LIMIT: Duration = Duration::from_secs(2);

/// Reply of a server to a four-letter word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Text(String),
    /// The server's whitelist does not contain the word.
    NotAllowed,
    /// The server closed the connection without a reply.
    Closed,
    /// The server did not reply in time. It might not even have accepted the connection.
    None,
    /// The server's name was not resolved in time.
    Unresolved,
    /// No process listens at the address.
    Refused,
    /// The connection failed for this reason.
    Unreachable(String),
}

/// Resolves a server's name to its addresses. If that fails, returns the answer to report. If the
/// resolver hangs, this is `Unresolved`, because the server itself might be reachable.
pub(super) async fn addresses(server: &str) -> Result<Vec<SocketAddr>, Answer> {
    resolve(server, LIMIT).await.map_err(|error| match error.kind() {
        ErrorKind::TimedOut => Answer::Unresolved,
        _ => Answer::Unreachable(error.to_string()),
    })
}

/// Sends a four-letter word to a server. If the server does not reply, sends the word again with a
/// fifth byte, because a TLS port needs five bytes before it can reject a plain connection.
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
