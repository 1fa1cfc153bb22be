//! [`TcpStream`]: the stream that the client crate reads and writes. It consists of a socket and a
//! [`FrameValidator`].

use std::future::Future;
use std::io::{Error, ErrorKind, IoSlice, Result};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_io::{AsyncRead, AsyncWrite};
use tokio::io::{AsyncRead as _, AsyncWrite as _, ReadBuf};
use tokio::time::{Sleep, sleep_until};

use crate::attempt::ConnectAttempt;
use crate::connect::{connect, dial, no_answer};
use crate::connect_log::ConnectOutcome;
use crate::frame_validator::{ContactEvidence, FrameValidator};
use crate::server_contact::ContactRecorder;
use crate::settings::Settings;
use crate::socket::Socket;
use crate::tls_failure;
use crate::write_coalescing::WriteBuffer;

/// A connected stream with Nagle's algorithm disabled.
#[derive(Debug)]
pub struct TcpStream {
    socket: Socket,
    /// Bytes that the next flush sends.
    write_buffer: WriteBuffer,
    /// `None` for a stream without settings. Such a stream carries any bytes, without validation.
    validated: Option<ValidatedConnection>,
}

#[derive(Debug)]
struct ValidatedConnection {
    validator: FrameValidator,
    attempt: ConnectAttempt,
    /// Timer for the reply to the handshake. `None` after the reply, or if there is no other server
    /// to try.
    deadline_timer: Option<Pin<Box<Sleep>>>,
    /// Records the evidence of contact with the server. `None` until there is a session.
    recorder: Option<ContactRecorder>,
}

impl TcpStream {
    /// Connects to the first address of `host` that accepts the connection. The name is resolved
    /// again for each connection, so a server whose address has changed is found. Must be called on
    /// a tokio runtime. Uses the [`Settings`] of the current task, if any.
    ///
    /// # Errors
    /// The error of the last address, of the resolver, or of the TLS handshake.
    pub async fn connect((host, port): (&str, u16)) -> Result<Self> {
        let connected = Self::open(host, port).await;
        if connected.is_err() {
            // Some failures, such as a lack of file descriptors, return immediately. The client
            // crate then retries immediately, and checks its time limit only while it waits for a
            // connection. Without this yield, it would block the thread forever.
            tokio::task::yield_now().await;
        }
        connected
    }

    async fn open(host: &str, port: u16) -> Result<Self> {
        let Some(settings) = Settings::current() else {
            let socket = Socket::Plain(dial(host, port, &mut drop).await?);
            return Ok(Self { socket, write_buffer: WriteBuffer::default(), validated: None });
        };
        if !settings.follow() {
            return Err(Error::new(ErrorKind::Unsupported, "no connection, only a probe of the settings"));
        }
        let validator = FrameValidator::new(settings.limits());
        let (socket, attempt) = connect(settings, host, port).await?;
        // If the server does not reply in time, the socket is closed before another server is
        // tried. Otherwise two handshakes of one session could be under way at the same time, and
        // the slower one would take over the session.
        let deadline_timer = attempt.deadline().map(|deadline| Box::pin(sleep_until(deadline)));
        let validated = Some(ValidatedConnection { validator, attempt, deadline_timer, recorder: None });
        Ok(Self { socket, write_buffer: WriteBuffer::default(), validated })
    }

    /// Returns the time, or 0 without a validator.
    fn now(&self) -> u64 {
        self.validated.as_ref().map_or(0, |validated| validated.attempt.settings().now())
    }

    /// Passes the first `count` bytes of `pieces` to the validator. `since` is a time before the
    /// bytes were written.
    fn written(&mut self, pieces: &[IoSlice<'_>], mut count: usize, since: u64) {
        let Some(ValidatedConnection { validator, .. }) = &mut self.validated else { return };
        for piece in pieces {
            let written = count.min(piece.len());
            validator.sent(&piece[..written], since);
            count -= written;
            if count == 0 {
                break;
            }
        }
    }
}

impl ValidatedConnection {
    /// Returns validated bytes. Reads and validates more if there are none.
    fn poll_read(
        &mut self,
        mut socket: Pin<&mut Socket>,
        cx: &mut Context<'_>,
        buf: &mut [u8],
    ) -> Poll<Result<usize>> {
        loop {
            match self.validator.take(buf)? {
                0 => {}
                count => {
                    if *self.attempt.outcome() == ConnectOutcome::Mute {
                        self.attempt.set_outcome(ConnectOutcome::Answered);
                        self.deadline_timer = None;
                    }
                    return Poll::Ready(Ok(count));
                }
            }
            let mut space = ReadBuf::new(&mut *buf);
            let Poll::Ready(read) = socket.as_mut().poll_read(cx, &mut space) else {
                return self.poll_deadline(cx);
            };
            let read = read.map(|()| space.filled().len());
            match read {
                Ok(0) | Err(_) => {
                    self.ended(read.as_ref().err());
                    return Poll::Ready(read);
                }
                Ok(count) => self.received(&buf[..count]),
            }
        }
    }

