"""Hands the core's events to `logging`, on a thread of its own: handlers may be slow, locks must not."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time

from zklock import _fork, _zklock

_logger = logging.getLogger("zklock")
# As in every library: without it, warnings would go to standard error in a program that does not log.
_logger.addHandler(logging.NullHandler())
# For the events of the client crate below us.
_client_logger = _logger.getChild("zookeeper_client")

_LEVELS = {
    "error": logging.ERROR,
    "warn": logging.WARNING,
    "info": logging.INFO,
    "debug": logging.DEBUG,
    # `logging` has no name for it.
    "trace": 5,
}

# Level, target, file, line, time, text and fields.
_Event = tuple[str, str, str, int, float, str, list[tuple[str, str]]]

_thread: threading.Thread | None = None
# Set once the thread runs, or cannot.
_begun = threading.Event()


def verbosity() -> int:
    """How many levels, counted from the gravest, the logger lets through."""
    return sum(_logger.isEnabledFor(level) for level in _LEVELS.values())


def begin() -> None:
    """Begin to hand events on."""
    global _thread
    try:
        thread = threading.Thread(target=_hand_on, name="zklock-log", daemon=True)
        thread.start()
        _thread = thread
    finally:
        _begun.set()


def join(limit: float) -> None:
    """Wait up to `limit` seconds until everything is handed on.

    Called once there is an event, but perhaps before the thread has started.
    """
    deadline = time.monotonic() + limit
    if _begun.wait(limit) and _thread is not None and _thread is not threading.current_thread():
        _thread.join(max(0.0, deadline - time.monotonic()))


def _begin_anew() -> None:
    global _thread, _begun
    _thread, _begun = None, threading.Event()


# A forked child does not have the thread; its own first event starts one.
os.register_at_fork(after_in_child=_begin_anew)


def _hand_on() -> None:
    while (events := _zklock.next_events(verbosity())) is not None:
        told, dropped = events
        for event in told:
            with _fork.not_now():
                _try_to_tell(event)
        if dropped:
            with _fork.not_now():
                _logger.warning("%d events came too fast to be logged", dropped)


def _try_to_tell(event: _Event) -> None:
    try:
        _tell(event)
    except Exception:
        # A handler's mistake is for its author to see, and no reason to stop logging.
        threading.excepthook(threading.ExceptHookArgs((*sys.exc_info(), threading.current_thread())))


def _tell(event: _Event) -> None:
    level, target, file, line, time, text, fields = event
    logger = _client_logger if target.startswith("zookeeper_client") else _logger
    number = _LEVELS[level]
    if not logger.isEnabledFor(number):
        return
    record = logger.makeRecord(
        logger.name, number, file, line, text, (), None, extra={"target": target, "fields": dict(fields)}
    )
    # It happened before it arrived here.
    record.relativeCreated += (time - record.created) * 1000
    record.created, record.msecs = time, time % 1 * 1000
    logger.handle(record)
