//! Requests as the client crate writes them, and replies as ZooKeeper sends them.

/// Builder for a record or a frame.
#[derive(Clone, Default)]
pub(super) struct Bytes(pub(super) Vec<u8>);

impl Bytes {
    pub(super) fn int(mut self, value: i32) -> Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    pub(super) fn long(mut self, value: i64) -> Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    pub(super) fn flag(mut self, value: bool) -> Self {
        self.0.push(value.into());
        self
    }

    pub(super) fn buffer(self, value: impl AsRef<[u8]>) -> Self {
        let mut all = self.int(value.as_ref().len().try_into().unwrap());
        all.0.extend(value.as_ref());
        all
    }

    pub(super) fn list(self, values: &[&str]) -> Self {
        let all = self.int(values.len().try_into().unwrap());
        values.iter().fold(all, Self::buffer)
    }

    pub(super) fn raw(mut self, value: impl AsRef<[u8]>) -> Self {
        self.0.extend(value.as_ref());
        self
    }

    pub(super) fn stat(self) -> Self {
        let all =
            self.long(0x1_0000_0005).long(0x1_0000_0005).long(1_700_000_000_000).long(1_700_000_000_000);
        all.int(0).int(0).int(0).long(0x1000_0a1b_2c3d_4e5f).int(3).int(0).long(0x1_0000_0005)
    }

    pub(super) fn acl(self) -> Self {
        self.int(1).int(31).buffer("world").buffer("anyone")
    }

    /// Adds the length in front.
    pub(super) fn frame(self) -> Vec<u8> {
        Self::default().buffer(self.0).0
    }
}

pub(super) fn bytes() -> Bytes {
    Bytes::default()
}

pub(super) fn connect(timeout: i32) -> Vec<u8> {
    bytes().int(0).long(0).int(timeout).long(0).buffer([0; 16]).flag(false).frame()
}

pub(super) fn greeting(timeout: i32, session: i64) -> Vec<u8> {
    bytes().int(0).int(timeout).long(session).buffer([7; 16]).flag(false).frame()
}

pub(super) fn request(xid: i32, op: i32, body: &Bytes) -> Vec<u8> {
    bytes().int(xid).int(op).raw(&body.0).frame()
}

pub(super) fn reply(xid: i32, error: i32, body: &Bytes) -> Vec<u8> {
    bytes().int(xid).long(0x1_0000_0005).int(error).raw(&body.0).frame()
}

pub(super) fn event(kind: i32, path: &str) -> Vec<u8> {
    reply(-1, 0, &bytes().int(kind).int(3).buffer(path))
}

/// A request, and a valid reply of an honest server.
pub(super) struct Exchange {
    pub(super) name: &'static str,
    pub(super) op: i32,
    pub(super) request: Bytes,
    pub(super) reply: Bytes,
    /// Form of the reply: see `grammar`.
    pub(super) grammar: &'static str,
}

const PATH: &str = "/locks/a";
const NODE: &str = "/locks/a/_c_0123-lock-0000000007";

fn create() -> Bytes {
    bytes().buffer(NODE).buffer("{}").acl().int(3)
}

fn end(all: Bytes) -> Bytes {
    all.int(-1).flag(true).int(-1)
}

fn op(all: Bytes, op: i32) -> Bytes {
    all.int(op).flag(false).int(-1)
}

fn result(all: Bytes, kind: i32) -> Bytes {
    all.int(kind).flag(false).int(0)
}

fn error(all: Bytes, code: i32) -> Bytes {
    all.int(-1).flag(false).int(code).int(code)
}

/// Returns a transaction with every kind of operation.
fn transaction() -> Bytes {
    let all = op(bytes(), 13).buffer(NODE).int(-1);
    let all = op(all, 15).raw(create().0);
    let all = op(all, 19).raw(create().0);
    let all = op(all, 21).raw(create().0).long(1000);
    let all = op(all, 5).buffer(NODE).buffer("data").int(-1);
    end(op(all, 2).buffer(NODE).int(-1))
}

/// Returns one exchange of every kind.
pub(super) fn exchanges() -> Vec<Exchange> {
    let exchange = |name, op, request, reply, grammar| Exchange { name, op, request, reply, grammar };
    let path = || bytes().buffer(PATH);
    let watched = || path().flag(true);
    let created = || bytes().buffer(NODE).stat();
    let names = || bytes().list(&["_c_0123-lock-0000000007", "é-lock-0000000008", "x"]);
    let done = || bytes();
    let mut committed = result(bytes(), 13);
    for _ in 0..3 {
        committed = result(committed, 15).buffer(NODE).stat();
    }
    let committed = end(result(result(committed, 5).stat(), 2));
    let refused = end(error(error(error(error(error(error(bytes(), 0), -110), -2), -2), -2), -2));
    let ask = |all, kind| op(all, kind).raw(path().flag(false).0);
    let reads = end(ask(ask(ask(bytes(), 4), 8), 4));
    let read = end(error(result(result(bytes(), 4).buffer("{}").stat(), 8).raw(names().0), -101));
    vec![
        exchange("create", 1, create(), bytes().buffer(NODE), "p"),
        exchange("create2", 15, create(), created(), "pS"),
        exchange("createContainer", 19, create(), created(), "pS"),
        exchange("createTtl", 21, create().long(1000), created(), "pS"),
        exchange("delete", 2, path().int(-1), done(), ""),
        exchange("exists", 3, watched(), bytes().stat(), "S"),
        exchange("getData", 4, watched(), bytes().buffer("{}").stat(), "bS"),
        exchange("getData of no data", 4, path().flag(false), bytes().int(-1).stat(), "bS"),
        exchange("setData", 5, path().buffer("x").int(-1), bytes().stat(), "S"),
        exchange("getAcl", 6, path(), bytes().acl().stat(), "[mtt]S"),
        exchange("setAcl", 7, path().acl().int(-1), bytes().stat(), "S"),
        exchange("getChildren", 8, watched(), names(), "[n]"),
        exchange("getChildren of none", 8, watched(), bytes().int(0), "[n]"),
        exchange("getChildren2", 12, watched(), names().stat(), "[n]S"),
        exchange("sync", 9, path(), path(), "t"),
        exchange("multi", 14, transaction(), committed, "{13:|15:pS|15:pS|15:pS|5:S|2:}"),
        exchange("multi refused", 14, transaction(), refused, "{13:|15:pS|15:pS|15:pS|5:S|2:}"),
        exchange("multiRead", 22, reads, read, "(4:bS|8:[n]|4:bS)"),
        exchange("auth", 100, bytes().int(0).buffer("digest").buffer("a:b"), done(), ""),
        exchange("setWatches", 101, bytes().long(7).list(&[PATH]).list(&[]).list(&[NODE]), done(), ""),
        exchange("removeWatches", 18, path().int(3), done(), ""),
        exchange("addWatch", 106, path().int(0), bytes().int(0), "i"),
        exchange("getEphemerals", 103, path(), bytes().list(&[NODE]), "[p]"),
        exchange("getAllChildrenNumber", 104, path(), bytes().int(3), "c"),
        exchange("whoAmI", 107, bytes(), bytes().int(1).buffer("digest").buffer("a"), "[tt]"),
        exchange("closeSession", -11, bytes(), done(), ""),
    ]
}
