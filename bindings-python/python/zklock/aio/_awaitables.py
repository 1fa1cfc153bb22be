"""Awaitables that prevent two mistakes: a coroutine that is never awaited, and one that is used as a bool."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Coroutine, Generator
from typing import Any, TypeVar, cast

from zklock import _zklock
from zklock.aio._tasks import outcome

_T = TypeVar("_T")


class Wrapped(Coroutine[Any, Any, _T]):
    """Base class of this module's awaitables. They are coroutines, so `asyncio.create_task` accepts them."""

    __slots__ = ("__weakref__",)

    @abstractmethod
    def _begun(self) -> Coroutine[Any, Any, _T]:
        """Return the coroutine that does the work. It is created on first use."""

    def __await__(self) -> Generator[Any, Any, _T]:
        return self._begun().__await__()

    def send(self, value: Any, /) -> Any:
        """Resume the coroutine with a value."""
        return self._begun().send(value)

    def throw(self, kind: Any, value: Any = None, trace: Any = None, /) -> Any:
        """Resume the coroutine with an exception."""
        if value is None and trace is None:
            return self._begun().throw(kind)
        return self._begun().throw(kind, value, trace)

    def close(self) -> None:
        """Close the coroutine."""
        self._begun().close()


class Begun(Wrapped[None]):
    """An operation that has begun, and continues even if it is not awaited, such as a release in a callback.

    `Begun(None)` is already complete.
    """

    __slots__ = ("_coroutine", "_pending")

    def __init__(self, pending: _zklock.Pending[None] | None) -> None:
        self._coroutine: Coroutine[Any, Any, None] | None = None
        self._pending = pending

    def __await__(self) -> Generator[Any, Any, None]:
        # A complete operation needs no coroutine and no iteration of the event loop.
        if self._pending is None:
            return _EMPTY_ITERATOR
        return self._pending.__await__() if self._coroutine is None else self._coroutine.__await__()

    def _begun(self) -> Coroutine[Any, Any, None]:
        # Create the coroutine only when it is used, because Python warns about a coroutine that is never
        # awaited.
        if self._coroutine is None:
            self._coroutine = _return_immediately() if self._pending is None else outcome(self._pending)
        return self._coroutine


async def _return_immediately() -> None:
    """Return immediately."""


# An exhausted iterator. Any number of awaits can use it, and each completes immediately.
_EMPTY_ITERATOR = cast("Generator[Any, Any, None]", iter(()))


class Answer(Wrapped[_T]):
    """An awaitable that raises `TypeError` if it is used as a bool before it is awaited.

    A plain coroutine is always true, and so `if lock.locked():` would always be true.
    """

    __slots__ = ("_call", "_coroutine")

    def __init__(self, coroutine: Coroutine[Any, Any, _T], call: str) -> None:
        self._coroutine = coroutine
        self._call = call

    def __await__(self) -> Generator[Any, Any, _T]:
        return self._coroutine.__await__()

    def _begun(self) -> Coroutine[Any, Any, _T]:
        return self._coroutine

    def __bool__(self) -> bool:
        # Close the coroutine, so that Python does not also warn that it was never awaited.
        self.close()
        raise TypeError(
            f"{self._call} is a coroutine, which has no result until it is awaited: await {self._call}"
        )
