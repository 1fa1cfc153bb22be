//! The contenders for a lock, as reported to operators.

use std::time::Duration;

use serde_json::Value;

use crate::queue::{Kind, NodeName};

/// One contender in a lock's queue.
///
/// ```no_run
/// # async fn example(client: &zklock::Client) -> zklock::Result<()> {
/// let lock = zklock::Mutex::new(client, "/locks/report")?;
/// for contender in lock.contenders().await? {
///     println!("{}: {}", contender.position, contender.node);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Contender {
    /// The contender's position in the queue, from 0. The contender at position 0 holds the lock.
    /// Readers behind it also hold it if no writer is between them.
    pub position: usize,
    /// The full path of the contender's node, below the client's chroot, as in
    /// [`Lease::node`](crate::Lease::node). [`Client::revoke`](crate::Client::revoke) and
    /// [`Client::break_lock`](crate::Client::break_lock) accept this path.
    pub node: String,
    /// `true` for a reader, which can hold the lock together with other readers. `false` for a
    /// contender that holds the lock alone.
    pub reader: bool,
    /// The ZooKeeper session that owns the node.
    pub session_id: i64,
    /// The zxid of the transaction that created the node. When the lock is granted, this is the
    /// fencing token of the contender's lease. The exception is a writer's owner that continues as
    /// a reader (a downgrade): the reader has a separate node, but its lease keeps the writer's
    /// token.
    pub fencing_token: i64,
    /// The contender's description of itself. `None` if it is not a zklock contender, or did not
    /// describe itself.
    pub about: Option<ContenderInfo>,
    /// The node's data, unchanged. Empty if the data was not read. This happens if the data is
    /// longer than 4 KiB, if reading it is forbidden, or if 16 MiB were already read for the same
    /// list.
    pub data: Vec<u8>,
    /// Length of the node's data in bytes, even if the data was not read.
    pub data_length: usize,
    /// The number of permits, for a semaphore with a fixed number.
    pub(crate) permits: Option<u32>,
}

/// The description that a zklock contender writes about itself to its node.
///
/// ```no_run
/// # async fn example(client: &zklock::Client) -> zklock::Result<()> {
/// let lock = zklock::Mutex::new(client, "/locks/report")?;
/// for about in lock.contenders().await?.iter().filter_map(|contender| contender.about.as_ref()) {
///     println!("{} in process {} on {}", about.language, about.pid, about.host);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ContenderInfo {
    /// The host name.
    pub host: String,
    /// The process id.
    pub pid: u32,
    /// The programming language of the program.
    pub language: String,
    /// The label that the program chose.
    pub label: Option<String>,
    /// The time at which the contender joined the queue, in milliseconds since 1970.
    pub since: u64,
    /// The owner inside the client: a thread, a task, a scope, or an [`Owner`](crate::Owner) of a
    /// Rust program.
    pub owner: Option<OwnerInfo>,
    /// The number of permits, for a semaphore with a fixed number.
    pub permits: Option<u32>,
    /// `true` if another client has asked the contender to release the lock, and the contender
    /// received that request while it held the lock.
    pub revoked: bool,
    /// Maximum number of consecutive holds of this client on the node. After that, the next client
    /// in the queue receives the lock. `None` without the option
    /// [`LockOptions::cohort`](crate::LockOptions::cohort). With that option, the client can have
    /// further waiters, which have no nodes and are not listed.
    pub cohort: Option<u32>,
    /// Time for which the client can keep the node after a release. `None` without the option
    /// [`LockOptions::linger`](crate::LockOptions::linger). The node does not show whether the lock
    /// is held now or the node is only kept.
    pub linger: Option<Duration>,
}

/// The owner in the description of a zklock contender.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct OwnerInfo {
    /// The owner's number. No other owner of the same process ever has the same number.
    pub number: u64,
    /// The owner's name, if it has one. A long name is truncated.
    pub name: Option<String>,
    /// A number that distinguishes processes with the same host name and process id, which occur in
    /// containers.
    pub process: u64,
}

impl Contender {
    pub(crate) fn new(
        position: usize,
        name: &NodeName,
        stat: &zookeeper_client::Stat,
        data: Option<Vec<u8>>,
    ) -> Self {
        Self::seen(position, name, &NodeSnapshot::new(stat, data))
    }

    /// Creates a contender from a snapshot that was read earlier.
    pub(crate) fn seen(position: usize, name: &NodeName, snapshot: &NodeSnapshot) -> Self {
        let NodeSnapshot { owner, czxid, data, data_length } = snapshot;
        let json = serde_json::from_slice(data).ok();
        Self {
            position,
            node: name.as_str().to_owned(),
            reader: name.kind() == Kind::Read,
            session_id: *owner,
            fencing_token: *czxid,
            about: json.as_ref().and_then(ContenderInfo::parse),
            permits: json.as_ref().and_then(stated_permits),
            data: data.to_vec(),
            data_length: *data_length,
        }
    }

    /// Returns a snapshot of the contender.
    pub(crate) fn snapshot(&self) -> NodeSnapshot {
        let Self { session_id: owner, fencing_token: czxid, data, data_length, .. } = self;
        NodeSnapshot { owner: *owner, czxid: *czxid, data: data.as_slice().into(), data_length: *data_length }
    }

