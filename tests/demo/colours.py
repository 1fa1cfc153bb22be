"""One color for each lane, in the terminal and in the picture."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Colour:
    """The color of a lane in a terminal, and on a light and a dark background."""

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
    """Return the color of a lane. Colors repeat if there are many lanes."""
    return LANES[lane % len(LANES)]
