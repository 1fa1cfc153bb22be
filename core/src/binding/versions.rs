//! Versions of nodes, in the form that each language has for numbers.

use super::permits::Count;
use crate::error::Result;
use crate::transaction::bad_version;

/// The version that a node must have. What is no whole number, or out of range, is refused: converted to one, it would
/// let a write pass that was meant to be guarded.
///
/// # Errors
/// [`BadArgument`](crate::ErrorKind::BadArgument).
pub fn parse_version(number: impl Count) -> Result<i32> {
    number.to_count().and_then(|version| version.try_into().ok()).ok_or_else(|| bad_version(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_whole_numbers_that_a_server_counts_to() {
        for (number, version) in [(0.0, 0), (-0.0, 0), (7.0, 7), (2_147_483_647.0, i32::MAX)] {
            assert_eq!(parse_version(number).unwrap(), version);
        }
        assert_eq!(parse_version(i64::from(i32::MAX)).unwrap(), i32::MAX);
        for bad in [-1.0, 0.9, 2_147_483_648.0, 4_294_967_296.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN] {
            let error = parse_version(bad).unwrap_err();
            assert_eq!((error.code(), error.argument()), ("BAD_ARGUMENT", Some("version")), "{bad}");
            assert!(error.to_string().contains(&bad.to_string()), "{error}");
        }
        for bad in [-1_i64, 1 << 31, 1 << 32] {
            assert!(parse_version(bad).is_err(), "{bad}");
        }
    }
}
