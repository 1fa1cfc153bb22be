//! One server, and the test's clients on it.

use std::collections::{BTreeMap, BTreeSet};

use crate::messages::{BadReply, Fields, Line, Record};
use crate::replies::{IdTranslator, Said, Shape};
use crate::steps::SESSIONS;

/// Session timeout of the clients in milliseconds, long enough that no session expires during the
/// test.
pub(crate) const LONG: i32 = 60_000;

/// A client's session on one server.
#[derive(Default)]
pub(crate) struct Client {
    pub(crate) id: i64,
    pub(crate) password: Vec<u8>,
    pub(crate) line: Option<Line>,
    /// Zxid of the last reply.
    pub(crate) zxid: i64,
}

/// One server and its clients.
pub(crate) struct Side {
    pub(crate) address: String,
    pub(crate) translator: IdTranslator,
    pub(crate) clients: Vec<Client>,
    pub(crate) control: Client,
    /// Zxids of the transactions that ended a session. The real server deletes the session's nodes
    /// in no fixed order.
    pub(crate) ends: BTreeSet<i64>,
}

impl Side {
    /// Prepares a sequence. Returns the number of transactions since the last sequence began.
    pub(crate) fn begin(&mut self, directory: &str) -> i64 {
        self.clients = (0..SESSIONS).map(|_| Client::default()).collect();
        // Create some nodes, because most requests would fail in an empty directory.
        for name in ["", "/a", "/a/x", "/b"] {
            let open = Record::default().text(&format!("{directory}{name}")).bytes(None).int(1);
            let made = self.control.ask(1, 1, &open.int(31).text("world").text("anyone").int(0));
            assert_eq!(made.error, 0, "{directory}{name} cannot be made: {}", made.text);
        }
        let before = self.translator.zxid;
        self.translator = IdTranslator { zxid: self.control.zxid, sessions: BTreeMap::new() };
        self.ends.clear();
        if before == 0 { 0 } else { self.control.zxid - before }
    }

    /// Describes the reply to a connect request.
    pub(crate) fn connected(&mut self, session: usize, frame: Option<&[u8]>) -> String {
        let client = &mut self.clients[session];
        let Some(frame) = frame else {
            client.line = None;
            return "closed without an answer".to_owned();
        };
        let mut fields = Fields(frame);
        let mut read = || {
            let (version, timeout, id) = (fields.int()?, fields.int()?, fields.long()?);
            let password = fields.bytes()?.unwrap_or_default().to_vec();
            Ok::<_, BadReply>((version, timeout, id, password, fields.0.to_vec()))
        };
        let (version, timeout, id, password, rest) = match read() {
            Ok(all) => all,
            Err(bad) => return format!("MALFORMED: {} in {frame:?}", bad.0),
        };
        let number = self.translator.sessions.len();
        let secret = if password.iter().any(|byte| *byte != 0) { "set" } else { "zero" };
        let length = password.len();
        let left = if id == 0 {
            client.line.take().and_then(|mut line| line.frame())
        } else {
            self.translator.sessions.entry(id).or_insert(number);
            (client.id, client.password) = (id, password);
            None
        };
        format!(
            "version {version}, time-out {timeout}, {}, password {secret} of {length}, rest {rest:?}, then {left:?}",
            self.translator.session(id),
        )
    }

    /// Reads one client's messages up to the next reply, or until the connection is closed.
    pub(crate) fn listen(&mut self, session: usize, shape: Shape, ends: bool) -> Vec<Said> {
        let client = &mut self.clients[session];
        let mut heard: Vec<Said> = Vec::new();
        while let Some(frame) = client.line.as_mut().and_then(Line::frame) {
            heard.push(self.translator.read(&frame, shape));
            if heard.last().is_some_and(|said| !said.is_event) {
                break;
            }
        }
        if let Some(said) = heard.last() {
            if !said.is_event && said.zxid > 0 {
                client.zxid = said.zxid;
                if ends && said.error == 0 {
                    self.ends.insert(said.zxid);
                }
            }
        }
        // Sort the events of an ended session, because their order is undefined.
        for group in heard.chunk_by_mut(|a, b| a.is_event && b.is_event && a.zxid == b.zxid) {
            if self.ends.contains(&group[0].zxid) {
                group.sort_unstable_by(|a, b| a.text.cmp(&b.text));
            }
        }
        heard
    }

