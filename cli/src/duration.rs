//! Parses durations on the command line.

use std::time::Duration;

pub(crate) use zklock::internal::parse_duration as parse;

/// Formats a duration as `365d` or `1d 12h`. Days are the largest unit, because months and years
/// have no fixed length.
pub(crate) fn in_days(time: Duration) -> String {
    const DAY: u64 = 24 * 60 * 60;
    let days = time.as_secs() / DAY;
    let rest = time.saturating_sub(Duration::from_secs(days * DAY));
    match (days, rest) {
        (0, _) => humantime::format_duration(time).to_string(),
        (_, Duration::ZERO) => format!("{days}d"),
        _ => format!("{days}d {}", humantime::format_duration(rest)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_the_largest_unit() {
        let hours = |hours: u64| in_days(Duration::from_secs(hours * 3600));
        assert_eq!([1, 24, 36, 24 * 365].map(hours), ["1h", "1d", "1d 12h", "365d"]);
    }

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
