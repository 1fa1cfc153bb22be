//! What the client sends, as far as the replies depend on it.

use super::LEAST_FRAME;
use super::jute::Malformed;
use super::jute::Reader;

/// The client crate's `xid` of a ping.
pub(super) const PING: i32 = -2;

/// What a request asks for: it says what its reply has to look like.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ReplyShape {
    /// A node is created; with the Stat of the new one or, by old servers, without.
    Create {
        stat: bool,
    },
    /// The reply says only whether it was done.
    Done,
    AddWatch,
    Stat,
    Data,
    Acl,
    /// Names: of children, or of nodes.
    Names {
        stat: bool,
        paths: bool,
    },
    Sync,
    Number,
    Users,
    Multi(Box<[Op]>),
    MultiRead(Box<[Op]>),
    Auth,
    Sasl,
    /// A request that the client crate does not know yet.
    Other,
}

impl ReplyShape {
    /// Whether the server answers it at once, before requests that were sent earlier.
    pub(super) fn overtakes(&self) -> bool {
        matches!(self, Self::Auth | Self::Sasl)
    }

    /// Whether what an honest server answers can be of any size.
    pub(super) fn may_be_large(&self) -> bool {
        self.is_a_list() || matches!(self, Self::Data | Self::Multi(_) | Self::MultiRead(_) | Self::Other)
    }

    /// Whether the reply begins with the number of its elements.
    pub(super) fn is_a_list(&self) -> bool {
        matches!(self, Self::Names { .. } | Self::Acl | Self::Users)
    }
}

/// One operation of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Op {
    Check,
    Create,
    SetData,
    Delete,
    GetData,
    GetChildren,
}

/// The watches that a client has asked for on a connection. A server may send as many events as there are of them, and
/// none for a longer path than theirs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct WatchAllowance {
    pub(super) count: u64,
    pub(super) longest: usize,
}

impl WatchAllowance {
    /// Persistent watches fire as often as they like, recursive ones for longer paths too, up to a short reply's length:
    /// the frame of an event is kept until all of it is there.
    const UNLIMITED: Self = Self { count: u64::MAX, longest: LEAST_FRAME };

    fn one(path: &str) -> Self {
        Self { count: 1, longest: path.len() }
    }

    pub(super) fn add(&mut self, other: Self) {
        self.count = self.count.saturating_add(other.count);
        self.longest = self.longest.max(other.longest);
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) xid: i32,
    pub(super) kind: ReplyShape,
    pub(super) watches: WatchAllowance,
}

impl Request {
    /// Reads a request. Of one that cannot be read only the head of the reply is checked: it is the client's own.
    pub(super) fn parse(frame: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(frame);
        let (xid, op) = (reader.int().ok()?, reader.int().ok()?);
        let mut watches = WatchAllowance::default();
        let kind = kind(op, &mut reader, &mut watches).unwrap_or(ReplyShape::Other);
        Some(Self { xid, kind, watches })
    }
}

fn kind(op: i32, reader: &mut Reader<'_>, watches: &mut WatchAllowance) -> Result<ReplyShape, Malformed> {
    let mut read = |kind| {
        let path = reader.text()?;
        if reader.flag()? {
            watches.add(WatchAllowance::one(path));
        }
        Ok(kind)
    };
    match op {
        1 => Ok(ReplyShape::Create { stat: false }),
        15 | 19 | 21 => Ok(ReplyShape::Create { stat: true }),
        // Delete, ping, reconnaissance and removal of watches, the end of the session.
        2 | 11 | 17 | 18 | -11 => Ok(ReplyShape::Done),
        3 => read(ReplyShape::Stat),
        4 => read(ReplyShape::Data),
        5 | 7 => Ok(ReplyShape::Stat),
        6 => Ok(ReplyShape::Acl),
        8 => read(ReplyShape::Names { stat: false, paths: false }),
        12 => read(ReplyShape::Names { stat: true, paths: false }),
        9 => Ok(ReplyShape::Sync),
        14 => Ok(ReplyShape::Multi(operations(reader)?)),
        22 => Ok(ReplyShape::MultiRead(operations(reader)?)),
        // A change of the ensemble: its configuration comes back.
        16 => Ok(ReplyShape::Data),
        100 => Ok(ReplyShape::Auth),
        101 | 105 => set_watches(op, reader, watches).map(|()| ReplyShape::Done),
        102 => Ok(ReplyShape::Sasl),
        103 => Ok(ReplyShape::Names { stat: false, paths: true }),
        104 => Ok(ReplyShape::Number),
        106 => {
            *watches = WatchAllowance::UNLIMITED;
            Ok(ReplyShape::AddWatch)
        }
        107 => Ok(ReplyShape::Users),
        _ => Ok(ReplyShape::Other),
    }
}

/// Watches that are set again on a new connection: of data, of existence, of children; then persistent ones.
fn set_watches(op: i32, reader: &mut Reader<'_>, watches: &mut WatchAllowance) -> Result<(), Malformed> {
    reader.long()?;
    for _ in 0..3 {
        for _ in 0..reader.count(4)? {
            watches.add(WatchAllowance::one(reader.text()?));
        }
    }
    if op == 105 {
        *watches = WatchAllowance::UNLIMITED;
    }
    Ok(())
}

fn operations(reader: &mut Reader<'_>) -> Result<Box<[Op]>, Malformed> {
    let mut operations = Vec::new();
    loop {
        let (op, done, _) = (reader.int()?, reader.flag()?, reader.int()?);
        if done {
            return Ok(operations.into());
        }
        reader.text()?;
        operations.push(match op {
            13 => {
                reader.int()?;
                Op::Check
            }
            2 => {
                reader.int()?;
                Op::Delete
            }
            5 => {
                reader.buffer()?;
                reader.int()?;
                Op::SetData
            }
            1 | 15 | 19 | 21 => {
                reader.buffer()?;
                for _ in 0..reader.count(12)? {
                    reader.int()?;
                    reader.text()?;
                    reader.text()?;
                }
                reader.int()?;
                if op == 21 {
                    reader.long()?;
                }
                Op::Create
            }
            4 => {
                reader.flag()?;
                Op::GetData
            }
            8 => {
                reader.flag()?;
                Op::GetChildren
            }
            _ => return Err(Malformed::new("an operation that transactions do not have")),
        });
    }
}
