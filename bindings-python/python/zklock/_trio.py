"""Rejects calls in trio tasks, and reports that no event loop of asyncio runs."""

from __future__ import annotations

import sys

_ADVICE = "run the function that holds the lock in a thread: await trio.to_thread.run_sync(function)"


def refuse() -> None:
    """Raise an error in a trio task."""
    if _runs_here():
        raise RuntimeError(
            "zklock does not support trio, which runs on this thread: all its tasks would be one owner, "
            f"and a wait would block them all; {_ADVICE}"
        )


def no_event_loop() -> str:
    """Return the reason why `zklock.aio` cannot be used here."""
    if _runs_here():
        return f"zklock.aio needs asyncio, and trio runs on this thread; {_ADVICE}, with a lock of zklock"
    return (
        "zklock.aio needs asyncio, and none of its event loops runs on this thread: call this within a "
        "coroutine that asyncio runs, or use the same class of zklock"
    )


def _runs_here() -> bool:
    # trio stores the name of the running async library in sniffio, which is one of trio's dependencies.
    sniffio = sys.modules.get("sniffio")
    return getattr(getattr(sniffio, "thread_local", None), "name", None) == "trio"
