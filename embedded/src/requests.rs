//! Parsed requests.

use zklock_jute::Reader;

use crate::access::Rule;
use crate::records::{BadRecord, Fields};
use crate::watches::Kind;

/// A client's request for a new session, or to resume its session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Connect {
    pub(crate) last_zxid: i64,
    /// Session timeout in milliseconds.
    pub(crate) timeout: i32,
    pub(crate) session: i64,
    pub(crate) password: Vec<u8>,
    /// `true` if the client sent the read-only byte. Only then does the reply include that byte.
    pub(crate) knows_read_only: bool,
}

impl Connect {
    pub(crate) fn read(record: &[u8]) -> Result<Self, BadRecord> {
        let mut reader = Reader::new(record);
        reader.int()?;
        let connect = Connect {
            last_zxid: reader.long()?,
            timeout: reader.int()?,
            session: reader.long()?,
            password: reader.data()?.unwrap_or_default(),
            knows_read_only: !reader.is_empty(),
        };
        Ok(connect)
    }
}

/// The type of request that created a node. It decides the content of the reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    Create,
    Create2,
    CreateContainer,
    CreateTtl,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Create {
    pub(crate) by: By,
    pub(crate) path: String,
    pub(crate) data: Option<Vec<u8>>,
    pub(crate) acl: Vec<Rule>,
    pub(crate) flags: i32,
    /// Time to live in milliseconds, or -1.
    pub(crate) ttl: i64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Write {
    Create(Create),
    Delete { path: String, version: i32 },
    DeleteContainer { path: String },
    SetData { path: String, data: Option<Vec<u8>>, version: i32 },
    SetAcl { path: String, acl: Vec<Rule>, version: i32 },
    Check { path: String, version: i32 },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Read {
    Exists { path: String, watch: bool },
    GetData { path: String, watch: bool },
    GetChildren { path: String, watch: bool },
    GetChildren2 { path: String, watch: bool },
    GetAcl { path: String },
    CountDescendants { path: String },
    GetEphemerals { prefix: String },
    WhoAmI,
}

/// The watches that a client had on its last connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SetWatches {
    /// The last zxid that the client saw. If a watched node has changed since then, the server
    /// sends the event immediately.
    pub(crate) seen: i64,
    pub(crate) data: Vec<String>,
    pub(crate) exist: Vec<String>,
    pub(crate) children: Vec<String>,
    pub(crate) persistent: Vec<String>,
    pub(crate) recursive: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Ping,
    CloseSession,
    Sync {
        path: String,
    },
    Auth {
        scheme: String,
        proof: Vec<u8>,
    },
    /// A SASL login token. This server does not support SASL.
    Login,
    Write(Write),
    Read(Read),
    Multi(Vec<Write>),
    MultiRead(Vec<Read>),
    SetWatches(SetWatches),
    AddWatch {
        path: String,
        recursive: bool,
    },
    CheckWatches {
        path: String,
        kind: Kind,
    },
    RemoveWatches {
        path: String,
        kind: Kind,
    },
    Reconfig,
    /// A number that is not an operation, or an operation that this server does not support.
    Unknown,
    /// An operation with an invalid record.
    Malformed,
    /// A transaction with an invalid record. Unlike other invalid requests, it takes a zxid.
    MalformedMulti,
}

impl Op {
    /// Returns the name that `cons` shows for the operation, and `true` if the operation is a write
    /// outside a transaction. Returns `None` for operations that the real server does not record.
    pub(crate) fn name(&self) -> Option<(&'static str, bool)> {
        let name = match self {
            Op::Write(write) => {
                let name = match write {
                    Write::Create(_) => "CREA",
                    Write::Delete { .. } | Write::DeleteContainer { .. } => "DELE",
                    Write::SetData { .. } => "SETD",
                    Write::SetAcl { .. } => "SETA",
                    Write::Check { .. } => "CHEC",
                };
                return Some((name, true));
            }
            Op::Reconfig => return Some(("RECO", true)),
            Op::Read(read) => match read {
                Read::Exists { .. } => "EXIS",
                Read::GetData { .. } => "GETD",
                Read::GetChildren { .. } | Read::GetChildren2 { .. } => "GETC",
                Read::GetAcl { .. } => "GETA",
                Read::CountDescendants { .. } => "GETACN",
                Read::GetEphemerals { .. } => "GETE",
                Read::WhoAmI => "HOMI",
            },
            Op::Ping => "PING",
            Op::Sync { .. } => "SYNC",
            Op::Multi(_) => "MULT",
            Op::MultiRead(_) => "MLTR",
            Op::SetWatches(_) => "SETW",
            Op::AddWatch { .. } => "ADDW",
            Op::CheckWatches { .. } => "CHKW",
            Op::RemoveWatches { .. } => "REMW",
            Op::CloseSession
            | Op::Auth { .. }
            | Op::Login
            | Op::Unknown
            | Op::Malformed
            | Op::MalformedMulti => return None,
        };
        Some((name, false))
    }
}

/// A request with its `xid`, which the reply repeats.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) xid: i32,
    pub(crate) op: Op,
}

