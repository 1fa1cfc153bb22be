"""What little of ZooKeeper's wire format the proxy has to understand."""

from __future__ import annotations

import struct
from dataclasses import dataclass

OPS = {
    1: "create",
    2: "delete",
    3: "exists",
    4: "getData",
    5: "setData",
    6: "getACL",
    7: "setACL",
    8: "getChildren",
    9: "sync",
    11: "ping",
    12: "getChildren2",
    13: "check",
    14: "multi",
    15: "create2",
    16: "reconfig",
    17: "checkWatches",
    18: "removeWatches",
    19: "createContainer",
    20: "deleteContainer",
    21: "createTTL",
    22: "multiRead",
    100: "auth",
    101: "setWatches",
    102: "sasl",
    103: "getEphemerals",
    104: "getAllChildrenNumber",
    105: "setWatches2",
    106: "addWatch",
    107: "whoAmI",
    -11: "closeSession",
}

PING_XID = -2
EVENT_XID = -1


class Frames:
    """Cuts a stream of bytes into length-prefixed frames.

    A frame keeps its prefix: it is passed on as it came.
    """

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """The frames that are complete with this piece."""
        self._buffer += data
        frames = []
        while len(self._buffer) >= 4:
            size = 4 + int(struct.unpack_from(">i", self._buffer)[0])
            if len(self._buffer) < size:
                break
            frames.append(bytes(self._buffer[:size]))
            del self._buffer[:size]
        return frames


@dataclass(frozen=True)
class Request:
    """The head of a request."""

    xid: int
    op: str


def request(frame: bytes) -> Request:
    """Read a request's head. The first frame of a connection has none: it asks for a session."""
    xid, op = struct.unpack_from(">ii", frame, 4)
    return Request(xid, OPS.get(op, f"op{op}"))


def reply_xid(frame: bytes) -> int:
    """Which request a reply answers; negative for what nobody asked for."""
    return int(struct.unpack_from(">i", frame, 4)[0])


def session(frame: bytes) -> tuple[int, bytes]:
    """Session id and password out of the server's first frame; both are zero for a session that is gone."""
    _protocol, _timeout, session_id, size = struct.unpack_from(">iiqi", frame, 4)
    return session_id, frame[24 : 24 + size]
