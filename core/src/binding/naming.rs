//! The options of locks, from arguments.

use crate::error::{Error, Result};
use crate::queue::Naming;

/// How nodes are to be named.
///
/// # Errors
/// [`BadArgument`](crate::ErrorKind::BadArgument) for any word other than `curator` and `kazoo`.
pub fn parse_naming(name: &str) -> Result<Naming> {
    match name {
        "curator" => Ok(Naming::Curator),
        "kazoo" => Ok(Naming::Kazoo),
        _ => Err(Error::bad_argument("naming", "must be 'curator' or 'kazoo'")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_two_namings() {
        assert_eq!(parse_naming("curator").unwrap(), Naming::Curator);
        assert_eq!(parse_naming("kazoo").unwrap(), Naming::Kazoo);
        assert_eq!(parse_naming("Curator").unwrap_err().to_string(), "naming: must be 'curator' or 'kazoo'");
    }
}
