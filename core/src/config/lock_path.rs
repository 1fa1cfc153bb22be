//! ZooKeeper paths: which are valid, and where a lock is.

use std::fmt;
use std::sync::Arc;

use crate::config::size_limits;
use crate::error::{Error, Result};

/// The suffix of the node that records a mutex's slots, which is the lock path with this appended. No lock path ends in it.
/// The node lies beside the lock directory, not in it, so no contender of any client meets it in a queue.
pub(crate) const RECORD_SUFFIX: &str = ".once";

/// Checks a path by the server's own rules. The root is refused too: it cannot be a lock.
pub(crate) fn check_path(argument: &str, path: &str) -> Result<()> {
    check_path_within(argument, path, size_limits::NODE)
}

/// The same for a path that has a lower limit.
pub(crate) fn check_path_within(argument: &str, path: &str, limit: usize) -> Result<()> {
    let bad = |problem: &str| Err(Error::bad_argument(argument, format_args!("{problem}: {path:?}")));
    // First: what is too long is not repeated either.
    size_limits::check(argument, path.len(), limit)?;
    if path.is_empty() {
        return bad("must not be empty");
    }
    if !path.starts_with('/') {
        return bad("must start with '/'");
    }
    if path == "/" {
        return bad("must not be the root");
    }
    if path.ends_with('/') {
        return bad("must not end with '/'");
    }
    for part in path[1..].split('/') {
        match part {
            "" => return bad("contains an empty component"),
            "." | ".." => return bad("contains '.' or '..' as a component"),
            _ => {}
        }
    }
    let refused =
        |c: char| matches!(c, '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{e000}'..='\u{f8ff}' | '\u{fff0}'..);
    if path.contains(refused) {
        let problem = "contains a character that ZooKeeper does not allow, such as a control character, an emoji or \
            another character above U+FFFF, or one for private use";
        return bad(problem);
    }
    Ok(())
}

/// Where a lock is: its path as the caller wrote it, the directory that its nodes are in, and both as seen from the
/// ensemble's root. The directory is the path itself, except for a semaphore, which has two directories below its path.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct LockPath {
    /// Chroot, path and subdirectory, concatenated; all others are slices of it.
    full: Arc<str>,
    /// Where the path begins in it, and where it ends.
    path: (usize, usize),
}

impl LockPath {
    /// The place at `path` below `chroot` (empty, or an absolute path), with its nodes in the subdirectory `part`
    /// (empty, or `/name`).
    ///
    /// # Errors
    /// [`BadArgument`](crate::ErrorKind::BadArgument) for a malformed path, one that is too long, or one that is reserved.
    pub(crate) fn new(chroot: &str, path: &str, part: &str) -> Result<Self> {
        let place = Self::of_directory(chroot, path, part)?;
        if path.ends_with(RECORD_SUFFIX) {
            let problem = format!(
                "{path:?} ends in {RECORD_SUFFIX:?}, which is reserved for the record of a lock's slots"
            );
            return Err(Error::bad_argument("path", problem));
        }
        Ok(place)
    }

    /// The same for a directory that may be no lock's.
    pub(crate) fn of_directory(chroot: &str, path: &str, part: &str) -> Result<Self> {
        // The suffix counts, and the message names the length that is left for the caller.
        let limit = size_limits::DIRECTORY.saturating_sub(chroot.len() + part.len());
        check_path_within("path", path, limit)?;
        let full = format!("{chroot}{path}{part}").into();
        Ok(Self { full, path: (chroot.len(), chroot.len() + path.len()) })
    }

    /// The path, as the caller wrote it: below the chroot.
    pub(crate) fn path(&self) -> &str {
        &self.full[self.path.0..self.path.1]
    }

    /// The path from the ensemble's root.
    pub(crate) fn absolute_path(&self) -> &str {
        &self.full[..self.path.1]
    }

    /// The directory of the nodes, below the chroot.
    pub(crate) fn directory(&self) -> &str {
        &self.full[self.path.0..]
    }

