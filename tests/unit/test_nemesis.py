"""The parts of the fault suite in which a flaw would stop it from biting."""

from __future__ import annotations

import subprocess
import time

from harness.nemesis.register import Registers
from harness.nemesis.wallclock import WallClock
from harness.paths import PYTHON

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


def request(registers: Registers, do: str, token: int, **numbers: int) -> dict[str, int]:
    return registers.answer({"name": "r", "writer": "w", "do": do, "token": token, **numbers})


def test_a_late_write_spoils_the_plain_register_and_not_the_fenced_one() -> None:
    registers = Registers()
    early = request(registers, "read", 1)
    late = request(registers, "read", 2)
    assert request(registers, "write", 2, **late) == {"refused": False}
    assert request(registers, "write", 1, **early) == {"refused": True}
    assert request(registers, "read", 3) == {"plain": 1, "fenced": 1}
    assert registers.lost_updates() == {"r": 1}
    first, second = registers.writes
    assert not first.spoilt_plain
    assert second.spoilt_plain
    assert not second.spoilt_fenced


def test_a_read_fences_too() -> None:
    registers = Registers()
    early = request(registers, "read", 1)
    request(registers, "read", 2)
    assert request(registers, "write", 1, **early) == {"refused": True}


def test_a_write_without_a_token_that_grows_would_be_seen() -> None:
    registers = Registers()
    early, late = request(registers, "read", 1), request(registers, "read", 1)
    request(registers, "write", 1, **late)
    request(registers, "write", 1, **early)
    assert registers.writes[1].spoilt_fenced
