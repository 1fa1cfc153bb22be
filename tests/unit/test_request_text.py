"""Tests of the decoder of client requests, with requests that kazoo has serialized."""

from __future__ import annotations

import struct

from kazoo.protocol import serialization
from kazoo.security import OPEN_ACL_UNSAFE

from harness import golden
from harness.request_text import RequestText

UUID = "0b8d0e1c-55a1-4d0e-8000-000000000001"


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def request(what: object) -> bytes:
    return framed(struct.pack(">ii", 7, what.type) + bytes(what.serialize()))  # type: ignore[attr-defined]


def test_each_request_names_what_it_asks_for() -> None:
    words = RequestText("/t/x")
    create = serialization.Create2(
        f"/t/x/_c_{UUID}-lock-", b'{"host":"here","label":null,"permits":2}', OPEN_ACL_UNSAFE, 3
    )
    assert words.request(request(create)) == [
        "create2 /locks/x/_c_<uuid 1>-lock- [ephemeral sequential; rwcda world:anyone] "
        '{"host": "<host>", "label": null, "permits": 2}'
    ]
    assert words.request(request(serialization.GetData(f"/t/x/_c_{UUID}-lock-0000000000", True))) == [
        "getData /locks/x/_c_<uuid 1>-lock-0000000000 watch"
    ]
    assert words.request(request(serialization.GetChildren("/t/x", None))) == ["getChildren /locks/x"]
    assert words.request(request(serialization.Delete("/t/x/n", 3))) == ["delete /locks/x/n version 3"]
    assert words.request(request(serialization.SetData("/t/x/n", b"__REVOKE__", -1))) == [
        "setData /locks/x/n __REVOKE__, version -1"
    ]


def test_a_transaction_has_a_line_for_each_operation() -> None:
    operations = [serialization.CheckVersion("/t/x/n", -1), serialization.Delete("/t/x/n", -1)]
    said = RequestText("/t/x").request(request(serialization.Transaction(operations)))
    assert said == ["multi", "  check /locks/x/n", "  delete /locks/x/n"]
    assert not golden.is_heartbeat(said)
    heartbeat = serialization.Transaction([serialization.CheckVersion("/t/x/n", -1)])
    assert golden.is_heartbeat(RequestText("/t/x").request(request(heartbeat)))


def test_a_handshake_names_its_timeout() -> None:
    connect = serialization.Connect(0, 0, 30_000, 0, b"\0" * 16, None)
    frame = framed(bytes(connect.serialize()))
    assert RequestText("/t/x").greeting(frame) == "connect version 0, new session, time-out 30000 ms"
    again = framed(bytes(connect._replace(session_id=5).serialize()))
    assert RequestText("/t/x").greeting(again) == "connect version 0, session, time-out 30000 ms"
