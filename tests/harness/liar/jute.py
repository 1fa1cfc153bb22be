"""ZooKeeper's serialization: reads requests and writes replies."""

from __future__ import annotations

import struct
from collections.abc import Iterable


class Reader:
    """Reads a request's fields in order."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def _take(self, form: str) -> int:
        value: int = struct.unpack_from(form, self._data, self._at)[0]
        self._at += struct.calcsize(form)
        return value

    def int32(self) -> int:
        """Read a 32-bit integer."""
        return self._take(">i")

    def int64(self) -> int:
        """Read a 64-bit integer."""
        return self._take(">q")

    def flag(self) -> bool:
        """Read a boolean."""
        return self._take(">?") != 0

    def buffer(self) -> bytes:
        """Read a byte string. A null string counts as empty."""
        size = max(self.int32(), 0)
        found = self._data[self._at : self._at + size]
        self._at += size
        return found

    def text(self) -> str:
        """Read a string."""
        return self.buffer().decode()


def int32(*values: int) -> bytes:
    """Encode 32-bit integers."""
    return struct.pack(f">{len(values)}i", *values)


def int64(*values: int) -> bytes:
    """Encode 64-bit integers."""
    return struct.pack(f">{len(values)}q", *values)


def buffer(data: bytes | str) -> bytes:
    """Encode bytes or a string, with the length in front."""
    raw = data.encode() if isinstance(data, str) else data
    return int32(len(raw)) + raw


def buffers(items: Iterable[bytes | str]) -> bytes:
    """Encode a list of byte strings, with its length in front."""
    packed = [buffer(item) for item in items]
    return int32(len(packed)) + b"".join(packed)


def frame(body: bytes) -> bytes:
    """Encode a message, with its length in front."""
    return int32(len(body)) + body


def header(xid: int, zxid: int, error: int = 0) -> bytes:
    """Encode the header of a reply."""
    return int32(xid) + int64(zxid) + int32(error)


def stat(czxid: int, owner: int, size: int = 0) -> bytes:
    """Encode the Stat of a node."""
    return int64(czxid, czxid, 0, 0) + int32(0, 0, 0) + int64(owner) + int32(size, 0) + int64(czxid)


def event(kind: int, path: bytes | str, state: int = 3) -> bytes:
    """Encode a watch event. Kinds: 1 created, 2 deleted, 3 data changed, 4 children changed."""
    return frame(header(-1, -1) + int32(kind, state) + buffer(path))
