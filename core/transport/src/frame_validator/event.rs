//! What a server says when a watch fires.

use super::jute::Malformed;
use super::jute::Reader;
use super::parts::path;
use super::request::WatchAllowance;

/// The state that servers name in every event.
const CONNECTED: i32 = 3;

/// Checks an event against the watches that are left.
///
/// Each event that the client crate cannot place costs a request, without a limit and whether or not the server reads
/// it; and the time to place it grows with the square of the path's length.
pub(super) fn check(body: &[u8], watches: &mut WatchAllowance) -> Result<(), Malformed> {
    let mut reader = Reader::new(body);
    let (kind, state, path) = (reader.int()?, reader.int()?, path(&mut reader)?);
    reader.end()?;
    if !(1..=4).contains(&kind) || state != CONNECTED {
        return Err(Malformed::new(format!("an event of kind {kind} and state {state}")));
    }
    if path.len() > watches.longest {
        return Err(Malformed::new(format!(
            "an event for a path of {} bytes, which nobody watches",
            path.len()
        )));
    }
    match watches.count.checked_sub(1) {
        Some(left) => watches.count = left,
        None => return Err(Malformed::new("more events than watches")),
    }
    Ok(())
}
