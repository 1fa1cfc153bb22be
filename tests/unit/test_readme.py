"""Every example in the README and the other pages works as it is printed."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from harness.paths import NODE, PYTHON, TESTS
from harness.server import Standalone

SHOWN = ("README.md", "docs/observability.md", "docs/election.md")
PAGES = {page: (TESTS.parent / page).read_text() for page in SHOWN}


def snippets(language: str) -> list[str]:
    """The code blocks of one language."""
    return [
        snippet
        for page in PAGES.values()
        for snippet in re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL)
    ]


def run_python(snippet: str, server: Standalone) -> str:
    """Run a snippet; returns what it prints."""
    code = snippet.replace("127.0.0.1:2181", server.hosts)
    return subprocess.run(
        [PYTHON, "-c", code], check=True, timeout=30, stdout=subprocess.PIPE, text=True
    ).stdout


def run_node(snippet: str, server: Standalone, directory: Path) -> str:
    """Run a snippet; returns what it prints."""
    script = directory / "readme.mjs"
    script.write_text(snippet.replace("127.0.0.1:2181", server.hosts))
    return subprocess.run([NODE, script], check=True, timeout=30, stdout=subprocess.PIPE, text=True).stdout


@pytest.mark.parametrize("snippet", snippets("python"))
def test_python_snippet(snippet: str, server: Standalone) -> None:
    run_python(snippet, server)


@pytest.mark.parametrize("snippet", snippets("js"))
def test_node_snippet(snippet: str, server: Standalone, node_project: Path) -> None:
    run_node(snippet, server, node_project)


def test_exporters_tell_the_same(server: Standalone, node_project: Path) -> None:
    def exporter(language: str) -> str:
        (snippet,) = (snippet for snippet in snippets(language) if "_bucket" in snippet)
        return snippet

    def numbers(text: str) -> dict[str, float]:
        lines = [line for line in text.splitlines() if line and not line.startswith("#")]
        return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}

    python = numbers(run_python(exporter("python"), server))
    node = numbers(run_node(exporter("js"), server, node_project))
    # One program writes a bound as 1.0 where the other writes 1.
    assert {name.replace('.0"', '"') for name in python} == set(node)
    for told in (python, node):
        assert told["zklock_acquisitions_total"] == 1
        assert told['zklock_wait_seconds_bucket{le="+Inf"}'] == told["zklock_hold_seconds_count"] == 1
        assert told['zklock_requests_total{kind="delete"}'] == 1


def test_every_language_has_a_snippet() -> None:
    # Rust's example is a documentation test of the crate.
    for language in ("python", "js", "rust,no_run"):
        assert snippets(language), language
