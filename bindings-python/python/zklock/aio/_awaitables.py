"""Awaitables for two mistakes with coroutines: not to await one, and to use one as its outcome."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Coroutine, Generator
from typing import Any, TypeVar, cast

from zklock import _zklock
from zklock.aio._tasks import outcome

_T = TypeVar("_T")


class Wrapped(Coroutine[Any, Any, _T]):
    """Base class of our coroutines. `asyncio.create_task` and `asyncio.run` accept it too."""

    __slots__ = ("__weakref__",)

    @abstractmethod
    def _begun(self) -> Coroutine[Any, Any, _T]:
        """Return the coroutine that does the work. It starts with the first use."""

    def __await__(self) -> Generator[Any, Any, _T]:
        return self._begun().__await__()

    def send(self, value: Any, /) -> Any:
        """Continue."""
        return self._begun().send(value)

    def throw(self, kind: Any, value: Any = None, trace: Any = None, /) -> Any:
        """Continue with an exception."""
        if value is None and trace is None:
            return self._begun().throw(kind)
        return self._begun().throw(kind, value, trace)

    def close(self) -> None:
        """Give up."""
        self._begun().close()


class Begun(Wrapped[None]):
    """An operation that proceeds even if it is not awaited, such as a release in a callback.

    Without an operation it is complete already.
    """

    __slots__ = ("_coroutine", "_pending")

    def __init__(self, pending: _zklock.Pending[None] | None) -> None:
        self._coroutine: Coroutine[Any, Any, None] | None = None
        self._pending = pending

    def __await__(self) -> Generator[Any, Any, None]:
        # A complete operation needs neither a coroutine nor an iteration of the event loop.
        return _OVER if self._pending is None else self._begun().__await__()

    def _begun(self) -> Coroutine[Any, Any, None]:
        # Create the coroutine only here: Python warns about coroutines that are never awaited.
        if self._coroutine is None:
            self._coroutine = _over() if self._pending is None else outcome(self._pending)
        return self._coroutine


async def _over() -> None:
    """Return immediately."""


# An exhausted iterator: each await of it completes immediately, any number of times.
_OVER = cast("Generator[Any, Any, None]", iter(()))


class Answer(Wrapped[_T]):
    """An awaitable with a result that must not be tested before it is awaited.

    A coroutine is always true, so `if lock.locked():` would be true too.
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
        # Avoid a second complaint about a coroutine that was never awaited.
        self.close()
        raise TypeError(
            f"{self._call} is a coroutine, and no answer before it is awaited: await {self._call}"
        )
