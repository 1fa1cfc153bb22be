//! Messages from the server to clients.

use zklock_jute::Writer;

use crate::access::{Acl, Identity};
use crate::code::{Code, OK};
use crate::connections::ConnectionId;
use crate::node::Stat;
use crate::watches::Event;

/// An action that the state machine requests. Actions must be carried out in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Send the message.
    Send(ConnectionId, Message),
    /// Close the connection after sending the earlier messages. The machine has already removed the
    /// connection.
    Close(ConnectionId),
}

/// A message to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message(pub(crate) Content);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// The reply to a connect request. If all fields are 0, there is no session.
    Connected {
        timeout: i32,
        session: i64,
        password: [u8; 16],
        read_only: Option<bool>,
    },
    Reply {
        xid: i32,
        zxid: i64,
        error: i32,
        body: Body,
    },
    Event {
        zxid: i64,
        event: Event,
        path: String,
    },
    /// The reply to a four-letter word, which has no frame.
    Text(String),
}

/// The body of a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Body {
    Nothing,
    Path(String),
    PathStat(String, Stat),
    Stat(Stat),
    DataStat(Option<Vec<u8>>, Stat),
    Names(Vec<String>),
    NamesStat(Vec<String>, Stat),
    AclStat(Acl, Stat),
    Number(i32),
    Identities(Vec<Identity>),
    Multi(Vec<Part>),
}

/// One operation's part of the reply to a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// The operation's number and its reply.
    Done(i32, Body),
    Failed(i32),
}

const EVENT_XID: i32 = -1;
const CONNECTED: i32 = 3;

impl Content {
    /// Creates an error reply.
    pub(crate) fn refusal(xid: i32, zxid: i64, code: Code) -> Self {
        Content::Reply { xid, zxid, error: code.number(), body: Body::Nothing }
    }
}

impl Message {
    /// Returns the bytes to send, with the frame length in front.
    #[must_use]
    pub fn frame(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        match &self.0 {
            Content::Text(text) => return text.clone().into_bytes(),
            Content::Connected { timeout, session, password, read_only } => {
                writer.int(0);
                writer.int(*timeout);
                writer.long(*session);
                writer.buffer(password);
                if let Some(read_only) = read_only {
                    writer.boolean(*read_only);
                }
            }
            Content::Reply { xid, zxid, error, body } => {
                header(&mut writer, *xid, *zxid, *error);
                if *error == OK {
                    body.write(&mut writer);
                }
            }
            Content::Event { zxid, event, path } => {
                header(&mut writer, EVENT_XID, *zxid, OK);
                writer.int(*event as i32);
                writer.int(CONNECTED);
                writer.text(path);
            }
        }
        writer.into_frame()
    }
}

fn header(writer: &mut Writer, xid: i32, zxid: i64, error: i32) {
    writer.int(xid);
    writer.long(zxid);
    writer.int(error);
}

impl Body {
    fn write(&self, writer: &mut Writer) {
        let names = |writer: &mut Writer, names: &[String]| {
            writer.list(names, |writer, name| {
                writer.text(name);
            });
        };
        match self {
            Body::Nothing => {}
            Body::Path(path) => {
                writer.text(path);
            }
            Body::PathStat(path, stat) => {
                writer.text(path);
                stat.write(writer);
            }
            Body::Stat(stat) => stat.write(writer),
            Body::DataStat(data, stat) => {
                writer.nullable(data.as_deref());
                stat.write(writer);
            }
            Body::Names(list) => names(writer, list),
            Body::NamesStat(list, stat) => {
                names(writer, list);
                stat.write(writer);
            }
            Body::AclStat(acl, stat) => {
                writer.list(acl, |writer, rule| rule.write(writer));
                stat.write(writer);
            }
            Body::Number(number) => {
                writer.int(*number);
            }
            Body::Identities(list) => {
                writer.list(list, |writer, identity| {
                    writer.text(&identity.scheme).text(identity.user());
                });
            }
            Body::Multi(parts) => {
                for part in parts {
                    part.write(writer);
                }
                part_header(writer, -1, true, -1);
            }
        }
    }
}

impl Part {
    fn write(&self, writer: &mut Writer) {
        match self {
            Part::Done(number, body) => {
                part_header(writer, *number, false, OK);
                body.write(writer);
            }
            Part::Failed(code) => {
                part_header(writer, -1, false, *code);
                writer.int(*code);
            }
        }
    }
}

fn part_header(writer: &mut Writer, number: i32, done: bool, error: i32) {
    writer.int(number);
    writer.boolean(done);
    writer.int(error);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_read_only_byte_is_for_those_who_sent_one() {
        let connected = |read_only| {
            Message(Content::Connected { timeout: 1, session: 2, password: [0; 16], read_only }).frame().len()
        };
        assert_eq!((connected(None), connected(Some(false))), (40, 41));
    }

    #[test]
    fn a_refusal_has_no_body() {
        let frame = Message(Content::refusal(7, 9, Code::NoNode)).frame();
        assert_eq!(frame, [0, 0, 0, 16, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 9, 255, 255, 255, 155]);
    }
}
