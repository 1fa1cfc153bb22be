"""The statistics as Python objects; the scenarios test what they count."""

from __future__ import annotations

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
