//! Functions for node paths.

/// Returns the parent of a path, or "" for the root. Returns `None` if the path has no slash.
pub(crate) fn parent(path: &str) -> Option<&str> {
    match path.rfind('/')? {
        0 => Some("/"),
        slash => Some(&path[..slash]),
    }
}

/// Returns the last part of a path.
pub(crate) fn name(path: &str) -> &str {
    path.rfind('/').map_or(path, |slash| &path[slash + 1..])
}

/// Returns the path itself, its parent, and so on up to the root.
pub(crate) fn and_ancestors(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(path), |path| if *path == "/" { None } else { parent(path) })
}

/// Returns `true` if the path is valid for a node.
pub(crate) fn is_valid(path: &str) -> bool {
    let Some(below) = path.strip_prefix('/') else { return false };
    below.is_empty()
        || below
            .split('/')
            .all(|part| !part.is_empty() && part != "." && part != ".." && part.chars().all(allowed))
}

fn allowed(c: char) -> bool {
    !matches!(c, '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{e000}'..='\u{f8ff}' | '\u{fff0}'..='\u{ffff}')
        && u32::from(c) <= 0xffff
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parents_and_names() {
        assert_eq!((parent("/a/b"), name("/a/b")), (Some("/a"), "b"));
        assert_eq!((parent("/a"), name("/a")), (Some("/"), "a"));
        assert_eq!(parent("a"), None);
        assert_eq!(and_ancestors("/a/b").collect::<Vec<_>>(), ["/a/b", "/a", "/"]);
    }

    #[test]
    fn valid_paths() {
        for path in ["/", "/a", "/a/b.c", "/a/...", "/zoë"] {
            assert!(is_valid(path), "{path}");
        }
        for path in ["", "a", "/a/", "//", "/a//b", "/.", "/a/../b", "/a\0", "/\u{7f}", "/\u{1f600}"] {
            assert!(!is_valid(path), "{path:?}");
        }
    }
}
