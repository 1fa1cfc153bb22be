//! Converts a server's messages to text. Equal messages of both servers give equal text.

use std::collections::BTreeMap;
use std::fmt::{self, Write};

use crate::messages::{BadReply, Fields};

/// Translates one server's zxids and session ids.
#[derive(Default)]
pub(crate) struct IdTranslator {
    /// Zxid of the last transaction before the sequence.
    pub(crate) zxid: i64,
    /// The index of each session id, in the order in which the sessions began.
    pub(crate) sessions: BTreeMap<i64, usize>,
}

/// The contents of a reply's record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    Nothing,
    Path,
    PathStat,
    Stat,
    DataStat,
    Names,
    NamesStat,
    AclStat,
    Number,
    Identities,
    Parts,
}

/// One message as text. The times of Stats are kept separately, because the two servers' clocks
/// differ.
#[derive(Clone, Debug, Default)]
pub(crate) struct Said {
    pub(crate) text: String,
    pub(crate) times: Vec<i64>,
    pub(crate) zxid: i64,
    pub(crate) error: i32,
    pub(crate) is_event: bool,
}

impl Said {
    fn add(&mut self, text: fmt::Arguments) {
        // Writing to a string cannot fail.
        self.text.write_fmt(text).unwrap_or_default();
    }
}

impl IdTranslator {
    fn zxid(&self, zxid: i64) -> String {
        // These are not transaction numbers: the root has zxid 0, and events of `setWatches` have
        // -1.
        if zxid <= 0 { format!("{zxid}") } else { format!("{:+}", zxid - self.zxid) }
    }

    pub(crate) fn session(&self, id: i64) -> String {
        match self.sessions.get(&id) {
            Some(number) => format!("session {number}"),
            None => format!("{id}"),
        }
    }

    /// Converts an event, or a reply with a record of this shape.
    pub(crate) fn read(&self, frame: &[u8], shape: Shape) -> Said {
        let mut said = Said::default();
        let mut fields = Fields(frame);
        if let Err(BadReply(why)) = self.message(&mut fields, shape, &mut said) {
            said.add(format_args!(" MALFORMED: {why} in {frame:?}"));
        }
        said
    }

    fn message(&self, fields: &mut Fields, shape: Shape, said: &mut Said) -> Result<(), BadReply> {
        let xid = fields.int()?;
        said.zxid = fields.long()?;
        said.error = fields.int()?;
        said.is_event = xid == -1;
        if said.is_event {
            let (kind, state) = (fields.int()?, fields.int()?);
            let (zxid, path) = (self.zxid(said.zxid), fields.text()?);
            said.text = format!("event {kind} at {path}, zxid {zxid}, error {}, state {state}", said.error);
            return fields.end();
        }
        said.text = format!("reply {xid}, zxid {}, error {}", self.zxid(said.zxid), said.error);
        if said.error == 0 {
            self.body(fields, shape, said)?;
        }
        fields.end()
    }

    fn body(&self, fields: &mut Fields, shape: Shape, said: &mut Said) -> Result<(), BadReply> {
        match shape {
            Shape::Nothing => {}
            Shape::Path => said.add(format_args!(", {}", fields.text()?)),
            Shape::PathStat => {
                said.add(format_args!(", {}", fields.text()?));
                self.stat(fields, said)?;
            }
            Shape::Stat => self.stat(fields, said)?,
            Shape::DataStat => {
                said.add(format_args!(", {:?}", fields.bytes()?));
                self.stat(fields, said)?;
            }
            Shape::Names => said.add(format_args!(", {}", sorted(fields.list(Fields::text)?))),
            Shape::NamesStat => {
                said.add(format_args!(", {}", sorted(fields.list(Fields::text)?)));
                self.stat(fields, said)?;
            }
            Shape::AclStat => {
                let mut rules = fields
                    .list(|rule| Ok(format!("{} of {} {}", rule.int()?, rule.text()?, rule.text()?)))?;
                // `auth` expands to all of a client's identities, in an undefined order.
                let digests = |a: &String, b: &String| [a, b].iter().all(|rule| rule.contains("\"digest\""));
                rules.chunk_by_mut(digests).for_each(<[String]>::sort_unstable);
                said.add(format_args!(", {}", rules.join(", ")));
                self.stat(fields, said)?;
            }
            Shape::Number => said.add(format_args!(", {}", fields.int()?)),
            Shape::Identities => {
                let identities = fields.list(|who| Ok(format!("{} {}", who.text()?, who.text()?)))?;
                said.add(format_args!(", {}", sorted(identities)));
            }
            Shape::Parts => self.parts(fields, said)?,
        }
        Ok(())
    }

    fn parts(&self, fields: &mut Fields, said: &mut Said) -> Result<(), BadReply> {
        loop {
            let (number, done, error) = (fields.int()?, fields.byte()?, fields.int()?);
            said.add(format_args!("; part {number} {done} {error}"));
            if done != 0 {
                return Ok(());
            }
            let shape = match number {
                -1 => Shape::Number,
                1 => Shape::Path,
                15 => Shape::PathStat,
                2 | 13 => Shape::Nothing,
                4 => Shape::DataStat,
                5 => Shape::Stat,
                8 => Shape::Names,
                _ => return Err(BadReply(format!("a part {number}"))),
            };
            self.body(fields, shape, said)?;
        }
    }

    fn stat(&self, fields: &mut Fields, said: &mut Said) -> Result<(), BadReply> {
        let (czxid, mzxid) = (fields.long()?, fields.long()?);
        said.times.extend([fields.long()?, fields.long()?]);
        let (version, cversion, aversion) = (fields.int()?, fields.int()?, fields.int()?);
        let (owner, length, children, pzxid) = (fields.long()?, fields.int()?, fields.int()?, fields.long()?);
        said.add(format_args!(
            ", Stat czxid {} mzxid {} pzxid {} version {version} cversion {cversion} aversion {aversion} \
             owner {} length {length} children {children}",
            self.zxid(czxid),
            self.zxid(mzxid),
            self.zxid(pzxid),
            self.session(owner),
        ));
        Ok(())
    }
}

fn sorted(mut elements: Vec<String>) -> String {
    elements.sort_unstable();
    format!("[{}]", elements.join(", "))
}
