//! Stand-in for the `async-net` crate: only the TCP stream that `zookeeper-client` uses, built on tokio.
//!
//! It sets `TCP_NODELAY`. The client crate never does, and with Nagle's algorithm the second of two requests
//! sent back to back waits for the acknowledgement of the first: one more round trip for every lock.

use std::io::{Error, ErrorKind, IoSlice, Result};
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_io::{AsyncRead, AsyncWrite};
use tokio::io::{AsyncRead as _, AsyncWrite as _, ReadBuf};
use tokio::task::JoinSet;

/// For how long an address is tried alone.
const HEAD_START: Duration = Duration::from_millis(100);

static USED: AtomicBool = AtomicBool::new(false);

/// Whether any connection was made, so that a program can tell these from those of the crate that they replace.
#[must_use]
pub fn used() -> bool {
    USED.load(Ordering::Relaxed)
}

/// A connected TCP stream with Nagle's algorithm off.
#[derive(Debug)]
pub struct TcpStream(tokio::net::TcpStream);

impl TcpStream {
    /// Connects to the first address of `host` that answers. The name is resolved for this connection alone: a server
    /// whose address has changed is found again. Must be called on a tokio runtime.
    ///
    /// # Errors
    /// The last address's error, or the resolver's.
    pub async fn connect((host, port): (&str, u16)) -> Result<Self> {
        let connected = match host.parse::<IpAddr>() {
            // An address needs no resolver, and a resolver needs a thread.
            Ok(ip) => tokio::net::TcpStream::connect(SocketAddr::new(ip, port)).await,
            Err(_) => connect_to_any(host, port).await,
        };
        match connected {
            Ok(stream) => {
                USED.store(true, Ordering::Relaxed);
                stream.set_nodelay(true)?;
                Ok(Self(stream))
            }
            Err(error) => {
                // Some failures, such as a lack of file descriptors, are reported at once. The client crate tries again
                // at once when its time is up, and checks its clock only while it waits for a connection: without
                // this it would never let go of the thread.
                tokio::task::yield_now().await;
                Err(error)
            }
        }
    }
}

/// Connects to an address of a host, in the resolver's order. One that does not answer keeps the next from being tried
/// only for a moment: otherwise it would use up the client crate's time for the host, every time.
async fn connect_to_any(host: &str, port: u16) -> Result<tokio::net::TcpStream> {
    let mut addresses = tokio::net::lookup_host((host, port)).await?;
    let mut attempts = JoinSet::new();
    let mut failure = Error::new(ErrorKind::NotFound, "the name has no address");
    loop {
        let last = match addresses.next() {
            Some(address) => {
                attempts.spawn(tokio::net::TcpStream::connect(address));
                false
            }
            None => true,
        };
        let ended = if last {
            attempts.join_next().await
        } else {
            match tokio::time::timeout(HEAD_START, attempts.join_next()).await {
                Ok(ended) => ended,
                Err(_) => continue,
            }
        };
        match ended {
            Some(Ok(Ok(stream))) => return Ok(stream),
            Some(Ok(Err(error))) => failure = error,
            Some(Err(error)) => failure = error.into(),
            None => return Err(failure),
        }
    }
}

impl AsyncRead for TcpStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<Result<usize>> {
        let mut buf = ReadBuf::new(buf);
        Pin::new(&mut self.0).poll_read(cx, &mut buf).map_ok(|()| buf.filled().len())
    }
}

impl AsyncWrite for TcpStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        Pin::new(&mut self.0).poll_write_vectored(cx, bufs)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::TcpStream;

    #[test]
    fn a_failure_that_is_there_at_once_is_told_a_moment_later() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
        runtime.block_on(async {
            // Connecting to the broadcast address is not permitted: the system says so without waiting.
            let mut connecting = pin!(TcpStream::connect(("255.255.255.255", 1)));
            let poll = connecting.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            assert!(matches!(poll, Poll::Pending));
            connecting.await.unwrap_err();
        });
    }
}
