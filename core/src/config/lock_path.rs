//! ZooKeeper paths: validation, and the path and directory of a lock.

use std::fmt;
use std::sync::Arc;

use crate::config::size_limits;
use crate::error::{Error, Result};

/// Suffix of a lock's path that names the node in which `Mutex::once` records its finished runs.
///
/// The library rejects lock paths with this suffix. The node is a sibling of the lock directory, so
/// it never appears in the lock's queue.
pub(crate) const RECORD_SUFFIX: &str = ".once";

/// Checks a path by ZooKeeper's own rules. Also rejects the root.
pub(crate) fn check_path(argument: &str, path: &str) -> Result<()> {
    check_path_within(argument, path, size_limits::NODE)
}

pub(crate) fn check_path_within(argument: &str, path: &str, limit: usize) -> Result<()> {
    let bad = |problem: &str| Err(Error::bad_argument(argument, format_args!("{problem}: {path:?}")));
    // Check the length first, because the other error messages quote the whole path.
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

/// The path of a lock, and the directory that contains the lock's nodes.
///
/// The directory is the path itself, except for a semaphore, which has two directories below its
/// path.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct LockPath {
    /// Chroot, path and subdirectory, concatenated. The methods return slices of this string.
    full: Arc<str>,
    /// Start and end of the path in `full`.
    path: (usize, usize),
}

impl LockPath {
    /// Creates the path of a lock whose nodes are in the subdirectory `part`.
    ///
    /// `chroot` is empty or an absolute path. `part` is empty or `/name`.
    ///
    /// # Errors
    /// [`BadArgument`](crate::ErrorKind::BadArgument) for a path that is malformed, too long, or
    /// reserved.
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

    /// Like [`new`](Self::new), but also accepts a reserved path.
    pub(crate) fn of_directory(chroot: &str, path: &str, part: &str) -> Result<Self> {
        // The chroot and the subdirectory count toward the limit, so the error message states the
        // length that remains for the path.
        let limit = size_limits::DIRECTORY.saturating_sub(chroot.len() + part.len());
        check_path_within("path", path, limit)?;
        let full = format!("{chroot}{path}{part}").into();
        Ok(Self { full, path: (chroot.len(), chroot.len() + path.len()) })
    }

    /// Returns the path as the caller wrote it, relative to the chroot.
    pub(crate) fn path(&self) -> &str {
        &self.full[self.path.0..self.path.1]
    }

    /// Returns the path from the ensemble's root.
    pub(crate) fn absolute_path(&self) -> &str {
        &self.full[..self.path.1]
    }

    /// Returns the directory of the lock's nodes, relative to the chroot.
    pub(crate) fn directory(&self) -> &str {
        &self.full[self.path.0..]
    }

    /// Returns the subdirectory as `name/`, or an empty string if there is none. Error messages use
    /// it as the prefix of a node's name.
    pub(crate) fn part(&self) -> String {
        let part = &self.full[self.path.1..];
        part.strip_prefix('/').map(|part| format!("{part}/")).unwrap_or_default()
    }

    /// Returns the path of the lock directory, counted from the ensemble's root.
    pub(crate) fn full(&self) -> &Arc<str> {
        &self.full
    }
}

impl fmt::Debug for LockPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Place").field(&self.full).finish()
    }
}

/// The sort key of a lock. All programs that acquire several locks together acquire them in this
/// order, so they cannot block each other.
///
/// The order is: first by path, counted from the ensemble's root, byte by byte; then by ensemble;
/// then the write lock before the read lock.
///
/// The path comes first because it is the same in all programs. Programs can name the same ensemble
/// differently, for example as `127.0.0.1` and as `localhost`. If the ensemble came first, two such
/// programs could acquire two locks in opposite orders.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LockOrder {
    pub(crate) path: String,
    /// The servers, in the form of `Hosts::ensemble`.
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
        // Chroot and subdirectory count.
        assert_eq!(
            refused(LockPath::new("/app", &path(4090), "/leases")),
            "path: is 4090 bytes long; the limit is 4085 bytes"
        );
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
