"""The pages with one set of results each have the figures of the committed results."""

from __future__ import annotations

import json
from types import ModuleType

import pytest

import cluster.report
import cost.report
import failover.report
import scale.report
from locks.report import filled


@pytest.mark.parametrize(
    "report",
    [cluster.report, cost.report, failover.report, scale.report],
    ids=lambda report: report.PAGE.name,
)
def test_the_page_has_the_figures_of_the_results(report: ModuleType) -> None:
    text = report.PAGE.read_text()
    figures = report.figures(json.loads(report.PUBLISHED.read_text()))
    assert filled(text, figures) == text, "run `make bench-report`, or `make bench-scale` for scale.md"