impl Request {
    /// Parses a request. Returns an error if the header is missing, or if an authentication request
    /// is invalid. The real server sends no reply in these cases either.
    pub(crate) fn read(frame: &[u8]) -> Result<Self, BadRecord> {
        let mut reader = Reader::new(frame);
        let xid = reader.int()?;
        let number = reader.int()?;
        let op = match (operation(number, &mut reader), number) {
            (Err(_), MULTI) => Op::MalformedMulti,
            (Ok(op), _) => op,
            (Err(bad), AUTH | LOGIN) => return Err(bad),
            (Err(_), _) => Op::Malformed,
        };
        Ok(Request { xid, op })
    }
}

const MULTI: i32 = 14;
const AUTH: i32 = 100;
const LOGIN: i32 = 102;

fn operation(number: i32, reader: &mut Reader) -> Result<Op, BadRecord> {
    Ok(match number {
        // A check (13) is valid only within a transaction.
        1 | 2 | 5 | 7 | 15 | 19 | 20 | 21 => Op::Write(write(number, reader)?),
        3 | 4 | 6 | 8 | 12 | 103 | 104 | 107 => Op::Read(read(number, reader)?),
        9 => Op::Sync { path: reader.string()? },
        11 => Op::Ping,
        MULTI => multi(reader)?,
        16 => {
            for _ in 0..3 {
                reader.nullable()?;
            }
            reader.long()?;
            Op::Reconfig
        }
        17 => Op::CheckWatches { path: reader.string()?, kind: kind(reader)? },
        18 => Op::RemoveWatches { path: reader.string()?, kind: kind(reader)? },
        // A multi-read sets no watches, even if its parts ask for them.
        22 => Op::MultiRead(several(reader, |number, reader| match (number, read(number, reader)?) {
            (4, Read::GetData { path, .. }) => Ok(Read::GetData { path, watch: false }),
            (8, Read::GetChildren { path, .. }) => Ok(Read::GetChildren { path, watch: false }),
            _ => Err(BadRecord),
        })?),
        AUTH => {
            reader.int()?;
            Op::Auth { scheme: reader.string()?, proof: reader.data()?.unwrap_or_default() }
        }
        LOGIN => {
            reader.buffer()?.ok_or(BadRecord)?;
            Op::Login
        }
        101 | 105 => Op::SetWatches(SetWatches {
            seen: reader.long()?,
            data: reader.list(Fields::string)?,
            exist: reader.list(Fields::string)?,
            children: reader.list(Fields::string)?,
            persistent: if number == 105 { reader.list(Fields::string)? } else { Vec::new() },
            recursive: if number == 105 { reader.list(Fields::string)? } else { Vec::new() },
        }),
        106 => Op::AddWatch {
            path: reader.string()?,
            recursive: match reader.int()? {
                0 => false,
                1 => true,
                _ => return Err(BadRecord),
            },
        },
        -11 => Op::CloseSession,
        _ => Op::Unknown,
    })
}

