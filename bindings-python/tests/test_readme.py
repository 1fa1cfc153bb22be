"""What the README shows works as it is printed."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from harness.server import Standalone

README = Path(__file__).resolve().parent.parent / "README.md"


def test_the_snippets_run(server: Standalone) -> None:
    code = "\n".join(re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL))
    assert code.count("127.0.0.1:2181") == 4
    code = code.replace("127.0.0.1:2181", server.hosts)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    lines = [re.sub(r"\d+", "N", line) for line in done.stdout.splitlines()]
    assert lines == [
        "holding, with token N",
        "holding",
        "it was free",
        "holding, with token N",
        "reading, with others",
        "writing, alone",
        "reading, with no other writer in between",
        "passed on",
    ]
