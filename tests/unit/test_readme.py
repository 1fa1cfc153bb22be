"""What the README shows works, as it stands there."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from harness.paths import NODE, NODE_PACKAGE, PYTHON, TESTS
from harness.server import Standalone

README = (TESTS.parent / "README.md").read_text()


def snippets(language: str) -> list[str]:
    """The code blocks of one language."""
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


@pytest.mark.parametrize("snippet", snippets("python"))
def test_python_snippet(snippet: str, server: Standalone) -> None:
    code = snippet.replace("127.0.0.1:2181", server.hosts)
    subprocess.run([PYTHON, "-c", code], check=True, timeout=30)


@pytest.mark.parametrize("snippet", snippets("js"))
def test_node_snippet(snippet: str, server: Standalone, tmp_path: Path) -> None:
    # Found by name, as an installed package is.
    modules = tmp_path / "node_modules"
    modules.mkdir()
    (modules / "zklock").symlink_to(NODE_PACKAGE)
    script = tmp_path / "readme.mjs"
    script.write_text(snippet.replace("127.0.0.1:2181", server.hosts))
    subprocess.run([NODE, script], check=True, timeout=30)


def test_every_language_has_a_snippet() -> None:
    # Rust's is a documentation test of the crate.
    for language in ("python", "js", "rust,no_run"):
        assert snippets(language), language
