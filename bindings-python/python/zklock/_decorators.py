"""Checks of the functions that a program passes: decorated functions, bodies and callbacks.

The import of `inspect` takes as long as that of zklock, and 700 KB of memory. So it is imported only when it
is needed, which is rare for callbacks.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import FunctionType, MethodType
from typing import Any

_CO_COROUTINE = 0x80


def guarded(scope: Any, function: Any) -> Any:
    """Return a function that runs each call of `function` in its own scope."""
    check_decorated(function, "a lock of zklock")

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        with scope:
            return function(*args, **kwargs)

    return call


def guarded_async(scope: Any, function: Any) -> Any:
    """Return an async function that runs each call of `function` in its own scope."""
    check_decorated_async(function, "a lock of zklock.aio")

    @functools.wraps(function)
    async def call(*args: Any, **kwargs: Any) -> Any:
        async with scope:
            return await function(*args, **kwargs)

    return call


def check_decorated(function: Any, decorator: str) -> None:
    """Reject anything other than a plain function, because the body must run during the call, while the lock
    is held.
    """
    check_function(function, decorator)
    if _is_async(function):
        raise TypeError(
            f"{_name(function)} is an async function, and would run after this lock is released;"
            " decorate it with a lock of zklock.aio"
        )


def check_decorated_async(function: Any, decorator: str) -> None:
    """Reject anything that is not an async function."""
    check_function(function, decorator)
    if not _is_async(function):
        raise TypeError(
            f"{_name(function)} is not an async function, and cannot wait for a lock of zklock.aio;"
            " decorate it with a lock of zklock"
        )


def check_function(function: Any, decorator: str) -> None:
    """Reject anything that is not a function, and generators, whose body runs only after the call."""
    import inspect

    if not callable(function) or inspect.isclass(function):
        raise TypeError(f"{decorator} decorates functions, not {_name(function)}")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError(
            f"{_name(function)} is a generator, whose body would run after the lock is released;"
            " use `with` inside it"
        )


def check_body(body: Any, end: str, runner: str) -> None:
    """Reject an async body, because it would run too late. The error message names the event (`end`) after
    which it would run, and suggests `runner` of `zklock.aio`.
    """
    check_any_body(body)
    if _is_async(body):
        raise TypeError(
            f"{_name(body)} is an async function, and would run after {end};"
            f" pass it to {runner} of zklock.aio"
        )


def check_any_body(body: Any) -> None:
    """Reject anything that is not a function, and generators, whose body would not run."""
    import inspect

    if not callable(body):
        raise TypeError(f"body must be a function, but {_name(body)} is not")
    if inspect.isgeneratorfunction(body) or inspect.isasyncgenfunction(body):
        raise TypeError(f"body must run when it is called, but {_name(body)} is a generator")


def awaitable(returned: Any) -> Any:
    """Check that the body has returned an awaitable, and return it."""
    import inspect

    if not inspect.isawaitable(returned):
        raise TypeError(f"body must return an awaitable, as an async function does, not {returned!r}")
    return returned


def check_callback(callback: Any) -> None:
    """Reject anything that the callback thread cannot call."""
    if not callable(callback):
        raise TypeError(f"a callback must be callable, but {_name(callback)} is not")
    if _is_async(callback):
        raise TypeError(
            f"{_name(callback)} is an async function, and the thread that calls it has no event loop;"
            " pass it to an object of zklock.aio"
        )


def _is_async(function: Callable[..., object]) -> bool:
    """Return whether a call of `function` is known to return a coroutine. The function is not called."""
    if isinstance(function, staticmethod):
        function = function.__func__
    plain = function.__func__ if isinstance(function, MethodType) else function
    if isinstance(plain, FunctionType) and "inspect" not in sys.modules:
        # Only `inspect` can mark a function that is not defined with `async def` as asynchronous.
        return bool(plain.__code__.co_flags & _CO_COROUTINE)
    import inspect

    # For a callable object, the `__call__` of its class decides.
    called = getattr(type(function), "__call__", None)  # noqa: B004
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(called)


def _name(thing: object) -> str:
    return getattr(thing, "__qualname__", None) or repr(thing)
