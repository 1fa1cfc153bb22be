"""The true state of a lying server: nodes, sessions, and the true replies that its clients received."""

from __future__ import annotations

from dataclasses import dataclass, field

from harness.liar import jute
from harness.observer import SEQUENCED, sequence

DIRECTORY = "/lock"
"""Directory of the only lock. It exists from the start."""

NO_NODE, NODE_EXISTS, BAD_VERSION, UNIMPLEMENTED = -101, -110, -103, -6

OPS = {
    1: "create",
    15: "create",
    19: "parents",
    2: "delete",
    3: "exists",
    4: "watch",
    8: "list",
    12: "list",
    9: "sync",
    11: "ping",
    14: "beat",
    18: "unwatch",
    22: "look",
    100: "auth",
    101: "rewatch",
    102: "sasl",
    103: "ephemerals",
    105: "rewatch",
    -11: "close",
}
"""Names of the operations that the client requests, by opcode.

The client reads a node's data only to set a watch, so `getData` is named `watch`. A transaction that consists
only of checks is a heartbeat (`beat`). Any other transaction is named `parents`.
"""


@dataclass(frozen=True)
class Request:
    """A request, reduced to the fields that matter here."""

    xid: int
    op: str
    kind: int
    payload: bytes

    @classmethod
    def read(cls, frame: bytes) -> Request:
        """Parse a request without its length."""
        head = jute.Reader(frame)
        xid, kind = head.int32(), head.int32()
        op = OPS.get(kind, f"op{kind}")
        if op == "beat" and jute.Reader(frame[8:]).int32() != 13:
            op = "parents"
        return cls(xid, op, kind, frame[8:])


@dataclass
class Node:
    """A node of the tree."""

    owner: int
    czxid: int
    data: bytes = b""


@dataclass
class Proof:
    """A write that the server acknowledged.

    It extends the session's leases to half a session timeout after the server received the write.
    """

    asked: float
    timeout: float