/// Parses a transaction. If it creates a node with a null ACL (not an empty ACL), the server
/// refuses it without assigning a zxid.
fn multi(reader: &mut Reader) -> Result<Op, BadRecord> {
    let mut null_list = false;
    let writes = several(reader, |number, reader| match number {
        1 | 2 | 5 | 13 | 15 | 19 | 21 => {
            let null = matches!(number, 1 | 15 | 19) && has_null_list(*reader);
            let write = write(number, reader)?;
            null_list = null && matches!(write, Write::Create(Create { flags: 0..=6, .. }));
            if null_list { Err(BadRecord) } else { within_multi(write) }
        }
        _ => Err(BadRecord),
    });
    if null_list { Ok(Op::Malformed) } else { Ok(Op::Multi(writes?)) }
}

fn has_null_list(mut create: Reader) -> bool {
    create.nullable().is_ok() && create.buffer().is_ok() && create.int() == Ok(-1)
}

fn write(number: i32, reader: &mut Reader) -> Result<Write, BadRecord> {
    let path = reader.string()?;
    Ok(match number {
        2 => Write::Delete { path, version: reader.int()? },
        5 => Write::SetData { path, data: reader.data()?, version: reader.int()? },
        7 => Write::SetAcl { path, acl: reader.list(Rule::read)?, version: reader.int()? },
        13 => Write::Check { path, version: reader.int()? },
        20 => Write::DeleteContainer { path },
        _ => Write::Create(Create {
            by: match number {
                1 => By::Create,
                15 => By::Create2,
                19 => By::CreateContainer,
                _ => By::CreateTtl,
            },
            path,
            data: reader.data()?,
            acl: reader.list(Rule::read)?,
            flags: reader.int()?,
            ttl: if number == 21 { reader.long()? } else { -1 },
        }),
    })
}

/// Adjusts a create request within a transaction. An invalid create mode makes the record of the
/// whole transaction invalid, whereas a single request with this mode is only refused. If the mode
/// of a `createTTL` is not a TTL mode, the request becomes an ordinary create with this mode.
fn within_multi(write: Write) -> Result<Write, BadRecord> {
    let Write::Create(create) = write else { return Ok(write) };
    match (create.by, create.flags) {
        (By::CreateTtl, 5 | 6) => Ok(Write::Create(create)),
        (By::CreateTtl, 4) => Ok(Write::Create(Create { by: By::CreateContainer, ttl: -1, ..create })),
        (By::CreateTtl, _) => Ok(Write::Create(Create { by: By::Create, ttl: -1, ..create })),
        (By::Create | By::Create2, 4) => Ok(Write::Create(Create { by: By::CreateContainer, ..create })),
        (_, 0..=4) => Ok(Write::Create(create)),
        _ => Err(BadRecord),
    }
}

fn read(number: i32, reader: &mut Reader) -> Result<Read, BadRecord> {
    Ok(match number {
        3 => Read::Exists { path: reader.string()?, watch: reader.flag()? },
        4 => Read::GetData { path: reader.string()?, watch: reader.flag()? },
        6 => Read::GetAcl { path: reader.string()? },
        8 => Read::GetChildren { path: reader.string()?, watch: reader.flag()? },
        12 => Read::GetChildren2 { path: reader.string()?, watch: reader.flag()? },
        103 => Read::GetEphemerals { prefix: reader.nullable()?.unwrap_or_default() },
        104 => Read::CountDescendants { path: reader.string()? },
        _ => Read::WhoAmI,
    })
}

