"""Describes client requests in words: one line per request, without details that differ between runs."""

from __future__ import annotations

import json
import posixpath
import re
import struct
from collections.abc import Callable

from harness import wire

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|[0-9a-f]{32}")

MODES = {
    0: "persistent",
    1: "ephemeral",
    2: "persistent sequential",
    3: "ephemeral sequential",
    4: "container",
}

PERMISSIONS = "rwcda"

NO_PATH = frozenset(("ping", "closeSession", "auth", "setWatches", "setWatches2"))


class _Reader:
    """Reads the fields of one frame in order."""

    def __init__(self, frame: bytes, offset: int) -> None:
        self._frame = frame
        self._offset = offset

    def _unpack(self, layout: str) -> int:
        (value,) = struct.unpack_from(layout, self._frame, self._offset)
        self._offset += struct.calcsize(layout)
        return int(value)

    def number(self) -> int:
        return self._unpack(">i")

    def flag(self) -> bool:
        return bool(self._unpack(">B"))

    def buffer(self) -> bytes:
        size = max(0, self.number())
        self._offset += size
        return self._frame[self._offset - size : self._offset]

    def text(self) -> str:
        return self.buffer().decode()

    def acl(self) -> str:
        """Read an access control list, formatted as in `rwcda world:anyone`."""
        entries = []
        for _ in range(self.number()):
            bits = self.number()
            granted = "".join(letter for bit, letter in enumerate(PERMISSIONS) if bits >> bit & 1)
            entries.append(f"{granted} {self.text()}:{self.text()}")
        return ", ".join(entries)


class RequestText:
    """A converter from frames to text. It numbers uuids in order of appearance."""

    def __init__(self, path: str) -> None:
        self._paths = [(path, "/locks/x"), (posixpath.dirname(path), "/locks")]
        self._uuids: dict[str, str] = {}

    def _masked(self, text: str) -> str:
        for known, shown in self._paths:
            text = text.replace(known, shown)
        return UUID.sub(
            lambda found: self._uuids.setdefault(found[0], f"<uuid {len(self._uuids) + 1}>"), text
        )

    def _data(self, data: bytes) -> str:
        """Describe a node's data. Keys are kept, and values that differ between runs are masked."""
        try:
            fields = json.loads(data)
        except ValueError:
            return self._masked(data.decode(errors="backslashreplace")) or "nothing"
        if not isinstance(fields, dict):
            return str(fields)
        differs = {"host", "language", "owner", "pid", "since"}
        shown = {key: f"<{key}>" if key in differs and value else value for key, value in fields.items()}
        return json.dumps(shown)

    def greeting(self, frame: bytes) -> str:
        """Describe the first frame of a connection."""
        version, _zxid_high, _zxid_low, timeout = struct.unpack_from(">iiii", frame, 4)
        new = "new session" if not any(frame[20:28]) else "session"
        return f"connect version {version}, {new}, time-out {timeout} ms"

    def request(self, frame: bytes) -> list[str]:
        """Describe any frame except the first one. A transaction has one line for each of its operations."""
        return self._lines(wire.request(frame).op, _Reader(frame, 12))

    def _lines(self, op: str, fields: _Reader) -> list[str]:
        if op in ("multi", "multiRead"):
            return [op, *(f"  {line}" for line in self._members(fields))]
        if op in NO_PATH:
            return [op]
        path = self._masked(fields.text())
        more = OPERANDS.get(op)
        return [f"{op} {path}{more(self, fields) if more is not None else ''}"]

    def _members(self, fields: _Reader) -> list[str]:
        lines: list[str] = []
        while True:
            number, done = fields.number(), fields.flag()
            fields.number()
            if done:
                return lines
            lines += self._lines(wire.OPS.get(number, f"op{number}"), fields)

    def creation(self, fields: _Reader) -> str:
        """Describe the rest of a create request after the path."""
        data, acl, mode = self._data(fields.buffer()), fields.acl(), fields.number()
        return f" [{MODES[mode]}; {acl}] {data}"

    def setting(self, fields: _Reader) -> str:
        """Describe the rest of a set request after the path."""
        return f" {self._data(fields.buffer())}, version {fields.number()}"


def _watched(_words: RequestText, fields: _Reader) -> str:
    return " watch" if fields.flag() else ""


def _versioned(_words: RequestText, fields: _Reader) -> str:
    version = fields.number()
    return "" if version == -1 else f" version {version}"


def _watch_type(_words: RequestText, fields: _Reader) -> str:
    return f" type {fields.number()}"


OPERANDS: dict[str, Callable[[RequestText, _Reader], str]] = {
    "create": RequestText.creation,
    "create2": RequestText.creation,
    "createContainer": RequestText.creation,
    "setData": RequestText.setting,
    "delete": _versioned,
    "check": _versioned,
    "exists": _watched,
    "getData": _watched,
    "getChildren": _watched,
    "getChildren2": _watched,
    "addWatch": _watch_type,
    "removeWatches": _watch_type,
}
"""Readers of the operands after the path, by operation."""
