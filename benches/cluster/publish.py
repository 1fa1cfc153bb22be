"""Writes the plots and the figures of docs/production.md: `make bench-report`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from cluster import plots
from cluster.report import PAGE, PICTURES, PUBLISHED, figures
from cluster.results import Table, read
from locks.report import digest, filled


def main() -> int:
    """Write the plots and the page."""
    parser = argparse.ArgumentParser(prog="make bench-report", description=__doc__)
    parser.add_argument("--results", type=Path, default=PUBLISHED)
    told = read(parser.parse_args().results)
    PAGE.write_text(filled(PAGE.read_text(), figures(told)))
    plots.draw(Table(told), PICTURES, digest(told))
    return 0


if __name__ == "__main__":
    sys.exit(main())