fn kind(reader: &mut Reader) -> Result<Kind, BadRecord> {
    Kind::from_number(reader.int()?).ok_or(BadRecord)
}

/// Parses the operations of a transaction. A header precedes each operation, and a final header
/// marks the end.
fn several<T>(
    reader: &mut Reader,
    mut operation: impl FnMut(i32, &mut Reader) -> Result<T, BadRecord>,
) -> Result<Vec<T>, BadRecord> {
    let mut operations = Vec::new();
    loop {
        let (number, done, _error) = (reader.int()?, reader.flag()?, reader.int()?);
        if done {
            return Ok(operations);
        }
        operations.push(operation(number, reader)?);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zklock_jute::Writer;

    /// A transaction with a single `createTTL`.
    fn multi(flags: i32) -> Vec<u8> {
        let mut writer = Writer::default();
        for number in [7, MULTI, 21] {
            writer.int(number);
        }
        writer.boolean(false);
        writer.int(-1);
        writer.text("/a");
        writer.nullable(None);
        writer.int(0);
        writer.int(flags);
        writer.long(10);
        writer.int(-1);
        writer.boolean(true);
        writer.int(-1);
        writer.into_bytes()
    }

    #[test]
    fn within_a_transaction_the_mode_decides_what_is_created() {
        for (flags, by, ttl) in
            [(5, By::CreateTtl, 10), (4, By::CreateContainer, -1), (3, By::Create, -1), (9, By::Create, -1)]
        {
            let Op::Multi(writes) = Request::read(&multi(flags)).unwrap().op else {
                panic!("no transaction")
            };
            let [Write::Create(create)] = &writes[..] else { panic!("{writes:?}") };
            assert_eq!((create.by, create.ttl), (by, ttl));
        }
    }

    #[test]
    fn a_transaction_with_a_null_list_takes_no_number() {
        // The fields up to the flags: header, operation, path, data.
        let mut writer = Writer::default();
        for number in [7, MULTI, 1] {
            writer.int(number);
        }
        writer.boolean(false);
        writer.int(-1);
        writer.text("/a");
        writer.nullable(None);
        let begun = writer.into_bytes();
        for (list, flags, op) in [(-1_i32, 0_i32, Op::Malformed), (-1, 9, Op::MalformedMulti)] {
            let mut bytes = begun.clone();
            bytes.extend(list.to_be_bytes());
            bytes.extend(flags.to_be_bytes());
            assert_eq!(Request::read(&bytes).unwrap().op, op);
        }
    }

    #[test]
    fn several_reads_leave_no_watches() {
        let mut writer = Writer::default();
        for number in [7, 22, 4] {
            writer.int(number);
        }
        writer.boolean(false);
        writer.int(-1);
        writer.text("/a");
        writer.boolean(true);
        writer.int(-1);
        writer.boolean(true);
        writer.int(-1);
        let reads = vec![Read::GetData { path: "/a".to_owned(), watch: false }];
        assert_eq!(Request::read(&writer.into_bytes()).unwrap().op, Op::MultiRead(reads));
    }

    #[test]
    fn a_check_on_its_own_is_no_operation() {
        let mut writer = Writer::default();
        for number in [7, 13] {
            writer.int(number);
        }
        writer.text("/a");
        writer.int(-1);
        assert_eq!(Request::read(&writer.into_bytes()).unwrap().op, Op::Unknown);
    }

    #[test]
    fn a_transaction_that_does_not_end_makes_no_sense() {
        let mut record = multi(5);
        record.truncate(record.len() - 1);
        assert_eq!(Request::read(&record).unwrap().op, Op::MalformedMulti);
    }

    #[test]
    fn no_reply_is_possible_without_a_header_or_to_senseless_authentication() {
        assert_eq!(Request::read(&[0; 7]), Err(BadRecord));
        assert_eq!(Request::read(&[0, 0, 0, 1, 0, 0, 0, 100]), Err(BadRecord));
    }
}
