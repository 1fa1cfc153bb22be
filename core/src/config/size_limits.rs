//! Size limits for arguments, so that no request exceeds the server's maximum request size.
//!
//! If a request is too large, the server closes the connection. All other requests on that
//! connection fail too, and each retry of the large request repeats the failure.

use crate::error::{Error, Result};

/// Maximum size of a request in bytes, for a server with the default `jute.maxbuffer`.
pub(crate) const REQUEST: usize = 0xf_ffff;

/// Maximum length of a label in bytes. Every node contains the label.
pub(crate) const LABEL: usize = 1024;

/// Maximum length in bytes of a lock directory's path, counted from the ensemble's root.
///
/// A request that reads many nodes of the directory contains the path once for each node.
pub(crate) const DIRECTORY: usize = 4096;

/// Maximum length of the chroot in bytes. At least 256 bytes are left for the paths of locks.
pub(crate) const CHROOT: usize = DIRECTORY - 256;

/// Maximum length in bytes of the path of a node in a lock directory.
pub(crate) const NODE: usize = DIRECTORY + 256;

/// Maximum length in bytes of an access control list's text. Every request that creates a node
/// contains the list.
pub(crate) const ACL: usize = 64 * 1024;

/// Maximum length in bytes of the user name of a SASL login, and also of its password. The whole
/// response to the server's challenge can have at most 4 KiB.
pub(crate) const LOGIN: usize = 1024;

/// Size of a request's header in bytes: request number and request type.
pub(crate) const HEAD: usize = 8;

/// Size in bytes of the length field in front of each string and each byte array.
pub(crate) const LENGTH: usize = 4;

/// Returns an error if an argument is longer than `limit` bytes.
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
