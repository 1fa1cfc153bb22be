"""Writes the plots and the figures in docs/performance.md and the README: `make bench-report`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from locks import plots
from locks.report import PICTURES, digest, figures, filled
from locks.results import RESULTS, Table, read


def main() -> int:
    """Write the plots and the pages."""
    parser = argparse.ArgumentParser(prog="make bench-report", description=__doc__)
    parser.add_argument("--results", type=Path, default=RESULTS / "full.json")
    told = read(parser.parse_args().results)
    for page, parts in figures(told).items():
        page.write_text(filled(page.read_text(), parts))
    plots.draw(Table(told), PICTURES, digest(told))
    return 0


if __name__ == "__main__":
    sys.exit(main())
