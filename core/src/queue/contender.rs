//! The contenders for a lock, for operators.

use std::ffi::CStr;
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
    /// Its place, from 0. The first holds; so do the readers behind it that no writer separates from it.
    pub position: usize,
    /// The full path of its node, below the client's chroot, as in [`Lease::node`](crate::Lease::node):
    /// [`Client::revoke`](crate::Client::revoke) and [`Client::break_lock`](crate::Client::break_lock) take it.
    pub node: String,
    /// Whether it wants to hold with other readers, or alone.
    pub reader: bool,
    /// The ZooKeeper session that owns the node.
    pub session_id: i64,
    /// The zxid that created its node: the fencing token of its lease, now or when it is granted. Except after a
    /// downgrade: the reader has a node of its own, but its lease keeps the writer's token.
    pub fencing_token: i64,
    /// Its own description, if it is one of zklock's.
    pub about: Option<ContenderInfo>,
    /// The node's data, unchanged; empty if it was not read, because it is longer than 4 KiB or may not be read. Nor is
    /// any more once 16 MiB were read for one list.
    pub data: Vec<u8>,
    /// How many bytes of data the node has, read or not.
    pub data_length: usize,
    /// For a semaphore whose number of permits is fixed: that number.
    pub(crate) permits: Option<u32>,
}

/// How zklock's contenders describe themselves.
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
    /// The name of the host.
    pub host: String,
    /// The process.
    pub pid: u32,
    /// The language of the program.
    pub language: String,
    /// The name that the program gave itself.
    pub label: Option<String>,
    /// When it began to contend: milliseconds since 1970.
    pub since: u64,
    /// The owner inside the client: a thread, a task, a scope, or an [`Owner`](crate::Owner) of a Rust program.
    pub owner: Option<OwnerInfo>,
    /// For a semaphore whose number of permits is fixed: that number.
    pub permits: Option<u32>,
    /// Whether it was asked to give up the lock while it held it, and has been told.
    pub revoked: bool,
    /// How many holds of its client may follow each other on the node before the queue gets its turn: see
    /// [`LockOptions::cohort`](crate::LockOptions::cohort). Its waiters without nodes are in no list. `None` without that
    /// option.
    pub cohort: Option<u32>,
    /// For how long its client may keep the node after a release: see
    /// [`LockOptions::linger`](crate::LockOptions::linger). The node does not tell whether somebody holds through it now.
    /// `None` without that option.
    pub linger: Option<Duration>,
}

/// How one of zklock's contenders describes its owner.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct OwnerInfo {
    /// Its number, which no other owner of its process has, or had before it.
    pub number: u64,
    /// Its name, if it has one: the beginning, if it is long.
    pub name: Option<String>,
    /// A number that tells processes apart if they have the same host name and the same process id, as in containers.
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

    /// As it was seen on another occasion.
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

    /// Its snapshot.
    pub(crate) fn snapshot(&self) -> NodeSnapshot {
        let Self { session_id: owner, fencing_token: czxid, data, data_length, .. } = self;
        NodeSnapshot { owner: *owner, czxid: *czxid, data: data.as_slice().into(), data_length: *data_length }
    }

    /// With its node's full path in place of the name, for whoever is told of it. The driver knows nodes by their names.
    pub(crate) fn within(mut self, directory: &str) -> Self {
        self.node = format!("{directory}/{}", self.node);
        self
    }
}

/// What is seen of a contender, as it is: not read yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeSnapshot {
    /// The session that owns its node.
    pub(crate) owner: i64,
    /// The transaction that created it.
    pub(crate) czxid: i64,
    /// Its data, if that is known.
    pub(crate) data: Box<[u8]>,
    /// How many bytes of data there are.
    pub(crate) data_length: usize,
}

impl NodeSnapshot {
    /// As the server tells it.
    pub(crate) fn new(stat: &zookeeper_client::Stat, data: Option<Vec<u8>>) -> Self {
        let data = data.unwrap_or_default().into();
        Self { owner: stat.ephemeral_owner, czxid: stat.czxid, data, data_length: data_length(stat) }
    }
}

impl ContenderInfo {
    /// What a node's data says, if it is in our form: others write addresses, names, or nothing.
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

    /// The data of a node of ours, and that its owner was asked to give up the lock; `None` if the data is no object.
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

/// How many bytes of data a node has. A server may claim anything.
pub(crate) fn data_length(stat: &zookeeper_client::Stat) -> usize {
    usize::try_from(stat.data_length).unwrap_or_default()
}

/// The name of this host; empty if the system does not tell.
pub(crate) fn host_name() -> String {
    // SAFETY: zeros are a value of this structure, which is ours; the call fills it with strings that end in a zero.
    unsafe {
        let mut names: libc::utsname = std::mem::zeroed();
        libc::uname(&raw mut names);
        CStr::from_ptr(names.nodename.as_ptr()).to_string_lossy().into_owned()
    }
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
            // Other programs may write anything.
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
