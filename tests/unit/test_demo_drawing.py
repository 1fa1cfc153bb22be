"""Tests of the demo's drawings in a terminal and as SVG, and of the picture in the README."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import pytest
from rich.console import Console

from demo import colours
from demo.cells import cells
from demo.picture import picture
from demo.screen import Screen, axis, chart, event_lines, redraws
from demo.timeline import Bar, Handoff, Kill, Kind, Timeline
from harness.paths import REPOSITORY

MS = 1_000_000
SVG = "{http://www.w3.org/2000/svg}"

# One process holds and hands on. The other is killed, and the first one then acquires the orphaned lock.
RUN = Timeline(
    lanes=("Python & co", "Node"),
    bars=(
        Bar(0, Kind.HOLDS, 0, 1000 * MS, 5001, asked=-200 * MS),
        Bar(1, Kind.WAITS, 0, 1002 * MS),
        Bar(1, Kind.HOLDS, 1002 * MS, 1400 * MS, 5003, asked=0),
        Bar(0, Kind.WAITS, 1050 * MS, 3400 * MS),
        Bar(1, Kind.ORPHANED, 1400 * MS, 3400 * MS, 5003, asked=0),
        Bar(0, Kind.HOLDS, 3400 * MS, 4000 * MS, 5007, asked=1050 * MS),
    ),
    handoffs=(Handoff(0, 1, 1000 * MS, 1002 * MS), Handoff(1, 0, 1400 * MS, 3400 * MS, by_expiry=True)),
    kills=(Kill(1, 1400 * MS),),
    span=4000 * MS,
)
SIGNS = {Kind.WAITS: "-", Kind.HOLDS: "#", Kind.ORPHANED: "?", None: " "}


def rows(timeline: Timeline, columns: int, total: int = 0) -> list[str]:
    return ["".join(SIGNS[kind] for kind in row) for row in cells(timeline, columns, total).lanes]


def test_each_lane_has_its_characters() -> None:
    assert rows(RUN, 8) == ["##-----#", "--#???? "]


def test_a_killed_process_is_not_shown_as_waiting() -> None:
    # In the last column of the killed process's session, the next holder has the lock for longer.
    _, killed = rows(RUN, 11)
    assert killed == "---#?????  "


def test_a_column_shows_one_holder_even_across_a_hand_off() -> None:
    for columns in range(3, 60):
        shown = cells(RUN, columns, 0)
        for column in range(columns):
            have = [row[column] for row in shown.lanes if row[column] in (Kind.HOLDS, Kind.ORPHANED)]
            assert len(have) <= 1
            assert (shown.lock[column] is None) == (not have)


def test_a_hand_off_is_drawn_at_the_start_of_the_hold() -> None:
    lock = cells(RUN, 40, 0).lock
    assert [(i, one.lane) for i, one in enumerate(lock) if one is not None and one.begins] == [
        (0, 0),
        (10, 1),
        (34, 0),
    ]


def test_an_unfinished_run_leaves_the_rest_of_the_screen_empty() -> None:
    assert rows(RUN, 16, 8000 * MS)[0] == "##-----#" + " " * 8
    # A run that takes longer than expected is scaled to the full width.
    assert rows(RUN, 8, 100 * MS) == rows(RUN, 8)


def test_kills_have_their_column() -> None:
    assert cells(RUN, 40, 0).kills == {1: 14}
    last = replace(RUN, kills=(Kill(1, RUN.span),))
    assert cells(last, 40, 0).kills == {1: 39}


@pytest.mark.parametrize(("columns", "seconds", "shown"), [(20, 4, "0 s  1    2    3"), (10, 100, "0 s  50")])
def test_the_axis_shows_seconds(columns: int, seconds: int, shown: str) -> None:
    assert axis(columns, seconds * 1000 * MS).rstrip() == shown


def test_the_chart_fits_into_a_narrow_terminal() -> None:
    console = Console(file=io.StringIO(), width=40)
    with console.capture() as capture:
        console.print(chart(RUN, 40, RUN.span))
    lines = capture.get().splitlines()
    assert lines[1].startswith("Python & co     ")
    assert "✗" in lines[2]
    assert max(map(len, lines)) <= 40


def test_event_lines_are_in_order() -> None:
    assert event_lines(RUN) == [
        "  0.00 s  Python & co     holds, with fencing token 5001, after 0.20 s",
        "  1.00 s  Node            holds, with fencing token 5003, after 1.00 s",
        "  1.40 s  Node            is killed with SIGKILL while it holds",
        "  3.40 s  Python & co     holds, with fencing token 5007, after 2.35 s",
    ]


@pytest.mark.parametrize(
    ("terminal", "environment", "drawn"),
    [(True, {}, True), (True, {"NO_COLOR": "1"}, False), (True, {"CI": "true"}, False), (False, {}, False)],
)
def test_the_screen_is_drawn_only_where_it_can_be_redrawn(
    terminal: bool, environment: dict[str, str], drawn: bool
) -> None:
    assert redraws(Console(file=io.StringIO(), force_terminal=terminal), environment) is drawn


def test_each_plain_line_is_printed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    output = io.StringIO()
    screen = Screen(Console(file=output, width=100), RUN.span)
    begun = replace(RUN, bars=RUN.bars[:3], kills=(), handoffs=())
    for timeline in (begun, begun, RUN):
        screen.show(timeline)
    screen.close(RUN)
    lines = output.getvalue().splitlines()
    assert lines[:4] == event_lines(RUN)
    assert lines[4].startswith("the lock")
    assert "\x1b" not in output.getvalue()


def group(root: Element, name: str) -> Element:
    found = root.find(f"{SVG}g[@id='{name}']")
    assert found is not None, name
    return found


def held(root: Element) -> Iterator[tuple[float, float]]:
    """Yield the edges of every bar that has the lock, except in the first row."""
    for box in group(root, "lanes").iter(f"{SVG}rect"):
        if {"holds", "orphaned"} & set(box.get("class", "").split()) and float(box.get("y", "0")) > 100:
            left = float(box.get("x", "nan"))
            yield left, left + float(box.get("width", "nan"))


def texts(element: Element) -> list[str]:
    return [text.text or "" for text in element.findall(f"{SVG}text")]


def structure(root: Element) -> object:
    """Return the parts of a picture that do not depend on the run."""
    style = root.findtext(f"{SVG}style")
    parts = [(part.tag, part.get("id")) for part in root]
    legend = [re.sub(r"[\d\u2009]+", "N", text) for text in texts(group(root, "legend"))]
    return parts, style, legend


def assert_one_at_a_time(root: Element) -> None:
    edges = sorted(held(root))
    assert len(edges) >= 3
    for (_, right), (left, _) in pairwise(edges):
        # Both edges are rounded to a tenth of a pixel.
        assert right <= left + 0.11


def test_the_picture_has_all_elements() -> None:
    root = ElementTree.fromstring(picture(RUN, "A <title>", "and what happened"))
    assert root.findtext(f"{SVG}title") == "A <title>"
    assert texts(group(root, "heading")) == ["A <title>", "and what happened"]
    assert texts(group(root, "axis")) == ["0 s", "1", "2", "3", "4"]
    # The lanes, and the tokens without their common leading digits.
    assert texts(group(root, "lanes")) == ["the lock", "Python & co", "Node", "1", "7", "3"]
    assert "Fencing tokens: 5\u2009000 and the number shown." in texts(group(root, "legend"))[-1]
    assert "server, which is for development and tests only." in texts(group(root, "legend"))[-1]
    arrows = list(group(root, "handoffs"))
    assert [arrow.get("class") for arrow in arrows] == ["arrow", "expiry"]
    # One arrow points down to the second lane's upper edge, the other up to the first lane's lower edge.
    ends = [re.sub(r".*M[\d.]+ (\d+)l-3 (-?5)h6z", r"\1 \2", arrow.get("d", "")) for arrow in arrows]
    assert ends == ["154 -5", "136 5"]
    assert texts(group(root, "kills")) == ["kill -9"]
    assert_one_at_a_time(root)


def test_an_overlap_is_visible_in_the_picture() -> None:
    thief = Bar(1, Kind.HOLDS, 500 * MS, 700 * MS, 5002)
    root = ElementTree.fromstring(picture(replace(RUN, bars=(*RUN.bars, thief)), "", ""))
    with pytest.raises(AssertionError):
        assert_one_at_a_time(root)


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize("colour", [*colours.LANES, colours.ALARM])
def test_every_colour_can_be_read_on_a_light_and_on_a_dark_page(colour: colours.Colour) -> None:
    # WCAG requires a contrast of 4.5 for text.
    assert contrast(colour.light, "#ffffff") >= 4.5
    assert contrast(colour.dark, "#0d1117") >= 4.5


def test_the_readmes_picture_is_up_to_date() -> None:
    root = ElementTree.parse(REPOSITORY / "docs" / "demo.svg").getroot()
    lanes = texts(group(root, "lanes"))[: len(group(root, "lanes").findall(f"{SVG}text[@text-anchor='end']"))]
    assert lanes == ["the lock", "Python", "asyncio", "Node", "Rust", "Java, Curator", "Python, killed"]
    today = ElementTree.fromstring(picture(replace(RUN, lanes=tuple(lanes[1:])), "", ""))
    assert structure(root) == structure(today), "draw it again: `make demo` with Java, cp demo.svg docs/"
    assert len(group(root, "kills").findall(f"{SVG}text")) == 1
    assert_one_at_a_time(root)
