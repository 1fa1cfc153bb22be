"""`Mutex.once()` and `Mutex.once_per()`, which run a body once per slot: a key, or a period of time."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from zklock import _zklock
from zklock._decorators import check_body, check_decorated, check_decorated_async

_T = TypeVar("_T")

_DECORATOR = "once_per() of a mutex"


def once(
    lock: _zklock.Mutex,
    slot: _zklock.Slot,
    body: Callable[[_zklock.Lease], _T],
    wait_limit: _zklock.Timeout,
) -> _T | None:
    """Run the body, unless the slot is already recorded."""
    check_body(body, "the lock is released", "a mutex")
    return _run(lock, slot, body, wait_limit)


def once_per(
    lock: _zklock.Mutex, slot: _zklock.Slot, wait_limit: _zklock.Timeout
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate a function that runs once per slot."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        check_decorated(function, _DECORATOR)

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            return _run(lock, slot, lambda _: function(*args, **kwargs), wait_limit)

        return call

    return decorate


def once_per_async(run: Callable[[Callable[[Any], Any]], Any]) -> Callable[[Any], Any]:
    """Decorate an async function. `run` runs a body once per slot."""

    def decorate(function: Any) -> Any:
        check_decorated_async(function, _DECORATOR)

        @functools.wraps(function)
        async def call(*args: Any, **kwargs: Any) -> Any:
            return await run(lambda _: function(*args, **kwargs))

        return call

    return decorate


def _run(
    lock: _zklock.Mutex,
    slot: _zklock.Slot,
    body: Callable[[_zklock.Lease], _T],
    wait_limit: _zklock.Timeout,
) -> _T | None:
    turn = _zklock.begin_turn(lock, slot, wait_limit)
    if turn is None:
        return None
    # The end of the block records the slot.
    with turn as lease:
        return body(lease)