    /// Returns the message, if any, that the server sends before it closes a session's connection.
    pub(crate) fn end(&mut self, session: usize) -> Option<Vec<u8>> {
        self.clients[session].line.take().and_then(|mut line| line.frame())
    }

    pub(crate) fn nodes(&mut self, directory: &str) -> Vec<Said> {
        let mut said = Vec::new();
        let mut paths = vec![directory.to_owned()];
        while let Some(path) = paths.pop() {
            for (number, shape) in [(4, Shape::DataStat), (6, Shape::AclStat)] {
                let record = Record::default().text(&path);
                let record = if number == 4 { record.byte(0) } else { record };
                let frame = self.control.frame(number, 1, &record);
                said.push(self.translator.read(&frame, shape));
            }
            paths.extend(self.control.children(&path));
        }
        said
    }

    /// Removes the sequence's sessions and nodes as far as possible.
    pub(crate) fn clean(&mut self) {
        for client in &mut self.clients {
            client.line = None;
            if client.id != 0 && client.open(&self.address, LONG, true, 0).is_some() {
                client.send(-11, 1, &Record::default());
                while client.line.as_mut().and_then(Line::frame).is_some() {}
            }
        }
        let mut paths = self.control.children("/");
        paths.retain(|path| path != "/zookeeper");
        let mut all = Vec::new();
        while let Some(path) = paths.pop() {
            paths.extend(self.control.children(&path));
            all.push(path);
        }
        for path in all.iter().rev() {
            self.control.ask(2, 1, &Record::default().text(path).int(-1));
        }
    }
}

impl Client {
    /// Opens a connection, and asks the server to resume the client's session or to create a new
    /// one. Returns the reply, if there is one.
    pub(crate) fn open(
        &mut self,
        address: &str,
        timeout: i32,
        knows_read_only: bool,
        seen: i64,
    ) -> Option<Vec<u8>> {
        let mut line = Line::open(address);
        let password = if self.id == 0 { vec![0; 16] } else { self.password.clone() };
        let record = Record::default().int(0).long(seen).int(timeout).long(self.id);
        let record = record.bytes(Some(&password));
        line.send(&if knows_read_only { record.byte(0) } else { record });
        let answer = line.frame();
        if let Some(answer) = &answer {
            // This is the control client, whose replies are not compared.
            if self.id == 0 && answer.len() >= 36 {
                self.id = Fields(&answer[8..]).long().unwrap_or_default();
            }
        }
        self.line = Some(line);
        answer
    }

    pub(crate) fn send(&mut self, number: i32, xid: i32, record: &Record) {
        let mut request = Record::default().int(xid).int(number);
        request.0.extend(&record.0);
        if let Some(line) = &mut self.line {
            line.send(&request);
        }
    }

    pub(crate) fn frame(&mut self, number: i32, xid: i32, record: &Record) -> Vec<u8> {
        self.send(number, xid, record);
        let frame = self.line.as_mut().and_then(Line::frame).expect("control is answered");
        self.zxid = Fields(&frame[4..]).long().expect("a reply");
        frame
    }

    /// Sends a request from the control client, which has no watches.
    pub(crate) fn ask(&mut self, number: i32, xid: i32, record: &Record) -> Said {
        let frame = self.frame(number, xid, record);
        let mut said = Said { zxid: self.zxid, text: format!("{frame:?}"), ..Said::default() };
        said.error = Fields(&frame[12..]).int().expect("a reply");
        said
    }

    pub(crate) fn children(&mut self, path: &str) -> Vec<String> {
        let frame = self.frame(8, 1, &Record::default().text(path).byte(0));
        let mut fields = Fields(&frame[16..]);
        let names = fields.list(|name| {
            let bytes = name.bytes()?.unwrap_or_default();
            Ok(String::from_utf8_lossy(bytes).into_owned())
        });
        let mut names = if fields.0.is_empty() { names.unwrap_or_default() } else { Vec::new() };
        names.sort_unstable();
        let above = if path == "/" { "" } else { path };
        names.iter().map(|name| format!("{above}/{name}")).collect()
    }
}
