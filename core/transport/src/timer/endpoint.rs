// A timer that is asked for from a file that is called as the client crate's with the pauses.
fn pause(duration: Duration) -> Timer {
    Timer::after(duration)
}
