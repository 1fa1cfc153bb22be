"""The metrics for Prometheus. The dashboard must use exactly these."""

from __future__ import annotations

import json
import re
import threading
import time
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

import zklock
from zklock.prometheus import Collector

DASHBOARD = Path(__file__).resolve().parents[2] / "docs" / "grafana.json"
RULES = DASHBOARD.with_name("prometheus-rules.yml")


def registry(collector: Collector) -> CollectorRegistry:
    made = CollectorRegistry()
    made.register(collector)
    return made


def value(registry: CollectorRegistry, name: str, **labels: str) -> float:
    found = registry.get_sample_value(name, {"client": "", **labels})
    assert found is not None, (name, labels)
    return found


def test_counters_and_gauges(client: zklock.Client, other: zklock.Client, path: str) -> None:
    exported = registry(Collector(client))
    assert value(exported, "zklock_acquisitions_total") == 0
    assert value(exported, "zklock_holders", mode="mutex", path="") == 0
    lock = zklock.Mutex(client, path)
    assert lock.acquire()
    lease = lock.lease
    assert lease is not None
    assert value(exported, "zklock_acquisitions_total") == 1
    assert value(exported, "zklock_holders", mode="mutex", path="") == 1
    assert value(exported, "zklock_oldest_hold_seconds") > 0
    assert value(exported, "zklock_wait_seconds_count") == 1
    assert value(exported, "zklock_wait_seconds_bucket", le="+Inf") == 1
    assert 0 < value(exported, "zklock_term_remaining_seconds") <= client.session_timeout / 2
    client.break_lock(lease.node)
    assert lease.wait_lost(60)
    assert value(exported, "zklock_losses_total", reason="node deleted") == 1
    assert value(exported, "zklock_losses_total", reason="term ended") == 0
    assert value(exported, "zklock_requests_total", kind="create") == client.stats().requests["create"] > 0
    states = [value(exported, "zklock_state", state=state) for state in ("connected", "suspended", "closed")]
    assert (states, value(exported, "zklock_responsive")) == ([1, 0, 0], 1)
    assert value(exported, "zklock_sessions_total") == 1
    with zklock.Mutex(other, path):
        thread = threading.Thread(target=lambda: zklock.Mutex(client, path).acquire(timeout=60))
        thread.start()
        limit = time.monotonic() + 60
        while value(exported, "zklock_waiters", mode="mutex", path="") != 1:
            assert time.monotonic() < limit
        assert value(exported, "zklock_oldest_wait_seconds") > 0
    thread.join(60)


def test_paths_are_exported_only_on_request(client: zklock.Client, other: zklock.Client, path: str) -> None:
    with zklock.Mutex(client, f"{path}/1"), zklock.Mutex(client, f"{path}/2"):
        text = generate_latest(registry(Collector(client))).decode()
        assert path not in text
        collector = Collector({"a": client, "b": other}, path=lambda path: path.rpartition("/")[0])
        exported = registry(collector)
        assert value(exported, "zklock_holders", client="a", mode="mutex", path=path) == 2
        assert value(exported, "zklock_holders", client="b", mode="mutex", path="") == 0


def test_a_closed_client_can_still_be_scraped(client: zklock.Client) -> None:
    client.close()
    exported = registry(Collector(client))
    assert value(exported, "zklock_state", state="closed") == 1
    assert value(exported, "zklock_term_remaining_seconds") == 0


def queries(value: Any) -> list[str]:
    """Return all queries in a part of a dashboard."""
    if isinstance(value, dict):
        own = [value["expr"]] if "expr" in value else []
        return own + [query for one in value.values() for query in queries(one)]
    return [query for one in value for query in queries(one)] if isinstance(value, list) else []


def test_the_dashboard_uses_exactly_the_exported_metrics(client: zklock.Client, path: str) -> None:
    with zklock.Mutex(client, path):
        text = generate_latest(registry(Collector(client))).decode()
    families = list(text_string_to_metric_families(text))
    series = {sample.name: set(sample.labels) for family in families for sample in family.samples}
    asked = queries(json.loads(DASHBOARD.read_text()))
    assert len(asked) > 10
    seen = set()
    for query in asked:
        names = re.findall(r"\bzklock_\w+", query)
        assert names, query
        seen |= set(names)
        assert set(names) <= set(series), query
        # A scrape adds these two labels to those of the series.
        known = {"job", "instance"}.union(*(series[name] for name in names))
        used = re.findall(r"\b(\w+)(?:=~|!=|=)", query)
        used += [one.strip() for by in re.findall(r"by ?\(([^)]*)\)", query) for one in by.split(",")]
        assert set(used) <= known, query
    unused = {re.sub(r"_(bucket|sum|count)$", "", name) for name in series} - {
        re.sub(r"_(bucket|sum|count)$", "", name) for name in seen
    }
    assert not {name for name in unused if not name.endswith("_created")}


def test_the_rules_use_only_exported_metrics(client: zklock.Client) -> None:
    """Covers the alerting rules for clients. tests/cli/test_metrics.py covers the rules for `zklock run`."""
    text = generate_latest(registry(Collector(client))).decode()
    families = list(text_string_to_metric_families(text))
    series = {sample.name: set(sample.labels) for family in families for sample in family.samples}
    (rules,) = [
        one["rules"] for one in yaml.safe_load(RULES.read_text())["groups"] if one["name"] == "zklock"
    ]
    assert len(rules) > 5
    for rule in rules:
        names = re.findall(r"\bzklock_\w+", rule["expr"])
        assert names, rule
        assert set(names) <= set(series), rule
        known = {"job", "instance"}.union(*(series[name] for name in names))
        assert set(re.findall(r"\b(\w+)(?:=~|!=|=)\"", rule["expr"])) <= known, rule
        used = re.findall(r"\$labels\.(\w+)", "".join(rule["annotations"].values()))
        assert set(used) <= known, rule
