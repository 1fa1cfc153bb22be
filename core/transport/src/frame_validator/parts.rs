//! Parts that several replies have in common.

use super::malformed::Malformed;
use zklock_jute::Reader;

/// Size of a node's metadata in bytes.
const STAT: usize = 68;

pub(super) fn skip_stat(reader: &mut Reader<'_>) -> Result<(), Malformed> {
    reader.bytes(STAT)?;
    Ok(())
}

pub(super) fn data(reader: &mut Reader<'_>) -> Result<(), Malformed> {
    reader.buffer()?;
    skip_stat(reader)
}

/// Reads an absolute path. The check is necessary because the client crate removes the first
/// character without looking at it.
pub(super) fn path<'a>(reader: &mut Reader<'a>) -> Result<&'a str, Malformed> {
    let path = reader.text()?;
    if path.starts_with('/') {
        Ok(path)
    } else {
        Err(Malformed::new("a path that does not begin with a slash"))
    }
}

/// Reads names of children, which contain no slash, or paths, which begin with a slash.
pub(super) fn names(reader: &mut Reader<'_>, paths: bool, most: usize) -> Result<(), Malformed> {
    let count = reader.count(5)?;
    if count > most {
        return Err(Malformed::new(format!("{count} names at once")));
    }
    for _ in 0..count {
        if paths {
            path(reader)?;
        } else {
            let name = reader.text()?;
            if name.is_empty() || name.contains('/') {
                return Err(Malformed::new("a name that is empty or has a slash"));
            }
        }
    }
    Ok(())
}
