"""Every example in the README and some other pages works as printed."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.installed import dev
from harness.paths import COMMAND, NODE, PYTHON, TESTS
from harness.server import Standalone

SHOWN = ("README.md", "docs/observability.md", "docs/election.md", "docs/caching.md")
# Address of the server in the README's examples, where `zklock dev` starts it.
FIRST = "127.0.0.1:2181"
PAGES = {page: (TESTS.parent / page).read_text() for page in SHOWN}


def snippets(language: str) -> list[str]:
    """Return the code blocks of one language."""
    return [
        snippet
        for page in PAGES.values()
        for snippet in re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL)
    ]


def run_python(snippet: str, hosts: str) -> str:
    """Run a snippet and return its output."""
    code = snippet.replace(FIRST, hosts)
    return subprocess.run(
        [PYTHON, "-c", code], check=True, timeout=30, stdout=subprocess.PIPE, text=True
    ).stdout


def run_node(snippet: str, hosts: str, directory: Path) -> str:
    """Run a snippet and return its output."""
    script = directory / "readme.mjs"
    script.write_text(snippet.replace(FIRST, hosts))
    return subprocess.run([NODE, script], check=True, timeout=30, stdout=subprocess.PIPE, text=True).stdout


@pytest.mark.parametrize("snippet", snippets("python"))
def test_python_snippet(snippet: str, server: Standalone) -> None:
    run_python(snippet, server.hosts)


@pytest.mark.parametrize("snippet", snippets("js"))
def test_node_snippet(snippet: str, server: Standalone, node_project: Path) -> None:
    run_node(snippet, server.hosts, node_project)


@pytest.fixture
def first_minute() -> Iterator[str]:
    """Start the README's server on a free port. It needs no Java."""
    commands = re.findall(r"^(?:npx )?zklock dev +&", PAGES["README.md"], re.MULTILINE)
    assert len(commands) == 2
    with dev(COMMAND) as hosts:
        yield hosts


def test_the_first_minute_in_python(first_minute: str) -> None:
    snippet, *_ = re.findall(r"```python\n(.*?)```", PAGES["README.md"], re.DOTALL)
    assert FIRST in snippet
    assert re.match(r"holding /locks/report with token \d+\n", run_python(snippet, first_minute))


def test_the_first_minute_in_node(first_minute: str, node_project: Path) -> None:
    snippet, *_ = re.findall(r"```js\n(.*?)```", PAGES["README.md"], re.DOTALL)
    assert FIRST in snippet
    assert re.match(r"holding with token \d+n\n", run_node(snippet, first_minute, node_project))


def test_exporters_of_both_languages_agree(server: Standalone, node_project: Path) -> None:
    def exporter(language: str, mark: str) -> str:
        (snippet,) = (snippet for snippet in snippets(language) if mark in snippet)
        return snippet

    def numbers(text: str) -> dict[str, float]:
        lines = [line for line in text.splitlines() if line.startswith("zklock_")]
        reported = {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}
        # One exporter writes a bound as 1.0 and the other as 1.
        return {re.sub(r'\.0"', '"', name): value for name, value in reported.items()}

    python = numbers(run_python(exporter("python", "generate_latest"), server.hosts))
    node = numbers(run_node(exporter("js", "register.metrics"), server.hosts, node_project))
    # The state "forked" does not exist in Node.
    assert {name for name in python if "forked" not in name} == set(node)
    for reported in (python, node):
        # The metrics are read while the lock is held.
        assert reported['zklock_acquisitions_total{client=""}'] == 1
        assert reported['zklock_holders{client="",mode="mutex",path=""}'] == 1
        assert reported['zklock_wait_seconds_bucket{client="",le="+Inf"}'] == 1
        assert reported['zklock_hold_seconds_count{client=""}'] == 0
        assert reported['zklock_requests_total{client="",kind="create"}'] >= 1


def test_every_language_has_a_snippet() -> None:
    # Rust's example is a documentation test of the crate.
    for language in ("python", "js", "rust,no_run"):
        assert snippets(language), language