@dataclass
class Truth:
    """The tree, and the record of true replies. Times are in seconds of CLOCK_MONOTONIC."""

    zxid: int = 0
    nodes: dict[str, Node] = field(default_factory=dict)
    sessions: set[int] = field(default_factory=set)
    # Nodes whose creation the server confirmed to the client, and nodes that a listing showed as first in the
    # queue. A node in both sets has the lock.
    acknowledged: set[str] = field(default_factory=set)
    first: set[str] = field(default_factory=set)
    proofs: list[Proof] = field(default_factory=list)
    _numbers: int = 0
    _begun: int = 0

    def __post_init__(self) -> None:
        self.nodes[DIRECTORY] = Node(0, 1)
        self.zxid = 1

    def begin(self, asked: int) -> int:
        """Return the session that a client gets when it asks for the session `asked`.

        It is a new session if `asked` is 0, the same session if it still exists, or 0 if it has expired.
        """
        if asked == 0:
            self._begun += 1
            asked = 0x1000 + self._begun
            self.sessions.add(asked)
        return asked if asked in self.sessions else 0

    def add(self, owner: int, data: bytes = b"", prefix: str = "_c_0-lock-") -> str:
        """Add a node of any session at the end of the queue. Return its path."""
        path = f"{DIRECTORY}/{prefix}{self._numbers:010}"
        self._numbers += 1
        self.zxid += 1
        self.nodes[path] = Node(owner, self.zxid, data)
        return path

    def children(self) -> list[str]:
        """Return the names in the queue, in arbitrary order."""
        return [path.rsplit("/", 1)[1] for path in self.nodes if path.startswith(f"{DIRECTORY}/")]

    def shown(self, names: list[bytes]) -> None:
        """Record a listing that was sent: its first contender can take the lock."""
        texts = [name.decode(errors="replace") for name in names]
        queue = sorted((name for name in texts if SEQUENCED.search(name)), key=sequence)
        if queue:
            self.first.add(f"{DIRECTORY}/{queue[0]}")

    def gone(self, path: str) -> None:
        """Record a reported deletion: the next contender can take the lock."""
        behind = [name for name in self.children() if f"{DIRECTORY}/{name}" != path]
        self.shown([name.encode() for name in behind])

    @property
    def granted(self) -> set[str]:
        """Nodes that were granted the lock, according to the true replies."""
        return self.acknowledged & self.first

    def execute(self, request: Request, session: int) -> tuple[int, bytes]:
        """Execute a request. Return the error and the body of the reply."""
        reader = jute.Reader(request.payload)
        match request.op:
            case "create" | "parents" if request.kind != 14:
                return self._create(reader, session)
            case "parents":
                return self._transaction([("no", UNIMPLEMENTED)])
            case "beat":
                return self._check(reader)
            case "delete":
                return self._delete(reader.text())
            case "watch" | "exists":
                path = reader.text()
                node = self.nodes.get(path)
                if node is None:
                    return NO_NODE, b""
                told = jute.stat(node.czxid, node.owner, len(node.data))
                return 0, told if request.op == "exists" else jute.buffer(node.data) + told
            case "look":
                return 0, self._look(reader)
            case "list":
                told = jute.buffers(self.children())
                return 0, told if request.kind == 8 else told + jute.stat(1, 0)
            case "ephemerals":
                return 0, jute.buffers([path for path, node in self.nodes.items() if node.owner == session])
            case "sync":
                return 0, jute.buffer(reader.text())
            case "close":
                self.sessions.discard(session)
                self.nodes = {path: node for path, node in self.nodes.items() if node.owner != session}
                return 0, b""
            case "sasl":
                return 0, jute.int32(-1)
            case _:
                return 0, b""

    def _create(self, reader: jute.Reader, session: int) -> tuple[int, bytes]:
        path, data = reader.text(), reader.buffer()
        for _ in range(reader.int32()):
            reader.int32(), reader.buffer(), reader.buffer()
        flags = reader.int32()
        if flags in (2, 3):
            directory, prefix = path.rsplit("/", 1)
            if directory != DIRECTORY:
                return NO_NODE, b""
            path = self.add(session if flags & 1 else 0, data, prefix)
        elif path in self.nodes:
            return NODE_EXISTS, b""
        else:
            self.zxid += 1
            self.nodes[path] = Node(session if flags == 1 else 0, self.zxid, data)
        node = self.nodes[path]
        return 0, jute.buffer(path) + jute.stat(node.czxid, node.owner, len(data))

    def _delete(self, path: str) -> tuple[int, bytes]:
        if self.nodes.pop(path, None) is None:
            return NO_NODE, b""
        self.zxid += 1
        return 0, b""

    def _check(self, reader: jute.Reader) -> tuple[int, bytes]:
        results: list[tuple[str, int]] = []
        while True:
            _kind, done, _error = reader.int32(), reader.flag(), reader.int32()
            if done:
                return self._transaction(results)
            path = reader.text()
            reader.int32()
            results.append((path, 0 if path in self.nodes else NO_NODE))

    def _look(self, reader: jute.Reader) -> bytes:
        found: list[bytes] = []
        while True:
            _kind, done, _error = reader.int32(), reader.flag(), reader.int32()
            if done:
                return b"".join(found) + jute.int32(-1) + b"\1" + jute.int32(-1)
            node = self.nodes.get(reader.text())
            reader.flag()
            if node is None:
                found.append(jute.int32(-1) + b"\0" + jute.int32(NO_NODE, NO_NODE))
            else:
                told = jute.buffer(node.data) + jute.stat(node.czxid, node.owner, len(node.data))
                found.append(jute.int32(4) + b"\0" + jute.int32(0) + told)

    @staticmethod
    def _transaction(results: list[tuple[str, int]]) -> tuple[int, bytes]:
        failed = any(error for _, error in results)
        body, earlier = b"", True
        for _path, error in results:
            if failed:
                # The server reports each operation after the failed one as a runtime inconsistency.
                code = error if earlier else -2
                earlier = earlier and not error
                body += jute.int32(-1) + b"\0" + jute.int32(code, code)
            else:
                body += jute.int32(13) + b"\0" + jute.int32(0)
        return 0, body + jute.int32(-1) + b"\1" + jute.int32(-1)
