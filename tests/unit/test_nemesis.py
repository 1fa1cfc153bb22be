"""Tests of those parts of the fault suite in which a mistake could hide every violation."""

from __future__ import annotations

import random
import signal
import socket
import struct
import subprocess
import threading
import time
from contextlib import ExitStack, closing
from dataclasses import asdict
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.nemesis.context import FaultContext, HadNoEffect
from harness.nemesis.faults import create_reply_lost, is_stopped
from harness.nemesis.judge import Excuses, too_many_inside
from harness.nemesis.record import Held
from harness.nemesis.register import Registers
from harness.nemesis.wallclock import WallClock
from harness.paths import PYTHON
from harness.proxy import Proxy
from harness.steps import eventually

SHOW = "import time; input(); print(time.time(), time.monotonic(), flush=True)"


def test_a_wall_clock_is_stepped_under_one_process_only() -> None:
    clock = WallClock()
    try:
        process = subprocess.Popen(
            [PYTHON, "-c", SHOW], env=clock.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        clock.step(-3600)
        wall, monotonic = map(float, process.communicate("\n", timeout=30)[0].split())
    finally:
        clock.close()
    assert -3660 < wall - time.time() < -3540
    assert abs(monotonic - time.monotonic()) < 60


def held(token: int, worker: str = "w") -> Held:
    return Held(worker, session=1, node=f"{worker}-{token}", granted=0, token=token)


def request(registers: Registers, do: str, token: int, *, worker: str = "w", **more: Any) -> dict[str, Any]:
    return registers.answer({"name": "r", "do": do, "held": asdict(held(token, worker)), **more})


def test_a_late_write_changes_only_the_plain_register() -> None:
    registers = Registers()
    early = request(registers, "read", 1)
    late = request(registers, "read", 2)
    assert request(registers, "write", 2, **late) == {"refused": False}
    assert request(registers, "write", 1, **early) == {"refused": True}
    assert request(registers, "read", 3) == {"plain": 1, "fenced": 1}
    assert registers.lost_updates() == {"r": 1}
    first, second = registers.writes
    assert not first.undid_plain
    assert second.undid_plain
    assert not second.undid_fenced


def test_a_read_fences_too() -> None:
    registers = Registers()
    early = request(registers, "read", 1)
    request(registers, "read", 2)
    assert request(registers, "write", 1, **early) == {"refused": True}


def test_a_write_with_a_repeated_token_is_reported() -> None:
    registers = Registers()
    early, late = request(registers, "read", 1), request(registers, "read", 1)
    request(registers, "write", 1, **late)
    request(registers, "write", 1, **early)
    assert registers.writes[1].undid_fenced


def test_a_change_during_a_read_hold_is_reported() -> None:
    registers = Registers()
    seen = request(registers, "first read", 2)
    request(registers, "read again", 2, **seen)
    request(registers, "write", 3, plain=0, fenced=0)
    request(registers, "read again", 2, **seen)
    still, changed = registers.readings
    assert not still.changed_plain
    assert not still.changed_fenced
    assert changed.changed_plain
    assert changed.changed_fenced


def test_a_reader_fences_off_an_earlier_writer() -> None:
    registers = Registers()
    early = request(registers, "read", 1)
    request(registers, "first read", 2)
    assert request(registers, "write", 1, **early) == {"refused": True}


def test_a_room_lists_its_permit_holders() -> None:
    registers = Registers()
    request(registers, "enter", 1, room_for=1)
    request(registers, "leave", 1)
    request(registers, "enter", 2, room_for=1)
    request(registers, "enter", 3, room_for=1, worker="x")
    assert [entry.others for entry in registers.entries] == [(), (), (held(2),)]
    assert len(too_many_inside(registers.entries, Excuses())) == 1


def stage_with(proxy: Proxy) -> FaultContext:
    """Return a context with one station whose client never sends a request."""
    connections = SimpleNamespace(
        drop_reply=lambda op: [proxy.drop_reply(op)], repair=proxy.cancel_dropped_replies
    )
    station = SimpleNamespace(is_ours=True, is_encrypted=False, connections=connections)
    nothing: Any = None
    return FaultContext(
        ensemble=nothing,
        links=nothing,
        observer=nothing,
        stations=[cast(Any, station)],
        locks=[],
        paused=set(),
        session_timeout=0.1,
        random=random.Random(1),
    )


def test_a_trap_that_is_not_triggered_fails_its_round(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FaultContext.wait_for_effect, "__defaults__", (0.2,))
    with Proxy("127.0.0.1:1") as proxy, pytest.raises(HadNoEffect, match="create2"):
        create_reply_lost(stage_with(proxy))


def test_a_fault_without_a_holder_fails_its_round() -> None:
    station = SimpleNamespace(await_holder=lambda _: None, detained=threading.Event())
    with Proxy("127.0.0.1:1") as proxy, ExitStack() as stack:
        holder = stage_with(proxy).holder(cast(Any, station))
        with pytest.raises(HadNoEffect, match="no owner"):
            stack.enter_context(holder)


def test_withheld_frames_are_counted() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        port = server.getsockname()[1]
        with (
            Proxy(f"127.0.0.1:{port}") as proxy,
            socket.create_connection(("127.0.0.1", proxy.port)) as client,
        ):
            frame = struct.pack(">iii", 8, 1, 4)
            client.sendall(frame)
            accepted = server.accept()[0]
            with closing(accepted):
                assert accepted.recv(12) == frame
                assert not proxy.withheld
                proxy.black_hole("up")
                client.sendall(frame)
                eventually(lambda: proxy.withheld["up"] == 1, "the request is held back")
                assert not proxy.withheld["down"]


def test_a_stopped_process_is_recognized() -> None:
    process = subprocess.Popen(["sleep", "60"])
    try:
        assert not is_stopped(process.pid)
        process.send_signal(signal.SIGSTOP)
        eventually(lambda: is_stopped(process.pid), "the process is stopped")
    finally:
        process.kill()
        process.wait()
