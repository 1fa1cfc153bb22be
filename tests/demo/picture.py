"""Draws the run as SVG that is readable on a light and on a dark background."""

from __future__ import annotations

from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from demo import colours
from demo.figures import SECOND
from demo.timeline import Bar, Handoff, Kind, Timeline

WIDTH, LEFT, RIGHT = 1000, 132, 20
TOP, LANE, HEIGHT = 78, 38, 20
LEGEND = 64

# Maximum width in pixels of a digit of a token.
DIGIT = 5.5


def _style(lanes: int) -> str:
    """Return the CSS rules for a light background, and the differences for a dark one."""

    def scheme(dark: bool) -> str:
        page, ink, pale, line, on = (
            ("#0d1117", "#e6edf3", "#9198a1", "#30363d", "#0d1117")
            if dark
            else ("#ffffff", "#1f2328", "#59636e", "#d1d9e0", "#ffffff")
        )
        alarm = colours.ALARM.dark if dark else colours.ALARM.light
        rules = [
            f".page{{fill:{page}}}.ink{{fill:{ink}}}.pale{{fill:{pale}}}.line{{stroke:{line}}}",
            f".arrow{{stroke:{pale};fill:{pale}}}.on{{fill:{on}}}.halo{{stroke:{page};stroke-width:7}}",
            f".alarm{{stroke:{alarm}}}.expiry{{stroke:{alarm};fill:{alarm}}}.warn{{fill:{alarm}}}",
        ]
        for lane in range(lanes):
            colour = colours.of(lane)
            rules.append(f".l{lane}{{fill:{colour.dark if dark else colour.light}}}")
        return "".join(rules)

    fonts = "text{font-family:system-ui,-apple-system,'Segoe UI',Helvetica,Arial,sans-serif;font-size:12px}"
    sizes = ".title{font-size:17px;font-weight:600}.lane,.token{font-weight:600}.token{font-size:9px}"
    waits = ".waits{opacity:.3}.faint{stroke-width:1}"
    return f"{fonts}{sizes}{waits}{scheme(False)}@media(prefers-color-scheme:dark){{{scheme(True)}}}"


class _Drawing:
    """A drawing in progress: converts times and rows to positions, and adds elements."""

    def __init__(self, timeline: Timeline) -> None:
        self.timeline = timeline
        self.root = Element("svg", xmlns="http://www.w3.org/2000/svg")
        self._scale = (WIDTH - LEFT - RIGHT) / timeline.span

    def x(self, at: int) -> float:
        """Return the horizontal position of a time."""
        return LEFT + at * self._scale

    @staticmethod
    def y(row: int) -> int:
        """Return the upper edge of the bars in a row. Row 0 belongs to the lock."""
        return TOP + row * LANE

    @staticmethod
    def text(parent: Element, x: float, y: float, text: str, **attributes: str) -> None:
        """Add a text."""
        SubElement(parent, "text", _given(x=x, y=y, **attributes)).text = text

    def group(self, name: str) -> Element:
        """Add a group to the picture."""
        return SubElement(self.root, "g", id=name)


def _given(**attributes: float | str) -> dict[str, str]:
    """Return attributes in XML form: `css` is the class, and pixels have one decimal."""
    return {
        {"css": "class", "anchor": "text-anchor"}.get(name, name): (
            value if isinstance(value, str) else f"{value:.1f}".removesuffix(".0")
        )
        for name, value in attributes.items()
    }


def _said(bar: Bar, title: str) -> str:
    """Return the tooltip of a bar."""
    span = f"from {bar.start / SECOND:.3f} s to {'…' if bar.open else f'{bar.end / SECOND:.3f} s'}"
    match bar.kind:
        case Kind.WAITS:
            return f"{title} waits {span}"
        case Kind.HOLDS:
            return f"{title} holds {span}, with fencing token {bar.token}"
        case Kind.ORPHANED:
            return f"{title} was killed; its session continues {span}"


