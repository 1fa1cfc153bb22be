//! A bell for an event loop: the core's thread rings it, and needs no interpreter for that.

use std::io::{Read, Result, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;

/// What is rung.
#[derive(Debug)]
pub(crate) struct Bell(UnixStream);

/// What hears it: readable from when it was rung until it was heard.
#[derive(Debug)]
pub(crate) struct Ear(UnixStream);

/// A bell with its ear.
pub(crate) fn pair() -> Result<(Bell, Ear)> {
    let (bell, ear) = UnixStream::pair()?;
    for end in [&bell, &ear] {
        end.set_nonblocking(true)?;
    }
    Ok((Bell(bell), Ear(ear)))
}

impl Bell {
    /// Rings. Nobody hears it any more if the event loop is closed.
    pub(crate) fn ring(&self) {
        (&self.0).write_all(&[1]).ok();
    }
}

impl Ear {
    /// The file descriptor by which an event loop waits.
    pub(crate) fn descriptor(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    /// Has heard. It is rung once until then.
    pub(crate) fn heard(&self) {
        (&self.0).read_exact(&mut [0]).ok();
    }
}
