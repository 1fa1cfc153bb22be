"""pip, npm and cargo install the same command, which starts without an interpreter."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from subprocess import PIPE

import pytest

from harness import installed
from harness.installed import dev, one, processor_time, run
from harness.paths import NODE
from harness.processes import reap, spawn

TRIES = 20


@pytest.fixture(params=["pip", "npm", "cargo"])
def command(request: pytest.FixtureRequest) -> Path:
    """Return the path of the installed command. cargo installs the same binary that pip and npm packed."""
    if request.param == "pip":
        python: Path = request.getfixturevalue("python")
        return python.parent / "zklock"
    if request.param == "npm":
        modules: Path = request.getfixturevalue("modules")
        return modules / ".bin" / "zklock"
    return installed.command()


def test_s594_the_same_program(python: Path, modules: Path) -> None:
    (packed,) = modules.glob("zklock-*/zklock")
    one_hash, other_hash = (
        hashlib.sha256(path.read_bytes()).hexdigest() for path in (python.parent / "zklock", packed)
    )
    assert one_hash == other_hash


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (("run", "/packages/status", "--", "sh", "-c", "exit 7"), 7),
        (("run", "/packages/status", "--", "sh", "-c", "kill -TERM $$"), 128 + signal.SIGTERM),
        (("run", "/packages/status", "--", "./there-is-none"), 127),
        (("run",), 64),
        (("run", "/packages/status", "--", "zklock", "run", "-n", "/packages/status", "--", "true"), 75),
    ],
)
def test_s594_statuses(command: Path, words: tuple[str, ...], status: int) -> None:
    with dev(command) as hosts:
        env = {**os.environ, "ZKLOCK_HOSTS": hosts, "PATH": f"{command.parent}:{os.environ['PATH']}"}
        done = subprocess.run([command, *words], env=env, capture_output=True, timeout=30, check=False)
    assert done.returncode == status, done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_s594_signals(command: Path, number: signal.Signals, tmp_path: Path) -> None:
    """A signal to the started process reaches the job, because no wrapper process is in between."""
    job = "trap 'echo got it; exit 9' INT TERM HUP; echo runs; while :; do sleep 0.05; done"
    with dev(command) as hosts:
        words = [str(command), "run", "-z", hosts, "/packages/signals", "--", "sh", "-c", job]
        process = spawn(words, stdout=PIPE, cwd=tmp_path)
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"runs\n"
            assert Path(f"/proc/{process.pid}/comm").read_text() == "zklock\n"
            os.kill(process.pid, number)
            assert process.stdout.readline() == b"got it\n"
            assert process.wait(15) == 9
        finally:
            reap(process)


def test_s594_an_ignored_signal_stays_ignored(command: Path) -> None:
    """If a signal is ignored, as under `nohup`, the command keeps ignoring it. Node would reset this."""
    with dev(command) as hosts:
        job = "read status < /proc/self/status; grep ^SigIgn /proc/$$/status"
        script = f"trap '' HUP; exec {command} run -z {hosts} /packages/ignored -- sh -c '{job}'"
        said = run("sh", "-c", script, cwd=command.parent)
    assert int(said.split()[1], 16) & 1 << (signal.SIGHUP - 1), said


def test_s594_the_command_starts_faster_than_an_interpreter(command: Path) -> None:
    """The command starts faster than its package manager's interpreter, so it starts neither Python nor Node.

    The test measures processor time, which is the same on a busy machine. `make dist` measures wall-clock
    time.
    """
    version = one("*.whl").name.split("-")[1]
    assert run(command, "--version", cwd=command.parent) == f"zklock {version}\n"
    interpreters = {"python": [sys.executable, "-I", "-S", "-c", "pass"], "node": [NODE, "-e", "0"]}
    peer = interpreters["node" if command.parent.name == ".bin" else "python"]
    pairs = [(cost([str(command), "--version"]), cost(peer)) for _ in range(TRIES)]
    ours, theirs = (min(column) for column in zip(*pairs, strict=True))
    assert ours < theirs


def cost(command: list[str]) -> float:
    """Return the processor time in seconds that a command and its children take."""
    began = processor_time()
    subprocess.run(command, check=True, stdout=PIPE)
    return processor_time() - began
