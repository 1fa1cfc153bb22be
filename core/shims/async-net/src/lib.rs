//! Stand-in for the `async-net` crate: only the TCP stream that `zookeeper-client` uses, built on tokio.
//!
//! It sets `TCP_NODELAY`. The client crate never does, and with Nagle's algorithm the second of two requests
//! sent back to back waits for the acknowledgement of the first: a whole round trip more for every lock.

use std::io::{IoSlice, Result};
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_io::{AsyncRead, AsyncWrite};
use tokio::io::{AsyncRead as _, AsyncWrite as _, ReadBuf};

/// Names this transport, so that a program can tell it from the crate that it stands in for.
pub const TRANSPORT: &str = "zklock";

/// A connected TCP stream with Nagle's algorithm off.
#[derive(Debug)]
pub struct TcpStream(tokio::net::TcpStream);

impl TcpStream {
    /// Connects to the first address of `host` that answers. Must be called on a tokio runtime.
    ///
    /// # Errors
    /// The last address's error, or the resolver's.
    pub async fn connect((host, port): (&str, u16)) -> Result<Self> {
        // An address needs no resolver, and a resolver needs a thread.
        let stream = match host.parse::<IpAddr>() {
            Ok(ip) => tokio::net::TcpStream::connect(SocketAddr::new(ip, port)).await?,
            Err(_) => tokio::net::TcpStream::connect((host, port)).await?,
        };
        stream.set_nodelay(true)?;
        Ok(Self(stream))
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
