"""The results of `tools/measure.py`: their file, and the pages that show them.

Everything between two markers of a page is generated. A test of the suite compares it with the JSON file.
"""

from __future__ import annotations

import datetime
import json
import os
import platform
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
STORED = ROOT / "benches" / "results" / "packages.json"
PAGES = (
    ROOT / "docs" / "packages.md",
    ROOT / "bindings-python" / "README.md",
    ROOT / "bindings-node" / "README.md",
)
BEGIN, END = "<!-- figures: {} -->", "<!-- end of figures -->"

Json = dict[str, Any]

FIGURES = {
    "wheel MB": "wheel",
    "extension MB": "its extension, unpacked",
    "command MB": "its command, unpacked",
    "sdist MB": "source distribution",
    "npm package MB": "npm package",
    "npm platform package MB": "npm package of the platform",
    "addon MB": "its addon, unpacked",
    "import ms": "`import zklock`",
    "require ms": "`require('zklock')`",
    "pip start ms": "start of the command, as pip installs it",
    "npm start ms": "the same, as npm does",
    "cargo start ms": "the same, as cargo does",
    "first minute s": "*first minute*: both installed, and the README's first programs run",
}
"""The figures, each with its unit and its name on the page."""

BARS = {
    "wheel MB": 6,
    "import ms": 30,
    "pip start ms": 60,
    "npm start ms": 60,
    "cargo start ms": 60,
    "first minute s": 60,
}
"""The promised limits."""


def exceeded(figures: Mapping[str, float]) -> list[str]:
    """Return the figures that exceed their limit."""
    return [f"{what}: {figures[what]} of {bar}" for what, bar in BARS.items() if figures[what] > bar]


def told(figures: Mapping[str, float], name: str) -> Json:
    """Return the data to store: figures, and the environment that they were measured in."""
    node = subprocess.run(["node", "--version"], stdout=subprocess.PIPE, text=True, check=True).stdout
    return {
        "made": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "platform": name,
        "processors": os.cpu_count(),
        "system": f"{platform.system()} {platform.release()}",
        "load_average": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        "node": node.strip().removeprefix("v"),
        "figures": dict(figures),
    }


def read() -> Json:
    """Return the stored data."""
    stored: Json = json.loads(STORED.read_text())
    return stored


def figure(what: str, value: float) -> str:
    """Format a figure with at most three digits."""
    return f"{value:.0f} {what.split()[-1]}" if value >= 100 else f"{value:.3g} {what.split()[-1]}"


def table(stored: Json) -> str:
    """Return a table of all figures with their limits."""
    lines = [
        f"Of `make dist` on {stored['made']}: {stored['platform']}, Python {stored['python']},",
        f"Node {stored['node']}. Times are the quickest of 30 starts.",
        "",
        "| | measured | promised at most |",
        "|---|---:|---:|",
    ]
    for what, shown in FIGURES.items():
        bar = f"{BARS[what]} {what.split()[-1]}" if what in BARS else ""
        lines.append(f"| {shown} | {figure(what, stored['figures'][what])} | {bar} |")
    return "\n".join(lines)


def parts(stored: Json) -> dict[str, str]:
    """Return each generated part of a page, by name."""
    of = {what: figure(what, value) for what, value in stored["figures"].items()}
    where = f"Measured on {stored['platform']}."
    return {
        "packages": table(stored),
        "wheel": f"The wheel has {of['wheel MB']}; `import zklock` takes {of['import ms']}. {where}",
        "npm": f"npm downloads {of['npm package MB']}, and {of['npm platform package MB']} for the platform; "
        f"`require('zklock')` takes\n{of['require ms']}. {where}",
    }


def filled(page: str, stored: Json) -> str:
    """Return a page with its generated parts replaced."""
    for name, text in parts(stored).items():
        begin = BEGIN.format(name)
        head, found, rest = page.partition(begin)
        if found:
            page = f"{head}{begin}\n\n{text}\n\n{END}{rest.split(END, 1)[1]}"
    return page


def renew(stored: Json) -> None:
    """Store figures and update the pages."""
    STORED.write_text(json.dumps(stored, indent=2) + "\n")
    for page in PAGES:
        page.write_text(filled(page.read_text(), stored))
