//! The record of a lock's last slot, in a persistent node next to the lock directory.

use serde_json::{Value, json};

use super::once_slot::{CurrentSlot, NumberedPeriod};
use crate::client::Client;
use crate::config::lock_path::{LockPath, RECORD_SUFFIX};
use crate::driver::mailbox::{NodeAction, Query};
use crate::error::timestamp::Date;
use crate::error::{Error, ErrorKind, Result};
use crate::runtime::clock;
use crate::system::host_name;

/// Version of the format. Later formats can add fields, which this version ignores.
const FORMAT: u64 = 1;

/// The last recorded slot of a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OnceRecord {
    /// The slot's key, or the number of its period.
    pub slot: String,
    /// The period, if the slot is a period.
    pub period: Option<NumberedPeriod>,
    /// Time at which the slot was recorded, by the clock of the process that recorded it. The
    /// format is RFC 3339, in UTC. Empty if the record contains no time.
    pub at: String,
    /// The process that recorded the slot. `None` if its client does not identify itself.
    pub by: Option<RecordedBy>,
    /// Fencing token of the lease under which the slot was recorded.
    pub fencing_token: i64,
}

/// The process that recorded a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecordedBy {
    /// The host name.
    pub host: String,
    /// The process id.
    pub pid: u32,
    /// The label that the program chose.
    pub label: Option<String>,
}

impl RecordedBy {
    /// Describes this process.
    pub(super) fn this_process(label: Option<&str>) -> Self {
        Self { host: host_name(), pid: std::process::id(), label: label.map(str::to_owned) }
    }
}

impl OnceRecord {
    /// Creates a record of a slot at the current time.
    pub(super) fn new(slot: &CurrentSlot, by: Option<RecordedBy>, fencing_token: i64) -> Self {
        let at = clock::since_1970().as_millis().try_into().unwrap_or(u64::MAX);
        let CurrentSlot { name, period } = slot.clone();
        Self { slot: name, period, at: Date(at).to_string(), by, fencing_token }
    }

    /// Returns `true` if the body must not run for this slot, because the record contains the same
    /// slot or a later period of the same length.
    pub(super) fn covers(&self, slot: &CurrentSlot) -> bool {
        match (self.period, slot.period) {
            (None, None) => self.slot == slot.name,
            (Some(recorded), Some(now)) => recorded.millis == now.millis && recorded.number >= now.number,
            _ => false,
        }
    }

    /// Returns the data of the node.
    pub(super) fn encode(&self) -> Vec<u8> {
        let Self { slot, period, at, by, fencing_token } = self;
        let mut data = json!({ "v": FORMAT, "slot": slot, "at": at, "token": fencing_token.to_string() });
        if let Some(RecordedBy { host, pid, label }) = by {
            data["by"] = json!({ "host": host, "pid": pid, "label": label });
        }
        if let Some(NumberedPeriod { millis, number }) = period {
            data["per"] = (*millis).into();
            data["n"] = (*number).into();
        }
        data.to_string().into()
    }

    /// Parses a node's data. Returns `None` if it is not a record.
    pub(super) fn parse(data: &[u8]) -> Option<Self> {
        let data: Value = serde_json::from_slice(data).ok()?;
        if data.get("v")?.as_u64()? != FORMAT {
            return None;
        }
        let period = match (data.get("per"), data.get("n")) {
            (None, None) => None,
            (per, n) => Some(NumberedPeriod { millis: per?.as_u64()?, number: n?.as_u64()? }),
        };
        let by = data.get("by").and_then(|by| {
            Some(RecordedBy {
                host: by.get("host")?.as_str()?.to_owned(),
                pid: by.get("pid")?.as_u64()?.try_into().ok()?,
                label: by.get("label").and_then(Value::as_str).map(str::to_owned),
            })
        });
        Some(Self {
            slot: data.get("slot")?.as_str()?.to_owned(),
            period,
            at: data.get("at").and_then(Value::as_str).unwrap_or_default().to_owned(),
            by,
            fencing_token: data.get("token")?.as_str()?.parse().ok()?,
        })
    }
}

/// Returns the path of the node that records the slots of the lock at `path`.
#[must_use]
pub fn record_node(path: &str) -> String {
    format!("{path}{RECORD_SUFFIX}")
}

