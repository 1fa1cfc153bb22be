// Creates a timer in a file with the same name as the client crate's file with the pauses.
fn pause(duration: Duration) -> Timer {
    Timer::after(duration)
}
