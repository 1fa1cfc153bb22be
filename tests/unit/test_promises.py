"""docs/packages.md states the promised sizes and times. The measured values are within these limits."""

from __future__ import annotations

import re

from packages.promises import PAGE, PROMISED, exceeded


def test_the_page_has_promises_and_figures() -> None:
    rows = re.findall(r"^\| (.+?) \| ([\d.]+ [a-zA-Z]+) \| (.*?) *\|$", PAGE.read_text(), re.MULTILINE)
    assert {name: limit for name, _, limit in rows if limit} == PROMISED
    assert exceeded({name: figure for name, figure, _ in rows}) == []


def test_more_than_is_promised_is_named() -> None:
    assert exceeded(PROMISED) == []
    for name, limit in PROMISED.items():
        number, unit = limit.split()
        assert exceeded({**PROMISED, name: f"{float(number) + 0.1:g} {unit}"}) == [name]