    /// Replaces the node's name with its full path, which applications use. The driver itself uses
    /// only the name.
    pub(crate) fn within(mut self, directory: &str) -> Self {
        self.node = format!("{directory}/{}", self.node);
        self
    }
}

/// The raw data of a contender's node, not yet parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeSnapshot {
    /// The session that owns the node.
    pub(crate) owner: i64,
    /// The zxid that created the node.
    pub(crate) czxid: i64,
    /// The node's data, or empty if it was not read.
    pub(crate) data: Box<[u8]>,
    /// Number of bytes of data that the node has.
    pub(crate) data_length: usize,
}

impl NodeSnapshot {
    /// Creates a snapshot from a server's reply.
    pub(crate) fn new(stat: &zookeeper_client::Stat, data: Option<Vec<u8>>) -> Self {
        let data = data.unwrap_or_default().into();
        Self { owner: stat.ephemeral_owner, czxid: stat.czxid, data, data_length: data_length(stat) }
    }
}

impl ContenderInfo {
    /// Parses a node's data. Returns `None` if the data does not have zklock's format, because
    /// other libraries write addresses or names, or no data.
    pub(crate) fn parse(data: &Value) -> Option<Self> {
        Some(Self {
            host: data.get("host")?.as_str()?.to_owned(),
            pid: data.get("pid")?.as_u64()?.try_into().ok()?,
            language: data.get("language")?.as_str()?.to_owned(),
            label: data.get("label")?.as_str().map(str::to_owned),
            since: data.get("since")?.as_u64()?,
            owner: data.get("owner").and_then(OwnerInfo::parse),
            permits: stated_permits(data),
            revoked: data.get("revoked").and_then(Value::as_bool).unwrap_or_default(),
            cohort: data.get("cohort").and_then(Value::as_u64).and_then(|holds| holds.try_into().ok()),
            linger: data.get("linger").and_then(Value::as_u64).map(Duration::from_millis),
        })
    }

    /// Adds a note to a node's data that another client has asked the holder to release the lock.
    /// Returns `None` if the data is not a JSON object.
    pub(crate) fn revoked_data(data: &[u8]) -> Option<Vec<u8>> {
        let mut data: Value = serde_json::from_slice(data).ok()?;
        data.as_object_mut()?.insert("revoked".to_owned(), true.into());
        serde_json::to_vec(&data).ok()
    }
}

impl OwnerInfo {
    fn parse(data: &Value) -> Option<Self> {
        Some(Self {
            number: data.get("number")?.as_u64()?,
            name: data.get("name").and_then(Value::as_str).map(str::to_owned),
            process: data.get("process")?.as_u64()?,
        })
    }
}

pub(crate) fn stated_permits(data: &Value) -> Option<u32> {
    data.get("permits")?.as_u64()?.try_into().ok()
}

/// Returns the length of a node's data in bytes. A negative number from the server counts as 0.
pub(crate) fn data_length(stat: &zookeeper_client::Stat) -> usize {
    usize::try_from(stat.data_length).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(data: &[u8]) -> Option<ContenderInfo> {
        ContenderInfo::parse(&serde_json::from_slice(data).ok()?)
    }

    #[test]
    fn only_what_ours_write_is_understood() {
        let ours = br#"{"host":"h","pid":7,"language":"rust","label":null,"since":1}"#;
        let about = ContenderInfo {
            host: "h".into(),
            pid: 7,
            language: "rust".into(),
            label: None,
            since: 1,
            owner: None,
            permits: None,
            revoked: false,
            cohort: None,
            linger: None,
        };
        let revoked = ContenderInfo::revoked_data(ours).expect("an object");
        assert_eq!(parse(&revoked), Some(ContenderInfo { revoked: true, ..about.clone() }));
        assert_eq!(ContenderInfo::revoked_data(b""), None);
        assert_eq!(parse(ours), Some(about.clone()));
        let semaphore = br#"{"host":"h","pid":7,"language":"rust","label":null,"since":1,"permits":3}"#;
        assert_eq!(parse(semaphore), Some(ContenderInfo { permits: Some(3), ..about }));
        let told = br#"{"host":"h","pid":7,"language":"rust","label":null,"since":1,"owner":{"number":3,"process":31}}"#;
        let owner = OwnerInfo { number: 3, name: None, process: 31 };
        assert_eq!(parse(told).and_then(|about| about.owner), Some(owner));
        for (said, cohort, linger) in [
            (r#""cohort":64"#, Some(64), None),
            (r#""linger":1500"#, None, Some(Duration::from_millis(1500))),
            (r#""cohort":2,"linger":1"#, Some(2), Some(Duration::from_millis(1))),
            // Other programs might write any value.
            (r#""cohort":-1,"linger":"1 s""#, None, None),
            (r#""cohort":4294967296,"linger":1.5"#, None, None),
        ] {
            let told = format!(r#"{{"host":"h","pid":7,"language":"rust","label":null,{said},"since":1}}"#);
            let about = parse(told.as_bytes()).expect("in our form");
            assert_eq!((about.cohort, about.linger), (cohort, linger), "{said}");
        }
        for other in [&b""[..], b"10.0.0.1", b"{}", b"\xff", br#"{"host":1}"#, b"[1]"] {
            assert_eq!(parse(other), None);
        }
    }
}
