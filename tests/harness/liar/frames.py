"""Lies in frames and bodies: bytes that are no reply, or that cannot be a reply to this request."""

from __future__ import annotations

import random
from collections.abc import Iterator

from harness.liar import jute, tells
from harness.liar.server import Lie, Tell, welcome
from harness.liar.truth import DIRECTORY

HUGE = 0x7FFF_FFFF

STEPS = ("hello", "auth", "create", "list", "watch", "beat", "delete", "close")
"""Steps at which the server can lie to a client, after it has accepted the connection."""


def at(name: str, step: str, tell: Tell, **options: object) -> Lie:
    """Return a lie at a step, with the options that make the client reach the step."""
    given = dict(options)
    if step == "auth":
        given["options"] = {"auth": [("digest", "user:secret")]}
    if step == "watch":
        given["queued"] = True
    return Lie(f"{name} at {step}", step, tell, **given)  # type: ignore[arg-type]


NOISE = {
    "garbage": random.Random(10).randbytes(256),
    "another protocol": b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n",
    "a negative length": jute.int32(-1) + bytes(64),
    "the least length": jute.int32(-0x8000_0000) + bytes(64),
    "no length": jute.int32(0, 0, 0, 0),
    "a huge length": jute.int32(HUGE) + bytes(64),
    "a frame without a header": jute.frame(b"abc"),
}


def _noise() -> Iterator[Lie]:
    for name, data in NOISE.items():
        for step in STEPS:
            yield at(name, step, tells.raw(data))


def _cut() -> Iterator[Lie]:
    for step in ("hello", "create", "list", "watch", "beat"):
        yield at("half a body", step, tells.altered(lambda truth: truth[: len(truth) // 2]))
        yield at("a body without its last byte", step, tells.altered(lambda truth: truth[:-1]))
        yield at("no body", step, tells.body(b""))
        yield at("eight bytes too many", step, tells.altered(lambda truth: truth + bytes(8), harmless=True))
        yield at("a body of zeros", step, tells.altered(lambda truth: bytes(len(truth))))
        yield at("a body of ones", step, tells.altered(lambda truth: b"\xff" * len(truth)))


def _counts() -> Iterator[Lie]:
    for step in ("create", "list", "watch", "beat"):
        for count in (HUGE, -1, -2, -0x8000_0000, 0x00FF_FFFF):
            yield at(f"a count of {count:#x}", step, tells.body(jute.int32(count, 0)))
    for count in (HUGE, -1, 0x00FF_FFFF):
        names = jute.int32(1, count) + b"abcd"
        yield at(f"a name of length {count:#x}", "list", tells.body(names))
        yield at(
            f"a password of length {count:#x}",
            "hello",
            tells.body(welcome(3000, 5)[:16] + jute.int32(count) + bytes(17)),
        )
    yield at("no password", "hello", tells.body(welcome(3000, 5, b"")))
    yield at("a password of a mebibyte", "hello", tells.body(welcome(3000, 5, bytes(1 << 20))))
    yield at("another version", "hello", tells.body(b"\0\0\0\7" + welcome(3000, 5)[4:]))
    yield at("a server that only reads", "hello", tells.body(welcome(3000, 5, tail=b"\1")))
    yield at("a boolean of 7", "hello", tells.body(welcome(3000, 5, tail=b"\7")))


def _types() -> Iterator[Lie]:
    stat = jute.stat(7, 7)
    path = f"{DIRECTORY}/_c_1-lock-0000000000"
    bodies = {
        "a Stat": stat,
        "a listing": jute.buffers(["_c_1-lock-0000000000"]),
        "a node": jute.buffer(path) + stat,
        "data": jute.buffer(b"{}") + stat,
        "a result that never ends": (jute.int32(13) + b"\0" + jute.int32(0)) * 100,
        "an unknown result": jute.int32(4711) + b"\0" + jute.int32(0),
        "too many results": (jute.int32(13) + b"\0" + jute.int32(0)) * 100 + jute.int32(-1) + b"\1\0\0\0\0",
        "no result": jute.int32(-1) + b"\1" + jute.int32(-1),
        "a boolean of 7": jute.int32(13) + b"\7" + jute.int32(0),
        "a node elsewhere": jute.buffer("/x") + stat,
        "a node without a name": jute.buffer("") + stat,
        "a node without a number": jute.buffer(f"{DIRECTORY}/abc") + stat,
        "a path that is not UTF-8": jute.buffer(b"/lock/\xff\xfe\xc0") + stat,
        "an invalid sequence number": jute.buffer(f"{DIRECTORY}/_c_1-lock-99999999999999999999") + stat,
    }
    for name, data in bodies.items():
        for step in ("create", "list", "watch", "beat"):
            yield at(name, step, tells.body(data))


def lies() -> list[Lie]:
    """Return all lies of this module."""
    return [*_noise(), *_cut(), *_counts(), *_types()]