    /// Fails if the server did not reply to the handshake in time.
    fn poll_deadline(&mut self, cx: &mut Context<'_>) -> Poll<Result<usize>> {
        let Some(deadline_timer) = &mut self.deadline_timer else { return Poll::Pending };
        ready!(deadline_timer.as_mut().poll(cx));
        self.deadline_timer = None;
        Poll::Ready(Err(no_answer()))
    }

    fn received(&mut self, arrived: &[u8]) {
        self.attempt.note_data();
        self.validator.received(arrived);
        self.record_contact();
        if let Some(malformed) = self.validator.failure() {
            let outcome = ConnectOutcome::Malformed(malformed.to_string());
            if *self.attempt.outcome() == ConnectOutcome::Answered {
                tracing::warn!(target: "zklock::transport", server = %self.attempt, "{outcome}; closing the connection");
            } else {
                // Log only at debug level, because the error recurs with each attempt. The core
                // crate reports it together with the other servers' errors.
                tracing::debug!(target: "zklock::transport", server = %self.attempt, "{outcome}");
            }
            self.attempt.set_outcome(outcome);
        }
    }

    fn record_contact(&mut self) {
        let settings = self.attempt.settings();
        let evidence = self.validator.heard();
        if evidence.is_some() {
            settings.note_answer();
        }
        match evidence {
            Some(ContactEvidence::Greeting { sent, timeout, has_password }) => {
                if !has_password && settings.is_first_without_password() {
                    tracing::warn!(
                        target: "zklock::transport",
                        server = %self.attempt,
                        "the server gives sessions no password, as ClickHouse Keeper does: it does not restore \
                         sessions, so every reconnection starts a new session and loses all leases; use Apache \
                         ZooKeeper if that matters"
                    );
                }
                let timeout = Duration::from_millis(timeout);
                self.recorder = Some(settings.heard().greeted(sent, timeout));
                self.attempt.set_session_timeout(timeout);
            }
            Some(ContactEvidence::Request { sent }) => {
                if let Some(recorder) = &self.recorder {
                    recorder.answered(sent, settings.now());
                }
            }
            None => {}
        }
    }

    fn ended(&mut self, error: Option<&Error>) {
        self.attempt.note_closed();
        if *self.attempt.outcome() == ConnectOutcome::Mute {
            // TLS reports the server's rejection of the client's certificate as `InvalidData`.
            let trust = error.filter(|error| error.kind() == ErrorKind::InvalidData);
            let unsecured =
                |error: &Error| ConnectOutcome::Unsecured(tls_failure::why(error), error.to_string());
            let outcome = trust.map_or(ConnectOutcome::Closed, unsecured);
            self.attempt.set_outcome(outcome);
        }
    }
}

impl AsyncRead for TcpStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<Result<usize>> {
        let Self { socket, validated, .. } = &mut *self;
        let socket = Pin::new(socket);
        if let Some(validated) = validated {
            return validated.poll_read(socket, cx, buf);
        }
        let mut buf = ReadBuf::new(buf);
        socket.poll_read(cx, &mut buf).map_ok(|()| buf.filled().len())
    }
}

impl AsyncWrite for TcpStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(buf)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        // Take the time before the write, because the server can receive the bytes later than this
        // time but never earlier.
        let since = self.now();
        let Self { socket, write_buffer, .. } = &mut *self;
        let added = ready!(write_buffer.poll_add(socket, cx, bufs));
        let count = ignore_closed_connection(added, bufs.iter().map(|buf| buf.len()).sum())?;
        self.written(bufs, count, since);
        Poll::Ready(Ok(count))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let Self { socket, write_buffer, .. } = &mut *self;
        let sent = ready!(write_buffer.poll_send(socket, cx));
        ignore_closed_connection(sent, ())?;
        // The TLS layer can still hold encrypted bytes, which this flush writes.
        let flushed = ready!(Pin::new(socket).poll_flush(cx));
        Poll::Ready(ignore_closed_connection(flushed, ()))
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let Self { socket, write_buffer, .. } = &mut *self;
        ignore_closed_connection(ready!(write_buffer.poll_write(socket, cx)), ())?;
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}