/// A record that was read, with the version of its node.
#[derive(Clone, Debug)]
pub(super) struct VersionedRecord {
    pub(super) record: OnceRecord,
    pub(super) version: i32,
}

/// Reads the record in a node. Returns `None` if the node does not exist.
pub(super) async fn read_node(client: &Client, node: &str) -> Result<Option<VersionedRecord>> {
    let Some(found) = client.get(node).await? else { return Ok(None) };
    let Some(record) = OnceRecord::parse(&found.data) else {
        let problem = format!(
            "the node {node:?} contains no record of slots that this version can read; check which program wrote \
             it, and delete it or use another lock path"
        );
        return Err(Error::bad_argument("path", problem));
    };
    Ok(Some(VersionedRecord { record, version: found.version }))
}

/// Reads the record of the lock at `path`. Returns `None` if no slot was recorded.
///
/// `path` is an absolute path relative to the client's chroot. Sends one request. The result can be
/// out of date, because the server can lag behind other servers.
///
/// Cancel safe: dropping the future has no side effect.
///
/// # Errors
/// The errors of [`Client::get`], and [`BadArgument`](ErrorKind::BadArgument) if the node is not a
/// record.
pub async fn read(client: &Client, path: &str) -> Result<Option<OnceRecord>> {
    LockPath::new(&client.address().chroot, path, "")?;
    Ok(read_node(client, &record_node(path)).await?.map(|found| found.record))
}

/// Deletes the record of the lock at `path`, so that its last slot can run again. Returns `true` if
/// there was a record.
///
/// Not cancel safe: if the future is dropped, the record might or might not be deleted.
///
/// # Errors
/// * [`BadArgument`](ErrorKind::BadArgument) for a malformed path.
/// * [`AuthFailed`](ErrorKind::AuthFailed) if the client has no permission to delete the record.
/// * [`ConnectionFailed`](ErrorKind::ConnectionFailed) if no reply arrives.
/// * The errors of [`Client::ready`].
pub async fn forget(client: &Client, path: &str) -> Result<bool> {
    LockPath::new(&client.address().chroot, path, "")?;
    let node = client.full(&record_node(path))?;
    match client.ask(|reply| Query::ActOnNode { node, action: NodeAction::Break, reply }).await {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotHeld => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn period(millis: u64, number: u64) -> CurrentSlot {
        CurrentSlot { name: number.to_string(), period: Some(NumberedPeriod { millis, number }) }
    }

    fn key(key: &str) -> CurrentSlot {
        CurrentSlot { name: key.to_owned(), period: None }
    }

    #[test]
    fn what_is_encoded_is_parsed() {
        let by = RecordedBy { host: "h".into(), pid: 7, label: Some("\"l\"\n".into()) };
        for (slot, by) in [(key("a \"b\"\\ü🔒"), Some(by)), (period(3_600_000, 9), None)] {
            let record = OnceRecord::new(&slot, by, i64::MAX);
            let text = String::from_utf8(record.encode()).unwrap();
            assert!(text.contains(r#""token":"9223372036854775807""#) && text.contains(r#""v":1"#), "{text}");
            assert_eq!(OnceRecord::parse(text.as_bytes()), Some(record));
        }
    }

    #[test]
    fn later_versions_may_add_fields() {
        let data = br#"{"v":1,"slot":"a","token":"5","at":7,"by":{"host":"h"},"later":{}}"#;
        let record = OnceRecord::parse(data).unwrap();
        assert_eq!((record.slot.as_str(), record.fencing_token, record.by), ("a", 5, None));
        assert_eq!(record.at, "", "it is only for people to read");
    }

    #[test]
    fn a_period_covers_the_ones_before_it_and_a_key_itself() {
        let covers =
            |recorded: &CurrentSlot, slot: &CurrentSlot| OnceRecord::new(recorded, None, 1).covers(slot);
        let now = period(1000, 5);
        assert!(covers(&now, &now) && covers(&period(1000, 6), &now));
        assert!(!covers(&period(1000, 4), &now) && !covers(&period(2000, 6), &now));
        assert!(covers(&key("a"), &key("a")) && !covers(&key("b"), &key("a")));
        assert!(!covers(&now, &key("5")) && !covers(&key("5"), &now));
    }
}
