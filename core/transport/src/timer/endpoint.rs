// Creates a timer as the client crate does for its retry pauses, in a file with the same name.
fn pause(duration: Duration) -> Timer {
    Timer::after(duration)
}
