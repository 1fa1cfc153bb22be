//! ZooKeeper's four-letter words, and `srvr` as the question what a server does that closes connections without an answer.
//!
//! A server that has lost its quorum turns clients away in silence, whether it can still be read or not. But it answers
//! this question, which no configuration can forbid: ZooKeeper's own scripts depend on it.

use std::future::poll_fn;
use std::io::Result;
use std::pin::Pin;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::connect_log::ConnectOutcome;
use crate::socket::Socket;

/// The longest answer that is read. What a server says of itself comes early in it.
const MOST: usize = 16 * 1024;

/// Why a server serves no one; `None` if it does not say.
pub(crate) async fn ask(socket: Socket) -> Result<Option<ConnectOutcome>> {
    Ok(understand(&answer(socket, "srvr").await?))
}

/// The answer of a server to a four-letter word. An answer that is cut off is as good.
pub(crate) async fn answer(mut socket: Socket, word: &str) -> Result<String> {
    // Four bytes fit in any buffer.
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

fn understand(answer: &str) -> Option<ConnectOutcome> {
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
        assert_eq!(understand(answer), Some(ConnectOutcome::ReadOnly));
        let answer = "This ZooKeeper instance is not currently serving requests\n";
        assert_eq!(understand(answer), Some(ConnectOutcome::NotServing));
        for other in ["", "Mode: standalone\n", "HTTP/1.1 400 Bad Request\r\n"] {
            assert_eq!(understand(other), None);
        }
    }
}
