//! The commands in the form in which they arrive.

use std::path::PathBuf;

use serde::Deserialize;
use serde_json::Value;

#[derive(Deserialize)]
#[serde(tag = "cmd", rename_all = "lowercase")]
pub(crate) enum Command {
    Connect {
        client: String,
        hosts: Option<String>,
        #[serde(flatten)]
        options: Options,
    },
    Lock(LockObject),
    Client {
        lock: String,
        client: String,
    },
    Acquire {
        lock: String,
        lease: String,
        owner: String,
        timeout: Option<f64>,
        count: Option<u32>,
    },
    Try {
        lock: String,
        lease: String,
        owner: String,
        count: Option<u32>,
    },
    Release {
        lease: String,
        owner: Option<String>,
        wait: Option<bool>,
        timeout: Option<f64>,
    },
    Enter {
        lock: String,
        scope: String,
        owner: String,
        timeout: Option<f64>,
        connect_timeout: Option<f64>,
    },
    Leave {
        scope: String,
        owner: String,
    },
    Unlock,
    Owned {
        lock: String,
        owner: String,
    },
    Locked {
        lock: String,
    },
    Contenders {
        lock: String,
    },
    Shown {
        lock: String,
    },
    Log,
    Check {
        lease: String,
    },
    State {
        lease: String,
    },
    Cancel {
        target: Value,
    },
    Listen {
        lease: String,
    },
    Revoke {
        client: String,
        node: String,
    },
    Break {
        client: String,
        node: String,
    },
    Transact {
        lease: String,
        operations: Vec<Operation>,
    },
    Tell {
        address: String,
        text: String,
        owner: String,
    },
    Contend(Contend),
    Hold {
        client: String,
        path: String,
        first: usize,
        count: usize,
        owner: String,
    },
    Once(Once),
    Cycles {
        lock: String,
        owner: String,
        count: u64,
        wait: Option<bool>,
    },
    Get {
        client: String,
        node: String,
    },
    Count {
        client: String,
        node: String,
        count: u32,
    },
    Leads {
        lock: String,
    },
    Leader {
        lock: String,
    },
    Candidates {
        lock: String,
    },
    Observe {
        lock: String,
    },
    Stats {
        client: String,
    },
    Health {
        client: String,
    },
    Scrape,
    Close {
        client: String,
    },
    Threads,
    Exit,
}

/// The options of a client.
#[derive(Default, Deserialize)]
pub(crate) struct Options {
    pub(crate) session_timeout: Option<f64>,
    pub(crate) connect_timeout: Option<f64>,
    pub(crate) max_frame: Option<u32>,
    pub(crate) tls: Option<Tls>,
    /// True if environment variables set the other options.
    #[serde(default)]
    pub(crate) environment: bool,
    #[serde(flatten)]
    pub(crate) identity: Identity,
}

/// A client's credentials and labels, and the access control lists of its nodes.
#[derive(Default, Deserialize)]
pub(crate) struct Identity {
    /// Pairs of scheme and credential.
    #[serde(default)]
    pub(crate) auth: Vec<(String, String)>,
    pub(crate) acl: Option<String>,
    pub(crate) parent_acl: Option<String>,
    /// User and password.
    pub(crate) sasl: Option<(String, String)>,
    pub(crate) label: Option<String>,
    pub(crate) identify: Option<bool>,
}

/// Paths of PEM files.
#[derive(Deserialize)]
pub(crate) struct Tls {
    pub(crate) ca: PathBuf,
    pub(crate) cert: Option<PathBuf>,
    pub(crate) key: Option<PathBuf>,
}

/// One operation of a transaction.
#[derive(Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub(crate) enum Operation {
    Create { path: String, data: String },
    SetData { path: String, data: String, version: Option<i32> },
    Delete { path: String, version: Option<i32> },
    Check { path: String, version: i32 },
}

/// A lock object to create.
#[derive(Deserialize)]
#[serde(untagged)]
pub(crate) enum LockObject {
    /// A lock object of the kind `multi`.
    Several {
        lock: String,
        members: Vec<String>,
    },
    One(OneLock),
}

/// A single lock object.
#[derive(Deserialize)]
pub(crate) struct OneLock {
    pub(crate) lock: String,
    pub(crate) path: String,
    pub(crate) client: Option<String>,
    pub(crate) hosts: Option<String>,
    /// Options of the client, for a lock on `hosts`.
    #[serde(default)]
    pub(crate) options: Box<Options>,
    #[serde(default)]
    pub(crate) kind: Kind,
    pub(crate) reentrant: Option<bool>,
    pub(crate) label: Option<String>,
    #[serde(default)]
    pub(crate) naming: Naming,
    pub(crate) permits: Option<u32>,
    pub(crate) shared_count: Option<String>,
    pub(crate) max_hold: Option<f64>,
    pub(crate) max_waiters: Option<u32>,
    pub(crate) cohort: Option<u32>,
    pub(crate) linger: Option<f64>,
    /// Id of a candidate in an election.
    pub(crate) candidate: Option<String>,
}

/// The kind of a lock object, or the half of a read/write lock.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    #[default]
    Mutex,
    Read,
    Write,
    Semaphore,
    Election,
}

/// How a lock names its nodes.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Naming {
    #[default]
    Curator,
    Kazoo,
}

impl From<Naming> for zklock::Naming {
    fn from(naming: Naming) -> Self {
        match naming {
            Naming::Curator => Self::Curator,
            Naming::Kazoo => Self::Kazoo,
        }
    }
}

#[derive(Deserialize)]
pub(crate) struct Contend {
    pub(crate) client: Option<String>,
    pub(crate) hosts: Option<String>,
    #[serde(default)]
    pub(crate) kind: Kind,
    pub(crate) permits: Option<u32>,
    pub(crate) cohort: Option<u32>,
    pub(crate) path: String,
    pub(crate) owners: usize,
    pub(crate) objects: Objects,
    pub(crate) rounds: usize,
    pub(crate) hold_ms: [f64; 2],
}

/// Whether each contender has its own lock object, or all share one.
#[derive(Clone, Copy, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Objects {
    Each,
    Shared,
}

/// A body that runs once per slot.
#[derive(Deserialize)]
pub(crate) struct Once {
    pub(crate) client: String,
    pub(crate) path: String,
    pub(crate) owner: String,
    #[serde(flatten)]
    pub(crate) slot: SlotOf,
    pub(crate) hold_ms: [f64; 2],
}

/// The slot to run: the slot with this key, or the current period of this length in seconds.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum SlotOf {
    Key(String),
    Period(f64),
}
