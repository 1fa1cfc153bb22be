"""Hooks of pytest: a test that needs what is not built is left out, with that as its reason."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from harness.built import Forgone, NotBuilt
from parts import everything


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup() -> Generator[None]:
    """Such as a server."""
    return (yield from _left_out_if_not_built())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None]:
    """Such as a peer."""
    return (yield from _left_out_if_not_built())


def _left_out_if_not_built() -> Generator[None]:
    try:
        return (yield)
    except NotBuilt as missing:
        # A run on the embedded server is meant to do without some things: another one shows them.
        if everything() and not isinstance(missing, Forgone):
            raise
        pytest.skip(str(missing))
