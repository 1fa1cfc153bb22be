//! The queue of one lock, as commands show it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use zklock::internal::Escaped;
use zklock::{Client, Contender, ContenderInfo, Mutex, OwnerInfo, Semaphore};

use crate::failure::Failure;

/// What a contender does, as far as its queue tells.
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

/// Everybody in the queue of a lock, in its order; empty if it is free. A semaphore has its nodes one level deeper.
/// Persistent nodes that are named like contenders are here too: they keep everybody out.
pub(crate) async fn read(client: &Client, path: &str) -> Result<Vec<Place>, Failure> {
    Ok(find(client, path).await?.0)
}

/// The queue of a lock that may be a directory of other locks as well; and the persistent children that are named like
/// contenders, such as a lock directory that is named by an id. Empty unless an ephemeral node contends.
pub(crate) async fn read_directory(
    client: &Client,
    path: &str,
) -> Result<(Vec<Place>, Vec<String>), Failure> {
    let (mut places, directories) = find(client, path).await?;
    // They keep out only those behind them.
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
    // It asks nothing that depends on the number.
    let places = of_semaphore(path, Semaphore::new(client, path, 1)?.contenders().await?);
    Ok((if places.is_empty() { of_lock(contenders) } else { places }, directories))
}

/// The first one holds, and so do the readers behind it that no writer separates from it.
fn of_lock(contenders: Vec<Contender>) -> Vec<Place> {
    let mut readers = true;
    let place = |contender: Contender| {
        let holds = contender.position == 0 || (readers && contender.reader);
        readers &= contender.reader;
        Place { role: if holds { Role::Holds } else { Role::Waits }, contender }
    };
    contenders.into_iter().map(place).collect()
}

/// As many as there are permits hold. Where nobody says how many, a program's own setting does, and all that got so far
/// are taken to hold.
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
    /// Whether it goes with its session, as contenders do.
    pub(crate) fn is_ephemeral(&self) -> bool {
        self.contender.session_id != 0
    }

    /// Since when it contends, if it says so.
    pub(crate) fn since(&self) -> Option<SystemTime> {
        let since = Duration::from_millis(self.contender.about.as_ref()?.since);
        UNIX_EPOCH.checked_add(since)
    }

    /// Its label, if it says one.
    pub(crate) fn label(&self) -> Option<&String> {
        self.contender.about.as_ref()?.label.as_ref()
    }

    /// Who it is: label, process and host, as far as it says.
    pub(crate) fn who(&self) -> String {
        self.described(|_| String::new())
    }

    /// The same, with the owner inside the process.
    pub(crate) fn who_inside(&self) -> String {
        self.described(|owner| {
            let name = owner.name.as_ref().map_or_else(String::new, |name| format!(" {name}"));
            format!(", owner {}{name}", owner.number)
        })
    }

    /// For how many holds its node may be there, and for how long without one, if it says so.
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

    /// For programs. A token is text, for not all of them keep so large a number exactly.
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

/// The options by which several holds may follow each other on a node, such as `cohort 64` and `linger 1s`.
pub(crate) fn sharing(about: &ContenderInfo) -> Vec<String> {
    let cohort = about.cohort.map(|holds| format!("cohort {holds}"));
    let linger = about.linger.map(|time| format!("linger {}", humantime::format_duration(time)));
    cohort.into_iter().chain(linger).collect()
}

/// For how many milliseconds a node may be kept, for programs.
pub(crate) fn linger_ms(about: &ContenderInfo) -> Option<u64> {
    about.linger.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
}

/// How long ago that was, to the second.
pub(crate) fn age(since: Option<SystemTime>) -> String {
    since.map_or_else(
        || "-".to_owned(),
        |since| {
            // The other host's clock may be ahead of ours.
            let age = since.elapsed().unwrap_or_default();
            humantime::format_duration(Duration::from_secs(age.as_secs())).to_string()
        },
    )
}
