"""Writes the plots and figures of the pages about benchmarks: `make bench-report`."""

from __future__ import annotations

import json
from pathlib import Path

import cluster.plots
import cluster.report
import cluster.results
import cost.report
import failover.plot
import failover.report
import locks.plots
import locks.report
import locks.results
from locks.report import digest, fill, publish


def performance(results: Path) -> None:
    """Write docs/performance.md and the table in the README."""
    told = locks.results.read(results)
    for page, parts in locks.report.figures(told).items():
        fill(page, parts)
    locks.plots.draw(locks.results.Table(told), locks.report.PICTURES, digest(told))


def production(results: Path) -> None:
    """Write docs/production.md."""
    told = cluster.results.read(results)
    fill(cluster.report.PAGE, cluster.report.figures(told))
    cluster.plots.draw(cluster.results.Table(told), cluster.report.PICTURES, digest(told))


def after_kills(results: Path) -> None:
    """Write docs/failover.md."""
    told = json.loads(results.read_text())
    fill(failover.report.PAGE, failover.report.figures(told))
    failover.plot.draw(told, failover.report.PICTURES / failover.report.PLOT)


def costs(results: Path) -> None:
    """Write docs/cost.md."""
    fill(cost.report.PAGE, cost.report.figures(json.loads(results.read_text())))


PAGES = {
    locks.results.RESULTS / "full.json": performance,
    cluster.report.PUBLISHED: production,
    failover.report.PUBLISHED: after_kills,
    cost.report.PUBLISHED: costs,
}


if __name__ == "__main__":
    publish(PAGES)
