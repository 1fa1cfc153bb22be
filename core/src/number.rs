//! A number that several clients share, in the layout of Curator's `SharedCount`.

use zookeeper_client as zk;

use crate::room::Reserved;

/// What a node holds that should hold a number.
pub(crate) struct Number {
    pub(crate) data: Vec<u8>,
    /// Fires when the node changes or goes, if it was requested and there was room for it. It is set with the read, so no change falls between
    /// the two; after a reconnection the server compares it with the node; and it ends with the session.
    pub(crate) changed: Option<NumberWatch>,
}

/// A watch on a number.
pub(crate) struct NumberWatch {
    pub(crate) watcher: zk::OneshotWatcher,
    pub(crate) room: Reserved,
}

impl NumberWatch {
    /// Waits until it fires.
    pub(crate) async fn changed(self) {
        self.watcher.changed().await;
        drop(self.room);
    }
}

impl Number {
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
    fn a_number_is_four_bytes_and_not_negative() {
        let value = |data: &[u8]| Number { data: data.to_vec(), changed: None }.value();
        assert_eq!(value(&[0, 0, 1, 2]), Some(258));
        assert_eq!(value(&[0; 4]), Some(0));
        for bad in [&b""[..], b"3", b"\0\0\x03", b"\0\0\0\0\x03", b"\xff\xff\xff\xff"] {
            assert_eq!(value(bad), None, "{bad:?}");
        }
    }
}
