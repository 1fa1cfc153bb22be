//! The open connections: their identities, and the statistics that the four-letter word `cons`
//! reports.

use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::net::SocketAddr;

use crate::access::Identity;
use crate::settings::Time;

/// Identifies a connection. The caller of a [`Machine`](crate::Machine) chooses the numbers and
/// never uses one twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConnectionId(pub u64);

#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) peer: SocketAddr,
    pub(crate) identities: Vec<Identity>,
    /// The session id and its timeout in milliseconds.
    pub(crate) session: Option<(i64, u64)>,
    /// Time of the connection's first message, in milliseconds since 1970.
    established: Option<i64>,
    received: u64,
    sent: u64,
    last: Last,
}

/// The last operation that the server replied to.
#[derive(Debug)]
struct Last {
    op: &'static str,
    /// `xid` of the last ordinary request. Pings and similar requests have a fixed, negative `xid`.
    xid: i32,
    zxid: i64,
    /// Milliseconds on the clock of [`Time::elapsed`].
    at: u64,
}

/// All open connections.
#[derive(Debug, Default)]
pub(crate) struct Connections(BTreeMap<ConnectionId, Connection>);

impl Connection {
    fn new(peer: SocketAddr) -> Self {
        Connection {
            peer,
            identities: vec![Identity::new("ip", peer.ip().to_string())],
            session: None,
            established: None,
            received: 0,
            sent: 0,
            last: Last { op: "null", xid: 0, zxid: 0, at: 0 },
        }
    }

    /// Records that a message arrived.
    pub(crate) fn heard(&mut self, now: Time) {
        self.received += 1;
        self.established.get_or_insert(now.wall);
    }

    /// Records a reply to an operation.
    pub(crate) fn answered(&mut self, op: &'static str, xid: i32, zxid: i64, now: Time) {
        let xid = if xid < 0 { self.last.xid } else { xid };
        self.last = Last { op, xid, zxid, at: now.elapsed };
    }
}

impl Connections {
    pub(crate) fn add(&mut self, id: ConnectionId, peer: SocketAddr) {
        self.0.insert(id, Connection::new(peer));
    }

    pub(crate) fn remove(&mut self, id: ConnectionId) -> Option<Connection> {
        self.0.remove(&id)
    }

    pub(crate) fn get(&self, id: ConnectionId) -> Option<&Connection> {
        self.0.get(&id)
    }

    pub(crate) fn get_mut(&mut self, id: ConnectionId) -> Option<&mut Connection> {
        self.0.get_mut(&id)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the identities of a connection's client.
    pub(crate) fn identities(&self, id: ConnectionId) -> &[Identity] {
        self.get(id).map_or(&[], |connection| &connection.identities)
    }

    /// Counts a message that is sent on a connection.
    pub(crate) fn sent(&mut self, id: ConnectionId) {
        if let Some(connection) = self.get_mut(id) {
            connection.sent += 1;
        }
    }

    /// Returns one line for each connection. With `brief`, each line contains only the address and
    /// the numbers of messages.
    pub(crate) fn lines(&self, brief: bool) -> String {
        let mut text = String::new();
        for connection in self.0.values() {
            // Writing to a string cannot fail.
            connection.write(&mut text, brief).unwrap_or_default();
        }
        text
    }
}

impl Connection {
    fn write(&self, text: &mut String, brief: bool) -> fmt::Result {
        // 1 if the connection waits for bytes to read, otherwise 0.
        let awaits = u8::from(self.session.is_some());
        write!(text, " /{}[{awaits}](queued=0,recved={},sent={}", self.peer, self.received, self.sent)?;
        if let (Some((session, timeout)), false) = (self.session, brief) {
            let established = self.established.unwrap_or_default();
            write!(text, ",sid={session:#x},lop={},est={established},to={timeout}", self.last.op)?;
            let Last { xid, zxid, at, .. } = self.last;
            write!(text, ",lcxid={xid:#x},lzxid={zxid:#x},lresp={at}")?;
            // All latencies are 0, because the server's clock does not advance while it handles a
            // request.
            write!(text, ",llat=0,minlat=0,avglat=0,maxlat=0")?;
        }
        writeln!(text, ")")
    }
}
