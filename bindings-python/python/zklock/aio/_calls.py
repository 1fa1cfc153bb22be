"""Awaitables that behave well where a plain coroutine would not: not awaited, or taken for its outcome."""

from __future__ import annotations

from collections.abc import Coroutine, Generator
from typing import Any, NoReturn, TypeVar

from zklock import _zklock
from zklock.aio._tasks import outcome

_T = TypeVar("_T")


class Wrapped(Coroutine[Any, Any, _T]):
    """A coroutine of our own class. `asyncio.create_task` and `asyncio.run` accept it too."""

    __slots__ = ("__weakref__", "_coroutine")

    def __init__(self, coroutine: Coroutine[Any, Any, _T] | None) -> None:
        self._coroutine = coroutine

    def _begun(self) -> Coroutine[Any, Any, _T]:
        assert self._coroutine is not None
        return self._coroutine

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


class Begun(Wrapped[_T]):
    """What goes on whether it is awaited or not, such as a release: a callback may leave it alone."""

    __slots__ = ("_pending",)

    def __init__(self, pending: _zklock.Pending[_T]) -> None:
        super().__init__(None)
        self._pending = pending

    def _begun(self) -> Coroutine[Any, Any, _T]:
        # Only now: Python warns about a coroutine that nobody awaits.
        if self._coroutine is None:
            self._coroutine = outcome(self._pending)
        return self._coroutine


class Answer(Wrapped[_T]):
    """What is an answer once it is awaited. A coroutine is always true: `if lock.locked():` would be, too."""

    __slots__ = ("_call",)

    def __init__(self, coroutine: Coroutine[Any, Any, _T], call: str) -> None:
        super().__init__(coroutine)
        self._call = call

    def __bool__(self) -> NoReturn:
        # One complaint is enough.
        self.close()
        raise TypeError(
            f"{self._call} is a coroutine, and no answer before it is awaited: await {self._call}"
        )
