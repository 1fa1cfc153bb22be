"""Tests of `zklock demo` for a user who has only the command."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from xml.etree import ElementTree

import pytest

from harness.built import require
from harness.command import Command
from harness.paths import COMMAND, REPOSITORY
from harness.ports import free_port
from harness.steps import eventually
from harness.terminal import shell
from parts import PARTS

LIMIT = 20.0


def test_s575_the_demo_without_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    # The demo must not need Java, so the test removes it from the `PATH`. The demo must also ignore the
    # user's servers, so `ZKLOCK_HOSTS` names a server that does not exist.
    monkeypatch.setenv("PATH", str(Path(str(shutil.which("sleep"))).parent))
    began = time.monotonic()
    with Command(f"127.0.0.1:{free_port()}", "demo", env={"ZKLOCK_AUTH_FILE": "/nonexistent"}) as demo:
        ended = demo.wait(LIMIT)
    assert time.monotonic() - began < LIMIT
    assert (ended.status, ended.err) == (0, "")
    assert "\x1b" not in ended.out
    assert "for development only" in ended.out
    assert re.search(r"process 2 is killed while it holds", ended.out)
    assert re.search(r"11 grants, each with a higher fencing token\.", ended.out)
    assert re.search(r"the next process got the lock after [0-3]\.\d s\. 0 nodes left", ended.out)
    tokens = [int(token) for token in re.findall(r"fencing token (\d+),", ended.out)]
    assert tokens == sorted(set(tokens))
    picture = [line for line in ended.out.splitlines() if re.match(r"process \d  ", line)]
    assert len(picture) == 4
    assert "✗▒" in picture[1]
    assert all("█" in lane for lane in picture)
    for column in zip(*[lane.ljust(120) for lane in picture], strict=True):
        assert column.count("█") + column.count("▒") <= 1, "two processes hold at the same time"


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_s575_the_demo_on_a_terminal() -> None:
    with shell("") as user:
        user.type(shlex.join([str(COMMAND), "demo"]).encode() + b"; echo status $((100+$?))\n")
        user.see(
            lambda lines: sum(line.startswith("process") for line in lines) == 4,
            "the picture is drawn immediately",
        )
        user.wait("status 100", LIMIT)
        lines = user.screen()
        assert sum(line.startswith("process") for line in lines) == 4, "the picture is redrawn in place"
        assert any("11 grants" in line for line in lines)


def job(holds: int, end: str = "") -> str:
    """Return a command that acquires the lock of the demo this many times."""
    program = f"""
import time, zklock
with zklock.Client(session_timeout=2) as client:
    for _ in range({holds}):
        with zklock.Mutex(client, "/demo/lock"):
            time.sleep(0.3)
{end}"""
    return shlex.join([sys.executable, "-c", program])


def test_s575_programs_of_the_user(tmp_path: Path) -> None:
    picture = tmp_path / "demo.svg"
    programs = (f"--with=one={job(4)}", f"--with=two={job(4)}", f"--with=three & last={job(4)}")
    # The programs use the demo's server, not the user's.
    with Command(f"127.0.0.1:{free_port()}", "demo", *programs, f"--picture={picture}") as demo:
        ended = demo.wait(60)
    assert (ended.status, ended.err) == (0, ""), ended.out
    assert len(re.findall(r"three & last is killed while it holds", ended.out)) == 1
    # The last program is killed in its second hold.
    assert "10 grants, each with a higher fencing token." in ended.out
    root = ElementTree.fromstring(picture.read_text())
    texts = [text.text for text in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"one", "two", "three & last"} <= set(texts)
    style = re.compile("<style>.*</style>")
    (drawn, shown) = (style.search(file.read_text()) for file in (picture, REPOSITORY / "docs" / "demo.svg"))
    assert drawn is not None
    assert shown is not None
    assert drawn[0] == shown[0], "draw it again: `make demo` with Java, cp demo.svg docs/"


@pytest.mark.parametrize(
    ("programs", "message"),
    [
        (["--with=one"], "expected a title, an equals sign and a command"),
        (["--with=one=true"], "the demo needs at least two programs; pass --with for each of them"),
        ([f"--with=one={job(2)}", "--with=two=false"], "two failed: exit status: 1"),
        ([f"--with=one={job(2)}", "--with=two=no-such-program"], "two failed: exit status: 127"),
    ],
    ids=["no-command", "alone", "fails", "missing"],
)
def test_s575_a_program_that_cannot_contend(programs: list[str], message: str) -> None:
    with Command("", "demo", *programs) as demo:
        ended = demo.wait(60)
    assert ended.status != 0
    assert message in ended.err


def test_s575_a_last_program_that_is_not_killed(tmp_path: Path) -> None:
    """The last program ends before its second hold, so nothing shows a kill."""
    with Command("", "demo", f"--with=one={job(2)}", f"--with=two={job(1)}") as demo:
        ended = demo.wait(60)
    assert ended.status != 0
    assert "two: acquired /demo/lock 1 times; the last program must acquire it at least twice" in ended.err


def test_s575_a_picture_that_cannot_be_written(tmp_path: Path) -> None:
    with Command("", "demo", f"--picture={tmp_path / 'missing' / 'demo.svg'}") as demo:
        ended = demo.wait(60)
    assert ended.status != 0
    assert "cannot write the picture: " in ended.err
    assert "11 grants, each with a higher fencing token." in ended.out


def test_s575_no_program_survives_the_demo(tmp_path: Path) -> None:
    """A signal ends the demo and all programs that it started."""
    note = tmp_path / "pid"
    forever = shlex.join(["sh", "-c", f"echo $$ > {shlex.quote(str(note))}; exec sleep 600"])
    with Command("", "demo", f"--with=one={job(2)}", f"--with=two={forever}") as demo:
        eventually(lambda: note.exists() and note.read_text() != "", "the program runs")
        demo.signal(signal.SIGTERM)
        assert demo.wait(LIMIT).status == 128 + signal.SIGTERM
    with pytest.raises(ProcessLookupError):
        os.kill(int(note.read_text()), 0)


def test_s575_the_demo_in_every_language(tmp_path: Path) -> None:
    for part in ("python", "node", "worker", "command"):
        require(part)
    done = subprocess.run(
        [REPOSITORY / "tests" / "demo" / "run.sh", "--plain", "--picture", tmp_path / "demo.svg"],
        capture_output=True,
        text=True,
        timeout=170,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    for title in ("Python", "asyncio", "Node", "Rust"):
        assert len(re.findall(rf" s  {title} holds the lock, with fencing token", done.stdout)) == 5, (
            done.stdout
        )
    if PARTS["java"].lacking() is None:
        assert len(re.findall(" s  Java, Curator holds the lock, with fencing token", done.stdout)) == 5, (
            done.stdout
        )
    assert "Python, killed is killed while it holds" in done.stdout


def test_s575_the_demo_is_ended() -> None:
    with Command("", "demo") as demo:
        demo.read_until("process 1 holds")
        demo.signal(signal.SIGTERM)
        assert demo.wait(LIMIT).status == 128 + signal.SIGTERM
