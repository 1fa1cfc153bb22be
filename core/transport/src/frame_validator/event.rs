//! Validation of watch events.

use super::malformed::Malformed;
use super::parts::path;
use super::request::WatchAllowance;
use zklock_jute::Reader;

/// The state that servers send in every event.
const CONNECTED: i32 = 3;

/// Validates a watch event, which must match one of the remaining watches.
///
/// This limits the harm that a server can do with false events. The client crate sends a request
/// for each event that matches no watch, and nothing limits the number of these requests. Its
/// search for the watch also takes quadratic time in the length of the path.
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
