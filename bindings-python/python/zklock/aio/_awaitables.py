"""Awaitables that behave well where a plain coroutine would not: not awaited, or taken for its outcome."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Coroutine, Generator
from typing import Any, TypeVar, cast

from zklock import _zklock
from zklock.aio._tasks import outcome

_T = TypeVar("_T")


class Wrapped(Coroutine[Any, Any, _T]):
    """A coroutine of our own class. `asyncio.create_task` and `asyncio.run` accept it too."""

    __slots__ = ("__weakref__",)

    @abstractmethod
    def _begun(self) -> Coroutine[Any, Any, _T]:
        """The coroutine that does it, begun with the first use."""

    def __await__(self) -> Generator[Any, Any, _T]:
        return self._begun().__await__()

    def send(self, value: Any, /) -> Any:
        """Go on."""
        return self._begun().send(value)

    def throw(self, kind: Any, value: Any = None, trace: Any = None, /) -> Any:
        """Go on with an exception."""
        if value is None and trace is None:
            return self._begun().throw(kind)
        return self._begun().throw(kind, value, trace)

    def close(self) -> None:
        """Give up."""
        self._begun().close()


class Begun(Wrapped[None]):
    """What goes on whether it is awaited or not, such as a release: a callback may leave it alone.

    Without an operation it is over already.
    """

    __slots__ = ("_coroutine", "_pending")

    def __init__(self, pending: _zklock.Pending[None] | None) -> None:
        self._coroutine: Coroutine[Any, Any, None] | None = None
        self._pending = pending

    def __await__(self) -> Generator[Any, Any, None]:
        # Neither a coroutine nor a turn of the event loop for what is over.
        return _OVER if self._pending is None else self._begun().__await__()

    def _begun(self) -> Coroutine[Any, Any, None]:
        # Only now: Python warns about a coroutine that nobody awaits.
        if self._coroutine is None:
            self._coroutine = _over() if self._pending is None else outcome(self._pending)
        return self._coroutine


async def _over() -> None:
    """End at once."""


# An iterator that has ended, and so ends whoever awaits it, any number of times.
_OVER = cast("Generator[Any, Any, None]", iter(()))


class Answer(Wrapped[_T]):
    """What is an answer once it is awaited. A coroutine is always true: `if lock.locked():` would be, too."""

    __slots__ = ("_call", "_coroutine")

    def __init__(self, coroutine: Coroutine[Any, Any, _T], call: str) -> None:
        self._coroutine = coroutine
        self._call = call

    def __await__(self) -> Generator[Any, Any, _T]:
        return self._coroutine.__await__()

    def _begun(self) -> Coroutine[Any, Any, _T]:
        return self._coroutine

    def __bool__(self) -> bool:
        # One complaint is enough.
        self.close()
        raise TypeError(
            f"{self._call} is a coroutine, and no answer before it is awaited: await {self._call}"
        )
