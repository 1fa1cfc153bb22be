"""Tests of the Markdown width check: it reports prose that is too long, and only prose."""

from __future__ import annotations

import pytest

from markdown_width import WIDTH, too_long

LONG = "word " * (WIDTH // 5) + "word"


@pytest.mark.parametrize("prose", [LONG, f"* {LONG}", f"> {LONG}", f"# {LONG}", f"```\ncode\n```\n{LONG}"])
def test_long_prose_is_found(prose: str) -> None:
    assert too_long(f"short\n\n{prose}\n") == [prose.count("\n") + 3]


@pytest.mark.parametrize("other", ["x" * WIDTH, f"| {LONG} |", f"```sh\n{LONG}\n```", f"    {LONG}"])
def test_unwrappable_lines_are_ignored(other: str) -> None:
    assert too_long(f"short\n\n{other}\n") == []