/// Treats a write to a closed connection as a success. The bytes are lost, just as if the server
/// had closed the connection immediately after the write. The reader reports the failure when it
/// reaches the end of the connection, after the server's last bytes. If the write failed, the
/// client crate would close the connection and not read why the server refused it.
fn ignore_closed_connection<T>(done: Result<T>, all: T) -> Result<T> {
    use ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset};
    match done {
        Err(error) if matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset) => Ok(all),
        done => done,
    }
}

#[cfg(test)]
mod tests {
    use std::future::{Future, poll_fn};
    use std::io::{ErrorKind, IoSlice};
    use std::pin::{Pin, pin};
    use std::task::{Context, Poll, Waker};
    use std::time::Duration;

    use futures_io::{AsyncRead, AsyncWrite};
    use tokio::net::TcpListener;
    use tokio::time::timeout;

    use super::TcpStream;
    use crate::frame_validator::Limits;
    use crate::settings::Settings;

    // Linux only, because on other systems a reset can discard bytes that were not read yet.
    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn what_a_server_said_before_it_hung_up_is_read_after_writing() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        let (server, _) = listener.accept().await.unwrap();
        let ask = poll_fn(|cx| Pin::new(&mut stream).poll_write(cx, b"ask")).await;
        assert_eq!(ask.unwrap(), 3);
        poll_fn(|cx| Pin::new(&mut stream).poll_flush(cx)).await.unwrap();
        server.readable().await.unwrap();
        server.writable().await.unwrap();
        assert_eq!(server.try_write(b"refused").unwrap(), 7);
        // The server closes the connection with unread bytes, which causes a reset.
        drop(server);
        for _ in 0..3 {
            let written = poll_fn(|cx| Pin::new(&mut stream).poll_write(cx, b"more")).await;
            assert_eq!(written.unwrap(), 4);
            let pieces = [IoSlice::new(b"and"), IoSlice::new(b"more")];
            let written = poll_fn(|cx| Pin::new(&mut stream).poll_write_vectored(cx, &pieces)).await;
            assert_eq!(written.unwrap(), 7);
            poll_fn(|cx| Pin::new(&mut stream).poll_flush(cx)).await.unwrap();
        }
        let mut said = [0; 64];
        let count = poll_fn(|cx| Pin::new(&mut stream).poll_read(cx, &mut said)).await.unwrap();
        assert_eq!(&said[..count], b"refused");
        let end = poll_fn(|cx| Pin::new(&mut stream).poll_read(cx, &mut said)).await;
        assert!(end.is_err() || end.is_ok_and(|count| count == 0));
    }

    #[tokio::test]
    async fn a_handshake_that_is_not_answered_is_given_up_only_if_there_is_another_server() {
        // The operating system accepts connections, but no server sends data on them.
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        for (servers, is_given_up) in [(1, false), (2, true)] {
            let settings = Settings::new(Limits::default(), || 0.0, || 0);
            settings.set_servers(servers);
            let mut stream = settings.scope(TcpStream::connect(("127.0.0.1", port))).await.unwrap();
            assert_eq!(stream.validated.as_ref().unwrap().deadline_timer.is_some(), is_given_up);
            if is_given_up {
                let read = poll_fn(|cx| Pin::new(&mut stream).poll_read(cx, &mut [0; 8]));
                // The test fails if the client waits forever.
                let read = timeout(Duration::from_secs(60), read).await.expect("an end");
                assert_eq!(read.unwrap_err().kind(), ErrorKind::TimedOut);
            }
        }
    }

    #[test]
    fn a_failure_that_is_there_at_once_is_told_a_moment_later() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
        runtime.block_on(async {
            // Connecting to the broadcast address is not permitted, and the system reports it
            // immediately.
            let mut connecting = pin!(TcpStream::connect(("255.255.255.255", 1)));
            let poll = connecting.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            assert!(matches!(poll, Poll::Pending));
            connecting.await.unwrap_err();
        });
    }
}
