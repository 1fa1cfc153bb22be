//! Asks for a timer from a file that is called as the client crate's with the pauses.

use std::time::Duration;

use super::Timer;

pub(super) fn timer(duration: Duration) -> Timer {
    Timer::after(duration)
}
