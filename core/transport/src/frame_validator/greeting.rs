//! Validation of the greeting. This is the server's first message, the reply to the client's
//! request for a session.

use super::malformed::Malformed;
use zklock_jute::Reader;

/// Largest greeting, in bytes. The normal size is 36 or 37 bytes; the rest allows for longer
/// passwords.
const LARGEST: usize = 256;
const LONGEST_PASSWORD: usize = 64;

/// Shortest accepted session timeout, in milliseconds. Servers grant multiples of a tick, which is
/// a second or two.
const SHORTEST: i32 = 100;
const LONGEST: i32 = 24 * 60 * 60 * 1000;

/// Returns the session timeout that the client requests, in milliseconds.
pub(super) fn asked(request: &[u8]) -> i32 {
    let mut reader = Reader::new(request);
    reader.bytes(12).and_then(|_| reader.int()).unwrap_or(0)
}

/// Returns the size of the greeting, from its first four bytes. If they are not a valid size, the
/// error suggests what kind of server the client might be connected to.
pub(super) fn size(prefix: [u8; 4]) -> Result<usize, Malformed> {
    let size = i32::from_be_bytes(prefix);
    match usize::try_from(size) {
        Ok(size) if size <= LARGEST => Ok(size),
        _ => {
            let hint = match prefix {
                [0x15 | 0x16, 0x03, ..] => "it seems to expect TLS",
                [b'H', b'T', b'T', b'P'] => "it seems to be a web server",
                _ => "is it one?",
            };
            let message = format!("a first frame of {size} bytes; {hint}");
            Err(Malformed::new(message))
        }
    }
}

/// A session that a server granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Granted {
    /// Timeout of the session, in milliseconds.
    pub(super) timeout: u64,
    /// `true` if the session has a password. Apache ZooKeeper generates one for each session.
    /// ClickHouse Keeper, which cannot restore sessions, fills the field with zeros.
    pub(super) has_password: bool,
}

/// Validates the reply to a request for a session. `asked` is the timeout in the request. Returns
/// the session if there is one.
pub(super) fn check(answer: &[u8], asked: i32) -> Result<Option<Granted>, Malformed> {
    let mut reader = Reader::new(answer);
    let (version, timeout, session) = (reader.int()?, reader.int()?, reader.long()?);
    if version != 0 {
        return Err(Malformed::new(format!("version {version} of the protocol")));
    }
    let password = reader.buffer()?.unwrap_or_default();
    if password.is_empty() || password.len() > LONGEST_PASSWORD {
        return Err(Malformed::new(format!("a session's password of {} bytes", password.len())));
    }
    // Old servers do not say if they are read-only.
    if !reader.is_empty() {
        reader.boolean()?;
    }
    reader.end()?;
    // Session 0 means that there is no session, or that it has ended.
    let sane = SHORTEST.min(asked).max(1)..=LONGEST.max(asked);
    if timeout < 0 || session != 0 && !sane.contains(&timeout) {
        return Err(Malformed::new(format!(
            "a session timeout of {timeout} ms, although {asked} ms was requested"
        )));
    }
    let has_password = password.iter().any(|byte| *byte != 0);
    let timeout = u64::try_from(timeout).ok().filter(|_| session != 0);
    Ok(timeout.map(|timeout| Granted { timeout, has_password }))
}
