"""The part of ZooKeeper's wire format that the proxy must understand."""

from __future__ import annotations

import socket
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

PATIENCE = 2.0
"""Timeout of a server's reply in seconds."""


class Frames:
    """Splits a stream of bytes into length-prefixed frames.

    A frame keeps its prefix, so the proxy can forward it unchanged.
    """

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """Return the frames that these bytes complete."""
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
    """The header of a request."""

    xid: int
    op: str


def request(frame: bytes) -> Request:
    """Read a request's header. A connection's first frame has none: it is the session handshake."""
    xid, op = struct.unpack_from(">ii", frame, 4)
    return Request(xid, OPS.get(op, f"op{op}"))


def reply_xid(frame: bytes) -> int:
    """Return the xid of the request that a reply belongs to; it is negative for an unsolicited message."""
    return int(struct.unpack_from(">i", frame, 4)[0])


_NOT_CARRIED_OUT = -2


def refused(frame: bytes, code: int) -> bytes:
    """Change the reply to a transaction of checks so that the first check fails with this code."""
    result = struct.Struct(">iBi")
    # The result of each check consists of a header only. One more header ends the list.
    checks = (len(frame) - 20) // result.size - 1
    codes = [code] + [_NOT_CARRIED_OUT] * (checks - 1)
    results = b"".join(result.pack(-1, 0, each) + struct.pack(">i", each) for each in codes)
    return _framed(frame[4:16] + struct.pack(">i", 0) + results + result.pack(-1, 1, -1))


def session(frame: bytes) -> tuple[int, bytes]:
    """Return session id and password of the server's handshake; both are zero if the session has expired."""
    _protocol, _timeout, session_id, size = struct.unpack_from(">iiqi", frame, 4)
    return session_id, frame[24 : 24 + size]


def without_session(frame: bytes) -> bytes:
    """Return a client's handshake without the session that it wants to resume."""
    size = struct.unpack_from(">i", frame, 28)[0]
    return frame[:20] + bytes(8) + frame[28:32] + bytes(size) + frame[32 + size :]


class SessionGone(Exception):
    """The server does not know this session, or it has expired."""


def _framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def _receive(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = connection.recv(size - len(data))
        if not piece:
            raise ConnectionError("the server hung up")
        data += piece
    return data


def _frame(connection: socket.socket) -> bytes:
    head = _receive(connection, 4)
    return head + _receive(connection, int(struct.unpack(">i", head)[0]))


def close_session(host: str, port: int, session_id: int, password: bytes) -> bool:
    """Try to close another client's session from our own connection, with the client's password.

    The handshake moves the session to our connection. The close request is sent in the same write, so that
    the client usually has no time to reconnect and take its session back.

    Return False if the result is unknown, because the client was faster or because the server closed our
    connection without a reply. Raise `SessionGone` if there is no such session.
    """
    greeting = struct.pack(">iqiqi", 0, 0, 10_000, session_id, len(password)) + password + b"\0"
    farewell = struct.pack(">ii", 1, -11)
    try:
        with socket.create_connection((host, port), timeout=PATIENCE) as connection:
            connection.sendall(_framed(greeting) + _framed(farewell))
            taken, _password = session(_frame(connection))
            if taken != session_id:
                raise SessionGone(f"there is no session {session_id:#x}")
            _xid, _zxid, error = struct.unpack_from(">iqi", _frame(connection), 4)
            return bool(error == 0)
    except (ConnectionError, TimeoutError):
        return False
