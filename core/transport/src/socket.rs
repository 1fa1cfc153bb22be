//! [`Socket`]: a connection to a server, encrypted or not.

use std::io::{IoSlice, Result};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use crate::tls::{Secured, explain};

/// A connection to a server.
#[derive(Debug)]
pub(crate) enum Socket {
    Plain(TcpStream),
    Secured(Box<Secured>),
    #[cfg(feature = "_simulation")]
    Simulated(Box<dyn crate::simulated::Stream>),
}

impl AsyncRead for Socket {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, buf),
            #[cfg(feature = "_simulation")]
            Self::Simulated(stream) => Pin::new(stream).poll_read(cx, buf),
            // Only a read can show that the server rejects the client's certificate, because the
            // server reports the rejection only after it has finished its own part of the
            // handshake.
            Self::Secured(stream) => Pin::new(stream).poll_read(cx, buf).map_err(explain),
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(cx, buf),
            #[cfg(feature = "_simulation")]
            Self::Simulated(stream) => Pin::new(stream).poll_write(cx, buf),
            Self::Secured(stream) => Pin::new(stream).poll_write(cx, buf),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
            #[cfg(feature = "_simulation")]
            Self::Simulated(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
            Self::Secured(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(cx),
            #[cfg(feature = "_simulation")]
            Self::Simulated(stream) => Pin::new(stream).poll_flush(cx),
            Self::Secured(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            #[cfg(feature = "_simulation")]
            Self::Simulated(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Secured(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