    /// What precedes the names of nodes when they are told with the path: the subdirectory and a slash; or nothing.
    pub(crate) fn part(&self) -> String {
        let part = &self.full[self.path.1..];
        part.strip_prefix('/').map(|part| format!("{part}/")).unwrap_or_default()
    }

    /// The directory of the nodes from the ensemble's root: as the server is told, and as places on one
    /// client are told apart.
    pub(crate) fn full(&self) -> &Arc<str> {
        &self.full
    }
}

impl fmt::Debug for LockPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Place").field(&self.full).finish()
    }
}

/// The place of a lock in the order that is the same in all programs: by path from the ensemble's root, byte by byte;
/// on one path by ensemble, and there the writer before the reader.
///
/// The path comes first because programs agree on it. They need not agree on what they call an ensemble: one that
/// writes `127.0.0.1` and one that writes `localhost` would otherwise take two locks in opposite orders.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LockOrder {
    pub(crate) path: String,
    /// See `Hosts::ensemble`.
    pub(crate) ensemble: Vec<String>,
    pub(crate) reads: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_paths_are_refused_by_name() {
        for path in [
            "",
            "a",
            "/",
            "/a/",
            "//a",
            "/a//b",
            "/./a",
            "/a/..",
            "/a\0b",
            "/a\u{1f}",
            "/🔒",
            "/a\u{e000}",
            "/a\u{f8ff}",
            "/a\u{fffd}",
            "/\u{10000}",
        ] {
            let error = check_path("path", path).unwrap_err();
            assert_eq!(error.code(), "BAD_ARGUMENT", "{path:?}");
            assert!(error.to_string().starts_with("path: "), "{error}");
        }
        for path in ["/a", "/a/b.c", "/…/ü", "/a/...", "/ a", "/\u{d7ff}", "/日本\u{f900}\u{ffef}"] {
            check_path("path", path).unwrap();
        }
    }

    #[test]
    fn a_path_that_is_too_long_is_refused_with_both_sizes() {
        let path = |length: usize| format!("/{}", "a".repeat(length - 1));
        let refused = |result: Result<LockPath>| result.unwrap_err().to_string();
        assert!(LockPath::new("", &path(4096), "").is_ok());
        assert_eq!(
            refused(LockPath::new("", &path(4097), "")),
            "path: is 4097 bytes long; the limit is 4096 bytes"
        );
        // What is added to it counts.
        assert_eq!(
            refused(LockPath::new("/app", &path(4090), "/leases")),
            "path: is 4090 bytes long; the limit is 4085 bytes"
        );
        // However long it is, the message names the limit of a lock's path, not of the nodes in its directory.
        for length in [4097, 4353, 1_100_000] {
            let problem = format!("path: is {length} bytes long; the limit is 4096 bytes");
            assert_eq!(refused(LockPath::new("", &path(length), "")), problem);
        }
        assert!(check_path("node", &path(4096 + 100)).is_ok());
        let refused = check_path("node", &path(1_100_000)).unwrap_err().to_string();
        assert_eq!(refused, "node: is 1100000 bytes long; the limit is 4352 bytes");
    }

    #[test]
    fn a_place_is_seen_from_the_chroot_and_from_the_root() {
        let place = LockPath::new("/app", "/jobs/a", "/leases").unwrap();
        assert_eq!(place.path(), "/jobs/a");
        assert_eq!(place.absolute_path(), "/app/jobs/a");
        assert_eq!(place.directory(), "/jobs/a/leases");
        assert_eq!(&**place.full(), "/app/jobs/a/leases");
        let place = LockPath::new("", "/a", "").unwrap();
        assert_eq!([place.path(), place.absolute_path(), place.directory(), place.full()], ["/a"; 4]);
    }

    #[test]
    fn a_place_needs_a_valid_path() {
        assert_eq!(
            LockPath::new("/app", "a", "").unwrap_err().to_string(),
            "path: must start with '/': \"a\""
        );
    }
}
