//! Durations on the command line.

use std::time::Duration;

/// `1m30s`, `500ms`, or a number of seconds, as `flock` takes it.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    if let Ok(seconds) = text.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string());
    }
    humantime::parse_duration(text).map_err(|error| format!("{error}; write 30, 1.5, 500ms or 1m30s"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_may_go_without_a_unit() {
        assert_eq!(parse("2.5").unwrap(), Duration::from_millis(2500));
        assert_eq!(parse("0").unwrap(), Duration::ZERO);
        assert_eq!(parse("1m30s").unwrap(), Duration::from_secs(90));
        for wrong in ["-1", "NaN", "inf", "", "soon", "5 parsecs"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