def _bar(drawing: _Drawing, parent: Element, bar: Bar, row: int, css: str) -> None:
    tall = HEIGHT / 2 if bar.kind is Kind.WAITS else HEIGHT
    left, right = drawing.x(bar.start), drawing.x(bar.end)
    place = {"x": left, "y": drawing.y(row) + (HEIGHT - tall) / 2, "width": max(right - left, 0.5)}
    box = SubElement(parent, "rect", _given(**place, height=tall, css=css))
    if bar.kind is Kind.ORPHANED:
        box.set("fill", "url(#hatch)")
    SubElement(box, "title").text = _said(bar, drawing.timeline.lanes[bar.lane])


def _lanes(drawing: _Drawing, base: int) -> None:
    timeline = drawing.timeline
    group = drawing.group("lanes")
    drawing.text(group, LEFT - 12, drawing.y(0) + 14, "the lock", css="ink lane", anchor="end")
    for lane, title in enumerate(timeline.lanes):
        y = drawing.y(lane + 1) + 14
        drawing.text(group, LEFT - 12, y, title, css=f"l{lane} lane", anchor="end")
    for bar in sorted(timeline.bars, key=lambda bar: (bar.lane, bar.start)):
        css = {Kind.WAITS: f"l{bar.lane} waits", Kind.HOLDS: f"l{bar.lane} holds", Kind.ORPHANED: "orphaned"}
        _bar(drawing, group, bar, bar.lane + 1, css[bar.kind])
        if bar.kind is Kind.WAITS:
            continue
        # The first row shows the lock itself, so the bar appears there too.
        _bar(drawing, group, bar, 0, css[bar.kind])
        label = str((bar.token or 0) - base)
        left, right = drawing.x(bar.start), drawing.x(bar.end)
        # Leave space for the cross of a kill.
        killed = any((kill.lane, kill.at) == (bar.lane, bar.end) for kill in timeline.kills)
        if bar.kind is Kind.HOLDS and right - left > DIGIT * len(label) + (16 if killed else 0):
            x, base_line = (left + right) / 2, drawing.y(bar.lane + 1) + 13.5
            drawing.text(group, x, base_line, label, css="on token", anchor="middle")


def _arrow(drawing: _Drawing, parent: Element, one: Handoff) -> None:
    """Draw an arrow from the previous holder's lane to the next holder's lane, at the time of the grant."""
    x = drawing.x(one.taken)
    down = one.taker > one.giver
    start = drawing.y(one.giver + 1) + (HEIGHT if down else 0)
    end = drawing.y(one.taker + 1) + (0 if down else HEIGHT)
    if one.taker == one.giver:
        return
    tip = -5 if down else 5
    path = f"M{x:.1f} {start}V{end + tip}M{x:.1f} {end}l-3 {tip}h6z"
    box = SubElement(parent, "path", _given(d=path, css="expiry" if one.by_expiry else "arrow"))
    lanes = drawing.timeline.lanes
    took = (
        f"{one.took / 1e6:.1f} ms after its release" if not one.by_expiry else "once its session had expired"
    )
    SubElement(box, "title").text = f"from {lanes[one.giver]} to {lanes[one.taker]}, {took}"


def _axis(drawing: _Drawing, bottom: float) -> None:
    group = drawing.group("axis")
    seconds = drawing.timeline.span / SECOND
    step = next(step for step in (1, 2, 5, 10, 20, 50, 100, 1000) if seconds / step <= 20)
    for second in range(0, int(seconds) + 1, step):
        x = drawing.x(second * SECOND)
        SubElement(group, "path", _given(d=f"M{x:.1f} {TOP - 8}V{bottom}", css="line faint"))
        label = f"{second} s" if second == 0 else str(second)
        drawing.text(group, x, bottom + 15, label, css="pale", anchor="middle")


