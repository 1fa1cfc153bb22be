//! [`Date`]: a point in time as readable text.

use std::fmt;

/// A point in time in milliseconds since 1970, displayed in the format `2026-11-22T12:50:42Z`.
pub(crate) struct Date(pub(crate) u64);

/// Number of days in 400 years.
const FOUR_CENTURIES: u64 = 146_097;

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0 / 1000;
        let (days, second) = (seconds / 86_400, seconds % 86_400);
        // Count years from March 1. The leap day is then the last day of a year, and each group of
        // five months (March to July, August to December) has 153 days.
        let days = days + 719_468;
        let (era, day) = (days / FOUR_CENTURIES, days % FOUR_CENTURIES);
        let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
        let day = day - (365 * year + year / 4 - year / 100);
        let month = (5 * day + 2) / 153;
        let day = day - (153 * month + 2) / 5 + 1;
        let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
        let year = era * 400 + year + next;
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (millis, date) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399_999, "2000-02-28T23:59:59Z"),
            (951_782_400_000, "2000-02-29T00:00:00Z"),
            (951_868_800_000, "2000-03-01T00:00:00Z"),
            (1_735_689_599_000, "2024-12-31T23:59:59Z"),
            (1_795_351_842_000, "2026-11-22T12:50:42Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(Date(millis).to_string(), date);
        }
        // Other programs can write any number.
        assert!(!Date(u64::MAX).to_string().is_empty());
    }
}
