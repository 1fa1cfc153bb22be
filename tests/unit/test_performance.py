"""The figures and plots of docs/performance.md are those of the results that are committed."""

from __future__ import annotations

import copy

import pytest

from harness.paths import REPOSITORY
from locks.peers import PEERS
from locks.report import PAGE, PICTURES, digest, figures, filled
from locks.results import RESULTS, Json, Table, read
from locks.shown import SHOWN, TITLES
from locks.workloads import WORKLOADS

PUBLISHED = RESULTS / "full.json"


@pytest.fixture
def told() -> Json:
    return read(PUBLISHED)


def test_the_page_has_the_figures_of_the_results(told: Json) -> None:
    page = PAGE.read_text()
    assert filled(page, figures(told)) == page, "run `make bench-report`"


def test_the_plots_show_the_results(told: Json) -> None:
    for name in ("latency", "throughput", "requests"):
        assert f"results {digest(told)}" in (PICTURES / f"{name}.svg").read_text(), "run `make bench-report`"


def test_a_figure_that_has_changed_is_noticed(told: Json) -> None:
    changed = copy.deepcopy(told)
    free = next(one for one in changed["results"] if (one["workload"], one["peer"]) == ("free", "rust"))
    free["median"] *= 1.5
    assert filled(PAGE.read_text(), figures(changed)) != PAGE.read_text()
    assert digest(changed) != digest(told)


def test_all_that_is_measured_has_a_name() -> None:
    assert set(SHOWN) == {peer.name for peer in PEERS}
    assert list(TITLES) == [workload.name for workload in WORKLOADS]


def test_times_are_compared_the_other_way_round() -> None:
    def entry(peer: str, median: float, unit: str) -> Json:
        return {"workload": unit, "peer": peer, "unit": unit, "median": median}

    both = [entry(peer, median, unit) for peer, median in (("a", 2), ("b", 8)) for unit in ("1/s", "ns")]
    table = Table({"results": both})
    assert table.ratio("1/s", "b", "a") == 4
    assert table.ratio("ns", "a", "b") == 4


def test_workers_are_small() -> None:
    found = [
        path
        for path in (REPOSITORY / "benches/locks/workers").rglob("*.*")
        if path.suffix in {".py", ".rs", ".mjs", ".java", ".go"} and "node_modules" not in path.parts
    ]
    assert len(found) >= len({peer.command for peer in PEERS if peer.only == frozenset()})
    assert [path.name for path in found if len(path.read_text().splitlines()) > 200] == []
