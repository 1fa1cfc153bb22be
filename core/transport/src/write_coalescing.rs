//! Combines the pieces that the client crate writes into one write to the socket.
//!
//! The client crate writes each request immediately, and flushes when it has no further request.
//! Without this module, an uncontended acquire, which sends two requests, would cost two packets
//! and two system calls, and the server would read twice. With this module, a flush first lets the
//! thread's other tasks run, because they might write more.

use std::io::{Error, ErrorKind, IoSlice, Result};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::AsyncWrite;

/// Number of waiting bytes above which no more bytes are accepted.
const FULL: usize = 64 << 10;

/// Bytes that wait to be written to a socket.
#[derive(Debug, Default)]
pub(crate) struct WriteBuffer {
    bytes: Vec<u8>,
    /// Number of bytes in `bytes` that were already written.
    written: usize,
    /// `true` if bytes were added since the last call of `poll_send`. More bytes might then follow.
    grows: bool,
}

impl WriteBuffer {
    /// Adds all pieces, unless too many bytes already wait to be written.
    pub(crate) fn poll_add<W: AsyncWrite + Unpin>(
        &mut self,
        socket: &mut W,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        if self.bytes.len() - self.written >= FULL {
            ready!(self.poll_write(socket, cx))?;
        }
        let before = self.bytes.len();
        for piece in pieces {
            self.bytes.extend_from_slice(piece);
        }
        self.grows = true;
        Poll::Ready(Ok(self.bytes.len() - before))
    }

    /// Writes all bytes if none were added since the last call. Otherwise, first lets this thread's
    /// other tasks run.
    pub(crate) fn poll_send<W: AsyncWrite + Unpin>(
        &mut self,
        socket: &mut W,
        cx: &mut Context<'_>,
    ) -> Poll<Result<()>> {
        if std::mem::take(&mut self.grows) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.poll_write(socket, cx)
    }

    /// Writes all bytes.
    pub(crate) fn poll_write<W: AsyncWrite + Unpin>(
        &mut self,
        socket: &mut W,
        cx: &mut Context<'_>,
    ) -> Poll<Result<()>> {
        while self.written < self.bytes.len() {
            match ready!(Pin::new(&mut *socket).poll_write(cx, &self.bytes[self.written..])) {
                Ok(0) => return Poll::Ready(Err(Error::from(ErrorKind::WriteZero))),
                Ok(count) => self.written += count,
                Err(error) => {
                    // Drop the bytes, because the connection has failed and they cannot be sent.
                    self.clear();
                    return Poll::Ready(Err(error));
                }
            }
        }
        self.clear();
        Poll::Ready(Ok(()))
    }

    fn clear(&mut self) {
        self.bytes.clear();
        // Large requests are rare, so their memory is released.
        self.bytes.shrink_to(FULL);
        self.written = 0;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Wake, Waker};

    use super::*;

    /// Records each write, and accepts `room` bytes in total.
    struct Socket {
        writes: Vec<Vec<u8>>,
        room: usize,
    }

    impl AsyncWrite for Socket {
        fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, buf: &[u8]) -> Poll<Result<usize>> {
            let count = buf.len().min(self.room);
            if count == 0 {
                return Poll::Pending;
            }
            self.room -= count;
            self.writes.push(buf[..count].to_vec());
            Poll::Ready(Ok(count))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    struct Scene {
        write_buffer: WriteBuffer,
        wire: Socket,
        woken: Arc<Woken>,
    }

    impl Scene {
        fn new(room: usize) -> Self {
            let wire = Socket { writes: Vec::new(), room };
            Self { write_buffer: WriteBuffer::default(), wire, woken: Arc::default() }
        }

        fn add(&mut self, bytes: &[u8]) -> Poll<usize> {
            let waker = Waker::from(Arc::clone(&self.woken));
            let pieces = [IoSlice::new(bytes)];
            let added = self.write_buffer.poll_add(&mut self.wire, &mut Context::from_waker(&waker), &pieces);
            added.map(Result::unwrap)
        }

        fn send(&mut self) -> Poll<()> {
            let waker = Waker::from(Arc::clone(&self.woken));
            self.write_buffer.poll_send(&mut self.wire, &mut Context::from_waker(&waker)).map(Result::unwrap)
        }

        fn wakes(&self) -> usize {
            self.woken.0.load(Ordering::Relaxed)
        }
    }

    #[test]
    fn what_follows_at_once_goes_out_with_what_was_there() {
        let mut scene = Scene::new(usize::MAX);
        for piece in [b"create", b"listen"] {
            assert_eq!(scene.add(piece), Poll::Ready(6));
            assert_eq!(scene.send(), Poll::Pending);
        }
        assert_eq!((scene.wakes(), scene.wire.writes.len()), (2, 0), "it is woken to go on");
        assert_eq!(scene.send(), Poll::Ready(()));
        assert_eq!(scene.wire.writes, [b"createlisten"]);
        // No bytes are left to send, and there is no further wake-up.
        assert_eq!(scene.send(), Poll::Ready(()));
        assert_eq!((scene.wakes(), scene.wire.writes.len()), (2, 1));
    }

    #[test]
    fn a_socket_that_takes_a_part_gets_the_rest_later() {
        let mut scene = Scene::new(4);
        assert_eq!(scene.add(b"create"), Poll::Ready(6));
        assert_eq!((scene.send(), scene.send()), (Poll::Pending, Poll::Pending));
        assert_eq!(scene.add(b"!"), Poll::Ready(1));
        scene.wire.room = usize::MAX;
        assert_eq!((scene.send(), scene.send()), (Poll::Pending, Poll::Ready(())));
        assert_eq!(scene.wire.writes.concat(), b"create!");
    }

    #[test]
    fn while_much_waits_no_more_is_taken_in() {
        let mut scene = Scene::new(0);
        let much = vec![1; FULL];
        assert_eq!(scene.add(&much), Poll::Ready(FULL));
        assert_eq!(scene.add(&[2]), Poll::Pending);
        scene.wire.room = usize::MAX;
        assert_eq!(scene.add(&[2]), Poll::Ready(1));
        assert_eq!(scene.wire.writes.concat(), much);
    }
}
