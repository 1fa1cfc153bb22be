"""Pytest hooks that skip a test if a part that it needs is not built."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from harness.built import Excluded, NotBuilt
from parts import everything


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup() -> Generator[None]:
    """Skip the test if its setup needs a missing part, such as a server."""
    return (yield from _left_out_if_not_built())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None]:
    """Skip the test if its body needs a missing part, such as a peer."""
    return (yield from _left_out_if_not_built())


def _left_out_if_not_built() -> Generator[None]:
    try:
        return (yield)
    except NotBuilt as missing:
        # A run on the embedded server excludes some parts (`Excluded`), because another run tests them. If
        # everything must run, any other missing part is an error.
        if everything() and not isinstance(missing, Excluded):
            raise
        pytest.skip(str(missing))
