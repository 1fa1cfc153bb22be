//! A number that several clients share, in the layout of Curator's `SharedCount`.

use std::time::Duration;

use zookeeper_client as zk;

use crate::error::{Error, Result};
use crate::runtime;
use crate::runtime::supervise::{Tasks, caught};
use crate::session::watch_budget::Reserved;

/// What a node holds that should hold a number.
pub(crate) struct VersionedData {
    pub(crate) data: Vec<u8>,
    /// How often the data was set.
    pub(crate) version: i32,
    /// Fires when the node changes or goes, if it was requested and there was room for it. It is set with the read, so no
    /// change falls between the two; after a reconnection the server compares it with the node; and it ends with the
    /// session.
    pub(crate) changed: Option<NodeWatch>,
}

/// A watch on a number.
pub(crate) struct NodeWatch {
    pub(crate) watcher: zk::OneshotWatcher,
    pub(crate) room: Reserved,
    /// Those of the session.
    pub(crate) tasks: Tasks,
}

impl NodeWatch {
    /// Waits until it fires, or the session is over. A watch of the client crate panics if the crate's task ends before
    /// it, and this is awaited in the tasks of callers: so their end is looked for first, and a panic is an end too.
    pub(crate) async fn changed(self) {
        let Self { watcher, room, mut tasks } = self;
        tokio::select! {
            biased;
            () = tasks.over() => {}
            fired = caught(watcher.changed()) => drop(fired),
        }
        drop(room);
    }

    /// The same for a watch that there may be; for at most so long, as if it might be missed.
    pub(crate) async fn changed_within(watch: Option<Self>, longest: Duration) -> Result<()> {
        let changed = async {
            match watch {
                Some(watch) => watch.changed().await,
                // There was no room for one.
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
    /// The data of a number.
    pub(crate) fn encode(value: u32) -> Result<[u8; 4]> {
        let value = i32::try_from(value).map_err(|_| {
            Error::bad_argument("count", format_args!("is {value}, and must be at most {}", i32::MAX))
        })?;
        Ok(value.to_be_bytes())
    }

    /// The number, if the data is one: four bytes, the highest first, and not negative.
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
