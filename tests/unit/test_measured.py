"""Pages state the measured sizes and times of the packages, and these are within the promised limits."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest

import measured


@pytest.mark.parametrize("page", measured.PAGES, ids=lambda page: page.parent.name)
def test_the_pages_have_the_figures_that_were_measured(page: Path) -> None:
    text = page.read_text()
    stored = measured.read()
    assert "<!-- figures: " in text
    assert measured.filled(text, stored) == text, "run `make dist RENEW=1`"
    # Each stored figure appears in a page: if the figures change, the text changes too.
    changed = copy.deepcopy(stored)
    changed["figures"] = {what: value * 1.5 for what, value in stored["figures"].items()}
    assert measured.filled(text, changed) != text


def test_what_was_measured_is_what_is_promised() -> None:
    figures = measured.read()["figures"]
    assert figures.keys() == measured.FIGURES.keys()
    assert measured.exceeded(figures) == []


@pytest.mark.parametrize("what", measured.BARS)
def test_more_than_is_promised_is_named(what: str) -> None:
    figures = {**measured.BARS, what: measured.BARS[what] + 0.1}
    assert measured.exceeded(figures) == [f"{what}: {measured.BARS[what] + 0.1} of {measured.BARS[what]}"]
