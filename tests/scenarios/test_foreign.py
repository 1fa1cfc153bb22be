"""Nodes of other programs do not disturb a client. Text from such nodes is escaped in output."""

from __future__ import annotations

import json

import pytest

from harness.observer import Observer
from harness.server import Standalone
from harness.steps import Start, user
from harness.worker import Worker, WorkerError

OURS = b'{"host":"h","pid":1,"language":"rust","label":null,"since":1}'
# The client reads at most this many bytes of a node's data.
LIMIT = 4096

HOSTILE = {
    "deep": b"[" * LIMIT,
    "deep in an object": b'{"host":' * 500,
    "numbers": b"[" + b"9," * 2000 + b"9]",
    "a number": b'{"host":"h","pid":' + b"9" * 4000 + b',"language":"rust","since":1}',
    "escapes": b'{"host":"' + b"\\u0000" * 600 + b'"}',
    "no text": b'{"host":"' + b"\xff" * 4000 + b'"}',
}


@pytest.mark.parametrize("size", [LIMIT + 1, 1_000_000])
def test_s320_large_data_is_not_read(
    surface: str, size: int, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    observer.create(path)
    worker = user(start, surface, server.hosts, path)
    large = OURS[:-1] + b',"more":"' + b"x" * (size - len(OURS) - 10) + b'"}'
    for data in [large, OURS, OURS.ljust(LIMIT)]:
        observer.client.create(f"{path}/_c_x-lock-", data, ephemeral=True, sequence=True)
    found = worker.call("contenders", lock="m")["value"]
    assert [one["node"] for one in found] == [f"{path}/{node}" for node in observer.queue(path)]
    assert [one["data_length"] for one in found] == [len(large), len(OURS), LIMIT]
    assert [len(one["data"]) for one in found] == [0, len(OURS), LIMIT]
    assert [one["host"] for one in found] == [None, "h", "h"]


def test_s320_hostile_data_is_not_taken_for_a_description(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    observer.create(path)
    worker = user(start, surface, server.hosts, path)
    for data in HOSTILE.values():
        observer.client.create(f"{path}/_c_x-lock-", data, ephemeral=True, sequence=True)
    found = worker.call("contenders", lock="m")["value"]
    assert [one["data"].encode("latin-1") for one in found] == list(HOSTILE.values())
    assert [one["host"] for one in found] == [None] * len(HOSTILE)
    # The client still works.
    observer.client.create(f"{path}-free", b"")
    worker.lock(f"{path}-free", lock="free")
    worker.hold("free", lock="free")
    worker.release("free")


# Characters that move a terminal's cursor, begin a line in a log, reverse text direction, or are invisible.
UNSAFE_CHARACTERS = "\x1b[31m\x9b1m\x07\r\n\0\u202e\u2066\u2028\u2029\u200b"
# The subset of `UNSAFE_CHARACTERS` that the server allows in the name of a node.
UNSAFE_NAME = "\u202e\u2066\u2028\u2029\u200b"


def assert_printable(reported: list[str]) -> None:
    """Assert that the texts contain no unprintable characters."""
    for text in reported:
        assert text.isprintable(), repr(text)


def logged(worker: Worker) -> list[str]:
    """Return all text in the worker's log so far."""
    lines = [line for line in worker.lines() if line["event"] == "log"]
    return [text for line in lines for text in [line["text"], *line["fields"]]]


def unsafe_description(**more: int) -> bytes:
    said = {name: f"{name} {UNSAFE_CHARACTERS}" for name in ("host", "language", "label")}
    return json.dumps({**said, "pid": 1, "since": 1, **more}).encode()


def test_s321_text_of_other_clients_is_escaped(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    path = f"{path}/{UNSAFE_NAME}"
    observer.create(path)
    worker = user(start, surface, server.hosts, path)
    worker.call("log")
    # The client logs one warning for each node that it ignores.
    observer.client.create(f"{path}/odd {UNSAFE_NAME}", b"", ephemeral=True)
    theirs = observer.client.create(
        f"{path}/{UNSAFE_NAME}-lock-", unsafe_description(), ephemeral=True, sequence=True
    )
    (name,) = [f"{path}/{node}" for node in observer.queue(path) if node.endswith("0000000001")]

    shown = worker.call("shown", lock="m")["value"]
    assert_printable(shown)
    assert any("u{202e}" in text and "host" in text for text in shown), shown
    # The attributes contain the original text.
    (found,) = worker.call("contenders", lock="m")["value"]
    assert (found["node"], found["host"]) == (name, f"host {UNSAFE_CHARACTERS}")

    taken = worker.acquire("l", timeout=0.1)
    assert taken.line()["event"] == "timeout"
    worker.call("break", client="c", node=theirs)
    gone = worker.send("break", client="c", node=theirs).error()
    assert gone.code == "NOT_HELD"
    worker.hold()
    worker.release()
    messages = [str(gone)]
    # The error about the number of permits contains the other contender's host.
    observer.create(f"{path}/s/leases")
    observer.client.create(
        f"{path}/s/leases/_c_x-lease-", unsafe_description(permits=7), ephemeral=True, sequence=True
    )
    worker.lock(f"{path}/s", lock="s", kind="semaphore", permits=3)
    mismatch = worker.acquire("p", lock="s").error()
    assert mismatch.code == "PERMITS_MISMATCH"
    assert "host" in str(mismatch)
    assert_printable([*messages, str(mismatch)])
    said = logged(worker)
    assert any("odd" in text for text in said)
    assert_printable(said)


def test_s322_a_client_that_does_not_identify_itself(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    worker = start(surface)
    worker.connect(server.hosts, label="nightly", identify=False)
    worker.lock(path, label="report")
    worker.hold()
    (node,) = observer.queue(path)
    assert observer.client.get(f"{path}/{node}")[0] == b""
    (found,) = worker.call("contenders", lock="m")["value"]
    assert {found[field] for field in ("host", "pid", "language", "label", "since")} == {None}
    worker.release()
    # Contenders must agree on the number of permits, so each writes it into its node and compares it.
    worker.lock(f"{path}-s", lock="s", kind="semaphore", permits=3)
    worker.hold("p", lock="s")
    (node,) = observer.queue(f"{path}-s/leases")
    assert observer.client.get(f"{path}-s/leases/{node}")[0] == b'{"permits":3}'
    other = user(start, surface, server.hosts, path)
    other.lock(f"{path}-s", lock="s", kind="semaphore", permits=4)
    mismatch: WorkerError = other.acquire("p", lock="s").error()
    assert mismatch.code == "PERMITS_MISMATCH"
    assert node in str(mismatch)
    worker.release("p")
