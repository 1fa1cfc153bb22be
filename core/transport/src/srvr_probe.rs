//! Sends ZooKeeper's four-letter words, above all `srvr`, which shows why a server closes
//! connections without a reply.
//!
//! A server that has lost its quorum closes connections without a reply, even if it still serves
//! reads. But it replies to `srvr`. No configuration can forbid this word, because ZooKeeper's own
//! scripts depend on it.

use std::future::poll_fn;
use std::io::Result;
use std::pin::Pin;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::connect_log::ConnectOutcome;
use crate::socket::Socket;

/// Maximum number of bytes to read from a reply. The server's own state appears early in the reply.
const MOST: usize = 16 * 1024;

/// Returns the reason why a server serves no requests, or `None` if its reply gives none.
pub(crate) async fn ask(socket: Socket) -> Result<Option<ConnectOutcome>> {
    Ok(parse_srvr(&answer(socket, "srvr").await?))
}

/// Returns a server's reply to a four-letter word. A long reply is truncated, but its beginning is
/// the useful part.
pub(crate) async fn answer(mut socket: Socket, word: &str) -> Result<String> {
    // Four bytes fit into any send buffer.
    poll_fn(|cx| Pin::new(&mut socket).poll_write(cx, word.as_bytes())).await?;
    poll_fn(|cx| Pin::new(&mut socket).poll_flush(cx)).await?;
    let mut bytes = vec![0; MOST];
    let mut answer = ReadBuf::new(&mut bytes);
    loop {
        let before = answer.filled().len();
        let read = poll_fn(|cx| Pin::new(&mut socket).poll_read(cx, &mut answer)).await;
        if read.is_err() || answer.filled().len() == before || answer.remaining() == 0 {
            return Ok(String::from_utf8_lossy(answer.filled()).into_owned());
        }
    }
}

fn parse_srvr(answer: &str) -> Option<ConnectOutcome> {
    if answer.lines().any(|line| line.trim() == "Mode: read-only") {
        Some(ConnectOutcome::ReadOnly)
    } else if answer.contains("not currently serving requests") {
        Some(ConnectOutcome::NotServing)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_servers_say_is_understood() {
        let answer =
            "Zookeeper version: 3.9.5\nLatency min/avg/max: 0/0.0/0\nMode: read-only\nNode count: 5\n";
        assert_eq!(parse_srvr(answer), Some(ConnectOutcome::ReadOnly));
        let answer = "This ZooKeeper instance is not currently serving requests\n";
        assert_eq!(parse_srvr(answer), Some(ConnectOutcome::NotServing));
        for other in ["", "Mode: standalone\n", "HTTP/1.1 400 Bad Request\r\n"] {
            assert_eq!(parse_srvr(other), None);
        }
    }
}
