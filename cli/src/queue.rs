//! Reads the queue of one lock for display.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use zklock::internal::Escaped;
use zklock::{Client, Contender, ContenderInfo, Mutex, OwnerInfo, Semaphore};

use crate::failure::Failure;

/// The role of a contender, as far as the queue shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Holds,
    Waits,
}

impl Role {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::Waits => "waits",
        }
    }
}

/// One contender.
pub(crate) struct Place {
    pub(crate) role: Role,
    pub(crate) contender: Contender,
}

/// Returns all contenders of a lock in queue order, or none if the lock is free. For a semaphore,
/// reads the nodes in the subdirectories `leases` and `locks`. The result includes persistent nodes
/// with names of contenders, because they block all waiters.
pub(crate) async fn read(client: &Client, path: &str) -> Result<Vec<Place>, Failure> {
    Ok(find(client, path).await?.0)
}

/// Returns the queue of a lock whose directory can also contain other locks. Also returns the
/// persistent children with names of contenders, because each can be the directory of a lock whose
/// name ends in digits. The queue ends with the last ephemeral node, because persistent nodes block
/// only the contenders behind them.
pub(crate) async fn read_directory(
    client: &Client,
    path: &str,
) -> Result<(Vec<Place>, Vec<String>), Failure> {
    let (mut places, directories) = find(client, path).await?;
    while places.last().is_some_and(|place| !place.is_ephemeral()) {
        places.pop();
    }
    Ok((places, directories))
}

async fn find(client: &Client, path: &str) -> Result<(Vec<Place>, Vec<String>), Failure> {
    let contenders = Mutex::new(client, path)?.contenders().await?;
    let persistent = contenders.iter().filter(|contender| contender.session_id == 0);
    let directories: Vec<_> = persistent.map(|contender| contender.node.clone()).collect();
    if directories.len() < contenders.len() {
        return Ok((of_lock(contenders), directories));
    }
    // No request depends on the number.
    let places = of_semaphore(path, Semaphore::new(client, path, 1)?.contenders().await?);
    Ok((if places.is_empty() { of_lock(contenders) } else { places }, directories))
}

/// Determines the holders in the queue of a mutex or a read/write lock: the first contender and, if
/// it is a reader, all readers directly behind it.
fn of_lock(contenders: Vec<Contender>) -> Vec<Place> {
    let mut readers = true;
    let place = |contender: Contender| {
        let holds = contender.position == 0 || (readers && contender.reader);
        readers &= contender.reader;
        Place { role: if holds { Role::Holds } else { Role::Waits }, contender }
    };
    contenders.into_iter().map(place).collect()
}

/// Determines the holders of a semaphore's permits. If the data of a contender states the number of
/// permits N, the first N nodes in `leases` are holders. Otherwise N is unknown, and all nodes in
/// `leases` count as holders.
fn of_semaphore(path: &str, contenders: Vec<Contender>) -> Vec<Place> {
    let leases = format!("{path}/leases/");
    let permits = contenders.iter().find_map(|contender| contender.about.as_ref()?.permits);
    let permits = permits.map_or(usize::MAX, |permits| permits as usize);
    let place = |contender: Contender| {
        let holds = contender.node.starts_with(&leases) && contender.position < permits;
        Place { role: if holds { Role::Holds } else { Role::Waits }, contender }
    };
    contenders.into_iter().map(place).collect()
}

impl Place {
    /// Whether the node is ephemeral, as contenders are.
    pub(crate) fn is_ephemeral(&self) -> bool {
        self.contender.session_id != 0
    }

    /// Returns when the contender joined the queue, if its data says so.
    pub(crate) fn since(&self) -> Option<SystemTime> {
        let since = Duration::from_millis(self.contender.about.as_ref()?.since);
        UNIX_EPOCH.checked_add(since)
    }

    /// Returns the contender's label, if it has one.
    pub(crate) fn label(&self) -> Option<&String> {
        self.contender.about.as_ref()?.label.as_ref()
    }

    /// Describes the contender: label, process and host, as far as known.
    pub(crate) fn who(&self) -> String {
        self.described(|_| String::new())
    }

    /// Describes the contender with the owner inside its process.
    pub(crate) fn who_inside(&self) -> String {
        self.described(|owner| {
            let name = owner.name.as_ref().map_or_else(String::new, |name| format!(" {name}"));
            format!(", owner {}{name}", owner.number)
        })
    }

    /// Describes the contender's options `cohort` and `linger`, if its data states them.
    pub(crate) fn sharing(&self) -> Vec<String> {
        self.contender.about.as_ref().map(sharing).unwrap_or_default()
    }

    fn described(&self, owner: impl FnOnce(&OwnerInfo) -> String) -> String {
        let Some(about) = &self.contender.about else {
            let data = String::from_utf8_lossy(&self.contender.data);
            return if data.is_empty() { "-".to_owned() } else { Escaped(&data).to_string() };
        };
        let label = about.label.as_deref().unwrap_or(&about.language);
        let owner = about.owner.as_ref().map_or_else(String::new, owner);
        Escaped(&format!("{label} ({}, process {}{owner})", about.host, about.pid)).to_string()
    }

    /// Returns the contender as JSON. The token is text, because not every program can represent
    /// such a large number exactly.
    pub(crate) fn to_json(&self, path: &str) -> Value {
        let Contender { position, node, reader, session_id, fencing_token, about, data, .. } =
            &self.contender;
        json!({
            "path": path,
            "position": position,
            "state": self.role.as_str(),
            "reader": reader,
            "node": node,
            "session": format!("{session_id:#x}"),
            "token": fencing_token.to_string(),
            "host": about.as_ref().map(|about| &about.host),
            "pid": about.as_ref().map(|about| about.pid),
            "language": about.as_ref().map(|about| &about.language),
            "label": about.as_ref().and_then(|about| about.label.as_ref()),
            "owner": about.as_ref().and_then(|about| about.owner.as_ref()).map(|owner| json!({
                "number": owner.number,
                "name": owner.name,
                "process": owner.process,
            })),
            "since": about.as_ref().map(|about| about.since),
            "cohort": about.as_ref().and_then(|about| about.cohort),
            "linger_ms": about.as_ref().and_then(linger_ms),
            "data": about.is_none().then(|| String::from_utf8_lossy(data)),
        })
    }
}

/// Describes the options that let several consecutive holds use a node, such as `cohort 64` and
/// `linger 1s`.
pub(crate) fn sharing(about: &ContenderInfo) -> Vec<String> {
    let cohort = about.cohort.map(|holds| format!("cohort {holds}"));
    let linger = about.linger.map(|time| format!("linger {}", humantime::format_duration(time)));
    cohort.into_iter().chain(linger).collect()
}

/// Returns the contender's `linger` option in milliseconds, for JSON output: the time for which its
/// client can keep the node after a release.
pub(crate) fn linger_ms(about: &ContenderInfo) -> Option<u64> {
    about.linger.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
}

/// Returns the age in whole seconds.
pub(crate) fn age(since: Option<SystemTime>) -> String {
    since.map_or_else(
        || "-".to_owned(),
        |since| {
            // The other host's clock may be ahead.
            let age = since.elapsed().unwrap_or_default();
            humantime::format_duration(Duration::from_secs(age.as_secs())).to_string()
        },
    )
}
