//! What is too large to be sent. A server that is sent a larger request than it takes closes the connection, with all
//! that is under way on it, and does so again each time the request is repeated.

use crate::error::{Error, Result};

/// The largest request that a server takes, unless its `jute.maxbuffer` says otherwise.
pub(crate) const REQUEST: usize = 0xf_ffff;

/// The longest label: it is in the data of every node, which others read.
pub(crate) const LABEL: usize = 1024;

/// The longest path of a lock directory, from the ensemble's root. What is sent about it is a multiple: its parents are
/// created together, and many of its nodes are read and checked at once.
pub(crate) const DIRECTORY: usize = 4096;

/// The longest chroot: it leaves room for the paths of locks.
pub(crate) const CHROOT: usize = DIRECTORY - 256;

/// The longest path of any other node: one in a lock directory.
pub(crate) const NODE: usize = DIRECTORY + 256;

/// The longest text of an access control list, which is sent with every node.
pub(crate) const ACL: usize = 64 * 1024;

/// The longest user, and the longest password, of a login: the whole answer to its challenge has 4 KiB.
pub(crate) const LOGIN: usize = 1024;

/// What a request takes beside its contents: its number and its kind.
pub(crate) const HEAD: usize = 8;

/// What a text or data takes beside its bytes: their number.
pub(crate) const LENGTH: usize = 4;

/// Refuses an argument that is too large.
pub(crate) fn check(argument: &str, bytes: usize, limit: usize) -> Result<()> {
    if bytes <= limit {
        return Ok(());
    }
    Err(Error::bad_argument(argument, format_args!("is {bytes} bytes long; the limit is {limit} bytes")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_large_is_refused_with_both_sizes() {
        assert!(check("label", LABEL, LABEL).is_ok());
        let refused = check("label", LABEL + 1, LABEL).unwrap_err();
        assert_eq!(refused.to_string(), "label: is 1025 bytes long; the limit is 1024 bytes");
        assert_eq!((refused.code(), refused.argument()), ("BAD_ARGUMENT", Some("label")));
    }
}