def _kills(drawing: _Drawing) -> None:
    group = drawing.group("kills")
    for kill in drawing.timeline.kills:
        x, y = drawing.x(kill.at), drawing.y(kill.lane + 1) + HEIGHT / 2
        cross = f"M{x - 6:.1f} {y - 6}l12 12m0 -12l-12 12"
        SubElement(group, "path", {"d": cross, "class": "halo"})
        mark = SubElement(group, "path", {"d": cross, "class": "alarm", "stroke-width": "3"})
        lane = drawing.timeline.lanes[kill.lane]
        SubElement(mark, "title").text = f"{lane} is killed at {kill.at / SECOND:.3f} s, while it holds"
        drawing.text(group, x, y + HEIGHT / 2 + 13, "kill -9", css="warn token", anchor="middle")


def _legend(drawing: _Drawing, y: float, base: int) -> None:
    group = drawing.group("legend")
    x = float(LEFT)

    def entry(text: str, wide: float) -> None:
        nonlocal x
        drawing.text(group, x + 34, y + 11, text, css="pale")
        x += wide

    SubElement(group, "rect", _given(x=x, y=y + 2, width=26.0, height=10.0, css="l0 waits"))
    entry("waits", 92)
    SubElement(group, "rect", _given(x=x, y=y - 2, width=26.0, height=18.0, css="l0 holds"))
    drawing.text(group, x + 13, y + 10.5, "42", css="on token", anchor="middle")
    entry("holds, with its fencing token", 226)
    SubElement(group, "path", _given(d=f"M{x + 13} {y - 4}V{y + 9}M{x + 13} {y + 14}l-3 -5h6z", css="arrow"))
    entry("is handed on", 126)
    SubElement(
        group, "path", {"d": f"M{x + 7} {y + 1}l12 12m0 -12l-12 12", "class": "alarm", "stroke-width": "3"}
    )
    entry("is killed", 104)
    SubElement(group, "rect", _given(x=x, y=y - 2, width=26.0, height=18.0, fill="url(#hatch)"))
    entry("its session, until it expires", 200)
    said = "On zklock's in-memory server, which is for development and tests only."
    if base:
        grouped = f"{base:,}".replace(",", "\u2009")
        said = f"Fencing tokens: {grouped} and the number shown. {said}"
    drawing.text(group, LEFT, y + 34, said, css="pale")


def _base(timeline: Timeline) -> int:
    """Return the base that the picture subtracts from all tokens: they are too long for the bars."""
    tokens = [bar.token for bar in timeline.bars if bar.token is not None]
    return min(tokens) // 100 * 100 if tokens else 0


def picture(timeline: Timeline, title: str, subtitle: str) -> str:
    """Draw a run. The title and the subtitle describe it and its result."""
    drawing = _Drawing(timeline)
    root, base = drawing.root, _base(timeline)
    bottom = drawing.y(len(timeline.lanes)) + HEIGHT + 14
    height = bottom + 30 + LEGEND
    root.attrib |= {"viewBox": f"0 0 {WIDTH} {height}", "role": "img", "aria-labelledby": "title what"}
    SubElement(root, "title", id="title").text = title
    SubElement(root, "desc", id="what").text = subtitle
    SubElement(root, "style").text = _style(len(timeline.lanes))
    hatch = SubElement(SubElement(root, "defs"), "pattern", id="hatch", width="6", height="6")
    hatch.attrib |= {"patternUnits": "userSpaceOnUse", "patternTransform": "rotate(45)"}
    SubElement(hatch, "path", {"d": "M1 0V6", "class": "alarm", "stroke-width": "2"})
    SubElement(root, "rect", _given(width=WIDTH, height=height, css="page", rx=8.0))
    heading = drawing.group("heading")
    drawing.text(heading, 20, 32, title, css="ink title")
    drawing.text(heading, 20, 53, subtitle, css="pale")
    _axis(drawing, bottom)
    _lanes(drawing, base)
    handed = drawing.group("handoffs")
    for one in timeline.handoffs:
        _arrow(drawing, handed, one)
    _kills(drawing)
    _legend(drawing, bottom + 34, base)
    ElementTree.indent(root, " ")
    return ElementTree.tostring(root, encoding="unicode") + "\n"
