//! Numbers of permits, in the form that each language has for numbers.

use std::fmt;

use crate::error::{Error, Result};
use crate::semaphore::Permits;

/// A number that may be a count.
pub trait Count: Copy + fmt::Display {
    /// The same number, if it is whole and within range.
    fn to_count(self) -> Option<u32>;
}

impl Count for i64 {
    fn to_count(self) -> Option<u32> {
        self.try_into().ok()
    }
}

impl Count for f64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "checked to be a whole number in the range"
    )]
    fn to_count(self) -> Option<u32> {
        (self.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&self)).then_some(self as u32)
    }
}

/// A number of permits. One that is too small or too large is refused like any other invalid number.
///
/// # Errors
/// [`BadArgument`](crate::ErrorKind::BadArgument), naming `argument`.
pub fn parse_count(argument: &str, number: impl Count) -> Result<u32> {
    let problem = || Error::bad_argument(argument, format_args!("{number} is not a valid number of permits"));
    number.to_count().ok_or_else(problem)
}

/// How many permits a semaphore has: a number, or whatever the node at a path states.
///
/// # Errors
/// [`BadArgument`](crate::ErrorKind::BadArgument) for none or both of them, or for a number that is out of range.
pub fn parse_permits(number: Option<impl Count>, shared_count: Option<String>) -> Result<Permits> {
    match (number, shared_count) {
        (Some(number), None) => Ok(Permits::Fixed(parse_count("permits", number)?)),
        (None, Some(path)) => Ok(Permits::SharedCount(path)),
        _ => Err(Error::bad_argument("permits", "give either a number or the path of a shared count")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_whole_numbers_in_range() {
        assert_eq!(parse_count("count", 3_i64).unwrap(), 3);
        assert_eq!(parse_count("count", 3.0).unwrap(), 3);
        assert_eq!(parse_count("count", f64::from(u32::MAX)).unwrap(), u32::MAX);
        assert_eq!(
            parse_count("count", -1_i64).unwrap_err().to_string(),
            "count: -1 is not a valid number of permits"
        );
        assert!(parse_count("count", i64::from(u32::MAX) + 1).is_err());
        for bad in [-1.0, 0.5, f64::from(u32::MAX) + 1.0, f64::INFINITY, f64::NAN] {
            assert_eq!(parse_count("count", bad).unwrap_err().argument(), Some("count"), "{bad}");
        }
    }

    #[test]
    fn a_number_or_a_path_is_given_and_not_both() {
        let path = || Some("/n".to_owned());
        assert_eq!(parse_permits(Some(2_i64), None).unwrap(), Permits::Fixed(2));
        assert_eq!(parse_permits(None::<f64>, path()).unwrap(), Permits::SharedCount("/n".into()));
        for (number, path) in [(None, None), (Some(2.0), path())] {
            assert_eq!(parse_permits(number, path).unwrap_err().argument(), Some("permits"));
        }
    }
}
