//! Validation of watch events.

use super::malformed::Malformed;
use super::parts::path;
use super::request::WatchAllowance;
use zklock_jute::Reader;

/// The state that servers send in every event.
const CONNECTED: i32 = 3;

/// Validates a watch event, which must match one of the remaining watches.
///
/// This limits the harm that a server can do with false events. For each event that matches no
/// watch, the client crate sends a request. The number of these requests has no limit, even if the
/// server reads none of them. The client crate's search for the watch also takes a time that grows
/// with the square of the path's length.
pub(super) fn check(body: &[u8], watches: &mut WatchAllowance) -> Result<(), Malformed> {
    let mut reader = Reader::new(body);
    let (kind, state, path) = (reader.int()?, reader.int()?, path(&mut reader)?);
    reader.end()?;
    if !(1..=4).contains(&kind) || state != CONNECTED {
        return Err(Malformed::new(format!("an event of kind {kind} and state {state}")));
    }
    if path.len() > watches.longest {
        return Err(Malformed::new(format!(
            "an event for a path of {} bytes, which is not watched",
            path.len()
        )));
    }
    match watches.count.checked_sub(1) {
        Some(left) => watches.count = left,
        None => return Err(Malformed::new("more events than watches")),
    }
    Ok(())
}
