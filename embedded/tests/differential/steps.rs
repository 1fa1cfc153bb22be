//! The steps of the sessions, and their encoding as requests.

use crate::messages::Record;
use crate::replies::Shape;

pub(crate) const SESSIONS: usize = 3;

#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// Sends a request. If `wait` is false, the session can send its next request before it reads
    /// the reply.
    Say { session: usize, op: Op, wait: bool },
    /// Closes the connection. The session continues.
    Abandon { session: usize },
    /// Resumes the session on a second connection, with the right or a wrong password, while the
    /// first one is open.
    Resume { session: usize, right: bool, knows_read_only: bool },
    /// Connects with a zxid that does not exist yet.
    FromTheFuture { session: usize },
    /// Lets the session expire.
    LetExpire { session: usize },
}

/// A path below the sequence's directory, or an exact path.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Path {
    Below(&'static str),
    Exactly(&'static str),
}

/// The paths that a sequence works on.
#[derive(Default)]
pub(crate) struct Place {
    pub(crate) directory: String,
    /// The path that steps use for the root: `/`, or `directory` while the test shortens a failing
    /// sequence. After the failure, the two servers would report different values for `/`.
    pub(crate) root: String,
}

impl Path {
    pub(crate) fn within(self, place: &Place) -> String {
        match self {
            Path::Below(name) => format!("{}{name}", place.directory),
            Path::Exactly("/") => place.root.clone(),
            Path::Exactly(path) => path.to_owned(),
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Op {
    /// Creates a node with operation number `by`: 1, 15, 19 or 21. Only operation 21 sends the
    /// `ttl`.
    Create {
        by: i32,
        path: Path,
        data: Data,
        acl: Acl,
        flags: i32,
        ttl: i64,
    },
    Delete {
        path: Path,
        version: i32,
    },
    DeleteContainer {
        path: Path,
    },
    SetData {
        path: Path,
        data: Data,
        version: i32,
    },
    SetAcl {
        path: Path,
        acl: Acl,
        version: i32,
    },
    Check {
        path: Path,
        version: i32,
    },
    Exists {
        path: Path,
        watch: bool,
    },
    GetData {
        path: Path,
        watch: bool,
    },
    GetChildren {
        path: Path,
        watch: bool,
    },
    GetChildren2 {
        path: Path,
        watch: bool,
    },
    GetAcl {
        path: Path,
    },
    GetEphemerals {
        prefix: Path,
    },
    GetAllChildrenNumber {
        path: Path,
    },
    WhoAmI,
    Sync {
        path: Path,
    },
    Ping,
    Multi(Vec<Op>),
    MultiRead(Vec<Op>),
    /// Sets watches. The last seen zxid is `ago` transactions old.
    SetWatches {
        ago: i64,
        lists: [Vec<Path>; 3],
    },
    SetWatches2 {
        ago: i64,
        lists: [Vec<Path>; 5],
    },
    AddWatch {
        path: Path,
        mode: i32,
    },
    CheckWatches {
        path: Path,
        kind: i32,
    },
    RemoveWatches {
        path: Path,
        kind: i32,
    },
    Auth {
        scheme: &'static str,
        proof: &'static str,
    },
    Reconfig,
    CloseSession,
    Unknown(i32),
    /// An operation with a record that ends `by` bytes early.
    Cut {
        op: Box<Op>,
        by: usize,
    },
}

pub(crate) type Data = Option<&'static [u8]>;

/// The permission bits, scheme and id of each entry, or `None` for a null list.
pub(crate) type Acl = Option<&'static [(i32, &'static str, &'static str)]>;

impl Op {
    /// Returns `true` if another request can be sent before the reply arrives. It is `false` if the
    /// server may close the connection.
    pub(crate) fn can_be_followed(&self) -> bool {
        !self.overtakes() && !matches!(self, Op::CloseSession | Op::Cut { .. })
    }

    /// Returns `true` if the real server can reply to the operation before it replies to earlier
    /// requests.
    pub(crate) fn overtakes(&self) -> bool {
        match self {
            Op::Cut { op, .. } => op.overtakes(),
            op => matches!(op, Op::Auth { .. } | Op::Check { .. } | Op::Unknown(_)),
        }
    }

    /// Returns the operation's number and the shape of its reply.
    pub(crate) fn kind(&self) -> (i32, Shape) {
        match self {
            Op::Create { by: 1, .. } => (1, Shape::Path),
            Op::Create { by, .. } => (*by, Shape::PathStat),
            Op::Delete { .. } => (2, Shape::Nothing),
            Op::DeleteContainer { .. } => (20, Shape::Nothing),
            Op::SetData { .. } => (5, Shape::Stat),
            Op::SetAcl { .. } => (7, Shape::Stat),
            Op::Check { .. } => (13, Shape::Nothing),
            Op::Exists { .. } => (3, Shape::Stat),
            Op::GetData { .. } => (4, Shape::DataStat),
            Op::GetChildren { .. } => (8, Shape::Names),
            Op::GetChildren2 { .. } => (12, Shape::NamesStat),
            Op::GetAcl { .. } => (6, Shape::AclStat),
            Op::GetEphemerals { .. } => (103, Shape::Names),
            Op::GetAllChildrenNumber { .. } => (104, Shape::Number),
            Op::WhoAmI => (107, Shape::Identities),
            Op::Sync { .. } => (9, Shape::Path),
            Op::Ping => (11, Shape::Nothing),
            Op::Multi(_) => (14, Shape::Parts),
            Op::MultiRead(_) => (22, Shape::Parts),
            Op::SetWatches { .. } => (101, Shape::Nothing),
            Op::SetWatches2 { .. } => (105, Shape::Nothing),
            Op::AddWatch { .. } => (106, Shape::Number),
            Op::CheckWatches { .. } => (17, Shape::Nothing),
            Op::RemoveWatches { .. } => (18, Shape::Nothing),
            Op::Auth { .. } => (100, Shape::Nothing),
            Op::Reconfig => (16, Shape::DataStat),
            Op::CloseSession => (-11, Shape::Nothing),
            Op::Unknown(number) => (*number, Shape::Nothing),
            Op::Cut { op, .. } => op.kind(),
        }
    }

    /// Returns the request's record, for a server whose last transaction is `zxid`.
    pub(crate) fn record(&self, place: &Place, zxid: i64) -> Record {
        let start = |path: &Path| Record::default().text(&path.within(place));
        match self {
            Op::Create { by, path, data, acl, flags, ttl } => {
                let record = with_acl(start(path).bytes(*data), *acl).int(*flags);
                if *by == 21 { record.long(*ttl) } else { record }
            }
            Op::Delete { path, version } | Op::Check { path, version } => start(path).int(*version),
            Op::DeleteContainer { path }
            | Op::GetAcl { path }
            | Op::GetAllChildrenNumber { path }
            | Op::Sync { path }
            | Op::GetEphemerals { prefix: path } => start(path),
            Op::SetData { path, data, version } => start(path).bytes(*data).int(*version),
            Op::SetAcl { path, acl, version } => with_acl(start(path), *acl).int(*version),
            Op::Exists { path, watch }
            | Op::GetData { path, watch }
            | Op::GetChildren { path, watch }
            | Op::GetChildren2 { path, watch } => start(path).byte(u8::from(*watch)),
            Op::WhoAmI | Op::Ping | Op::CloseSession | Op::Unknown(_) => Record::default(),
            Op::Multi(parts) | Op::MultiRead(parts) => {
                let mut record = Record::default();
                for part in parts {
                    record = record.int(part.kind().0).byte(0).int(-1);
                    record.0.extend(part.record(place, zxid).0);
                }
                record.int(-1).byte(1).int(-1)
            }
            Op::SetWatches { ago, lists } => with_lists(zxid - ago, lists, place),
            Op::SetWatches2 { ago, lists } => with_lists(zxid - ago, lists, place),
            Op::AddWatch { path, mode: number }
            | Op::CheckWatches { path, kind: number }
            | Op::RemoveWatches { path, kind: number } => start(path).int(*number),
            Op::Auth { scheme, proof } => Record::default().int(0).text(scheme).text(proof),
            Op::Reconfig => Record::default().text("").text("").text("").long(-1),
            Op::Cut { op, by } => {
                let mut record = op.record(place, zxid);
                record.0.truncate(record.0.len().saturating_sub(*by));
                record
            }
        }
    }
}

fn with_acl(record: Record, acl: Acl) -> Record {
    let Some(rules) = acl else { return record.int(-1) };
    let count = record.int(i32::try_from(rules.len()).expect("a few rules"));
    rules.iter().fold(count, |record, (perms, scheme, id)| record.int(*perms).text(scheme).text(id))
}

fn with_lists(zxid: i64, lists: &[Vec<Path>], place: &Place) -> Record {
    lists.iter().fold(Record::default().long(zxid), |record, paths| {
        let paths: Vec<String> = paths.iter().map(|path| path.within(place)).collect();
        record.texts(&paths)
    })
}
