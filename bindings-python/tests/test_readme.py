"""The snippets of the README work as printed."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from harness.processes import reap, spawn
from harness.server import Standalone

README = Path(__file__).resolve().parent.parent / "README.md"
FROM_KAZOO = README.parent.parent / "docs" / "from-kazoo.md"
FRAMEWORKS = FROM_KAZOO.with_name("frameworks.md")
IDIOMS = README.parent.parent / "docs" / "python.md"


def printed(page: Path, server: Standalone, times: int) -> list[str]:
    """Return the output of a page's snippets, with numbers replaced by N.

    The page must name the server at least `times` times. Snippets that begin with a file name belong to a
    framework, and are tested with that framework in tests/consumers.
    """
    snippets = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    code = "\n".join(snippet for snippet in snippets if not re.match(r"# \w+\.py:", snippet))
    assert code.count('"127.0.0.1:2181"') >= times
    code = code.replace("127.0.0.1:2181", server.hosts)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return [re.sub(r"\d+", "N", line) for line in done.stdout.splitlines()]


def test_the_snippets_run(server: Standalone) -> None:
    assert printed(README, server, 6) == [
        "holding, with token N",
        "holding",
        "it was free",
        "holding, with token N",
        "reading, with others",
        "writing, alone",
        "reading, with no other writer in between",
        "passed on",
        "leading, with token N",
        "a report",
        "None",
        "writing the report",
    ]


def test_the_first_minute_needs_no_zookeeper() -> None:
    page = README.read_text()
    (command,) = re.findall(r"^python (-m zklock\.testing) --port 2181 &", page, re.MULTILINE)
    process = spawn([sys.executable, *command.split()], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        listening = re.match(r"listening on (127\.0\.0\.1:\d+)\b", process.stdout.readline().decode())
        assert listening is not None
        code = re.search(r"```python\n(.*?)```", page, re.DOTALL).group(1)  # type: ignore[union-attr]
        assert code.count("127.0.0.1:2181") == 1
        code = code.replace("127.0.0.1:2181", listening.group(1))
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=False
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert re.fullmatch(r"holding, with token \d+\n", done.stdout)
    finally:
        reap(process)


def test_the_snippets_of_the_kazoo_page(server: Standalone) -> None:
    assert printed(FROM_KAZOO, server, 2) == ["['worker-N']", "leading, with token N"]


def test_the_idioms(server: Standalone) -> None:
    assert printed(IDIOMS, server, 6) == [
        "idle",
        "idle",
        "writing once with token N",
        "writing again with token N",
        "[N]",
        "/locks/report",
        "two of five",
        "released",
        "indexer N",
        "indexer",
        "the job is done",
        "closed",
        "row N has no date and zklock.LockLost",
        "released held",
        "held",
    ]


def test_gevent(server: Standalone) -> None:
    assert printed(FRAMEWORKS, server, 1) == ["a writes", "a has written", "b writes", "b has written"]
