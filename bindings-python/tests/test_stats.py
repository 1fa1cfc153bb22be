"""The statistics as Python objects. The scenarios test the counts."""

from __future__ import annotations

import json

import pytest

import zklock
from zklock import aio


def test_before_there_was_a_session() -> None:
    stats = aio.Client("127.0.0.1:1").stats()
    assert stats.transport is None
    assert (stats.acquisitions, stats.wait.count, stats.hold.max) == (0, 0, 0.0)
    assert set(stats.requests.values()) == {0}


def test_a_snapshot_stays_as_it_was(client: zklock.Client, path: str) -> None:
    before = client.stats()
    assert before == client.stats()
    with zklock.Mutex(client, path):
        assert (before.acquisitions, client.stats().acquisitions) == (0, 1)
    assert before != client.stats()
    with pytest.raises(AttributeError):
        before.acquisitions = 1  # type: ignore[misc]
    before.requests["create"] = 5
    assert before.requests["create"] == 0
    assert repr(before) == "<zklock.Stats acquisitions=0 contended=0 busy=0 timeouts=0 losses=0>"


def test_a_dictionary_has_every_number(client: zklock.Client, path: str) -> None:
    with zklock.Mutex(client, path):
        stats = client.stats()
    numbers = stats.as_dict()
    public = {name for name in dir(stats) if not name.startswith("_")} - {"as_dict"}
    assert set(numbers) == public
    for name in public - {"wait", "hold"}:
        assert numbers[name] == getattr(stats, name)
    histogram = numbers["wait"]
    assert set(histogram) == {name for name in dir(stats.wait) if not name.startswith("_")} - {"as_dict"}
    assert histogram["count"] == stats.wait.count == 1
    assert json.loads(json.dumps(numbers))["wait"]["sum"] == stats.wait.sum
