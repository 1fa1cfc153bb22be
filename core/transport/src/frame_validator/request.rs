//! Parses the client's requests to find out which form each reply must have.

use super::LEAST_FRAME;
use super::malformed::Malformed;
use zklock_jute::Reader;

/// The `xid` with which the client crate sends a ping.
pub(super) const PING: i32 = -2;

/// The form of a request's reply.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ReplyShape {
    /// The path of the created node, followed by its Stat if `stat` is `true`.
    Create {
        stat: bool,
    },
    /// No body: the reply only reports success.
    Done,
    AddWatch,
    Stat,
    Data,
    Acl,
    /// Names of children, or paths of nodes.
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
    /// The reply to a request that the client crate does not know yet.
    Other,
}

impl ReplyShape {
    /// Returns `true` if the server replies to this request without waiting for earlier requests.
    pub(super) fn overtakes(&self) -> bool {
        matches!(self, Self::Auth | Self::Sasl)
    }

    /// Returns `true` if an honest server's reply can have any size.
    pub(super) fn may_be_large(&self) -> bool {
        self.is_a_list() || matches!(self, Self::Data | Self::Multi(_) | Self::MultiRead(_) | Self::Other)
    }

    /// Returns `true` if the reply begins with the number of its elements.
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

/// The watches that a client has requested on a connection. A server can send one event for each of
/// them, with a path that is at most as long as the longest of these watches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct WatchAllowance {
    pub(super) count: u64,
    pub(super) longest: usize,
}

impl WatchAllowance {
    /// Allowance of a connection with persistent watches, which fire any number of times. Recursive
    /// watches also fire for longer paths than their own. The path is limited to the length of a
    /// short reply, because an event is stored until it is complete.
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
    /// Parses a request. If the parser does not understand its body, only the header of the reply
    /// is validated later. That is safe, because the request does not come from the server.
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
        if reader.boolean()? {
            watches.add(WatchAllowance::one(path));
        }
        Ok(kind)
    };
    match op {
        1 => Ok(ReplyShape::Create { stat: false }),
        15 | 19 | 21 => Ok(ReplyShape::Create { stat: true }),
        // Delete, ping, check watches, remove watches, close the session.
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
        // Reconfiguration of the ensemble. The reply contains the configuration.
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

/// Parses watches that are set again on a new connection: data, exist and child watches, then
/// persistent ones.
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
        let (op, done, _) = (reader.int()?, reader.boolean()?, reader.int()?);
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
                reader.boolean()?;
                Op::GetData
            }
            8 => {
                reader.boolean()?;
                Op::GetChildren
            }
            _ => return Err(Malformed::new("an operation that transactions do not have")),
        });
    }
}
