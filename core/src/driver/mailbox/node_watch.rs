//! The data of a node and a watch on it. The data can be a number that several clients share, in
//! the format of Curator's `SharedCount`.

use std::time::Duration;

use zookeeper_client as zk;

use crate::error::{Error, Result};
use crate::runtime;
use crate::runtime::supervise::{Tasks, caught};
use crate::session::watch_budget::Reserved;

/// The data of a node, which is expected to be a number.
pub(crate) struct VersionedData {
    pub(crate) data: Vec<u8>,
    /// The number of times the data was set.
    pub(crate) version: i32,
    /// Fires when the node changes or is deleted. `None` if no watch was requested or if it does
    /// not fit in the watch budget. The server reads the data and sets the watch in one step, so no
    /// change is missed. After a reconnection, the server fires the watch if the node has changed
    /// since the read. The watch ends with the session.
    pub(crate) changed: Option<NodeWatch>,
}

/// A watch on a number.
pub(crate) struct NodeWatch {
    pub(crate) watcher: zk::OneshotWatcher,
    pub(crate) room: Reserved,
    /// The session's tasks.
    pub(crate) tasks: Tasks,
}

impl NodeWatch {
    /// Waits until the watch fires or the session ends. If the client crate's session task has
    /// ended, its watcher panics, so a panic counts as the end of the session.
    pub(crate) async fn changed(self) {
        let Self { watcher, room, mut tasks } = self;
        tokio::select! {
            biased;
            () = tasks.over() => {}
            fired = caught(watcher.changed()) => drop(fired),
        }
        drop(room);
    }

    /// Like [`changed`](Self::changed), but waits for at most `longest`. Without a watch, waits for
    /// `longest`.
    pub(crate) async fn changed_within(watch: Option<Self>, longest: Duration) -> Result<()> {
        let changed = async {
            match watch {
                Some(watch) => watch.changed().await,
                // There was no room for a watch.
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = changed => Ok(()),
            slept = runtime::sleep(longest) => slept,
        }
    }
}

impl VersionedData {
    /// Returns the data that encodes a number.
    pub(crate) fn encode(value: u32) -> Result<[u8; 4]> {
        let value = i32::try_from(value).map_err(|_| {
            Error::bad_argument("count", format_args!("is {value}, and must be at most {}", i32::MAX))
        })?;
        Ok(value.to_be_bytes())
    }

    /// Returns the number in the data, or `None` if the data is not a number (four bytes,
    /// big-endian, not negative).
    pub(crate) fn value(&self) -> Option<u32> {
        let bytes: [u8; 4] = self.data.as_slice().try_into().ok()?;
        i32::from_be_bytes(bytes).try_into().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_is_decoded() {
        for value in [0, 1, 258, i32::MAX.unsigned_abs()] {
            let data = VersionedData::encode(value).unwrap().to_vec();
            assert_eq!(VersionedData { data, version: 0, changed: None }.value(), Some(value));
        }
        let refused = VersionedData::encode(1 << 31).unwrap_err();
        assert_eq!(refused.to_string(), "count: is 2147483648, and must be at most 2147483647");
    }

    #[test]
    fn a_number_is_four_bytes_and_not_negative() {
        let value = |data: &[u8]| VersionedData { data: data.to_vec(), version: 0, changed: None }.value();
        assert_eq!(value(&[0, 0, 1, 2]), Some(258));
        assert_eq!(value(&[0; 4]), Some(0));
        for bad in [&b""[..], b"3", b"\0\0\x03", b"\0\0\0\0\x03", b"\xff\xff\xff\xff"] {
            assert_eq!(value(bad), None, "{bad:?}");
        }
    }
}
