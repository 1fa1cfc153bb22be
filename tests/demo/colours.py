"""One colour for each lane, in the terminal and in the picture."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Colour:
    """The colour of a lane: in a terminal, and on a light and on a dark background."""

    terminal: str
    light: str
    dark: str


LANES = (
    Colour("green", "#1a7f4e", "#4ac787"),
    Colour("cyan", "#0b7285", "#3fc1d6"),
    Colour("yellow", "#8f5d00", "#e0ac3b"),
    Colour("blue", "#2a5db8", "#7fadff"),
    Colour("magenta", "#8540ae", "#cb92ee"),
    Colour("bright_red", "#5d6700", "#bcc84f"),
)
ALARM = Colour("red", "#d1242f", "#ff6b61")


def of(lane: int) -> Colour:
    """The colour of a lane; they begin again when there are many."""
    return LANES[lane % len(LANES)]
