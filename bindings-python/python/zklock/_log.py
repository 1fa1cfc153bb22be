"""Hands the core's events to `logging`, on a thread of its own: handlers may be slow, locks must not."""

from __future__ import annotations

import logging
import os
import sys
import threading

from zklock import _fork, _native, _zklock

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

# The thread's name, also where it is none of `threading`'s.
_NAME = "zklock-log"

# A greenlet that it logs from must not be taken for it.
_get_ident = _native.original("get_ident")
_ident: int | None = None
# Locked until the thread has ended, or cannot start; not a greenlet's lock.
_running = _native.original("allocate_lock")()
_running.acquire()


def verbosity() -> int:
    """How many levels, counted from the gravest, the logger lets through."""
    return sum(_logger.isEnabledFor(level) for level in _LEVELS.values())


def begin() -> None:
    """Begin to hand events on."""
    try:
        if _native.is_patched():
            # `threading` would start a greenlet of the calling thread, and it would never let that one go on.
            _native.original("start_new_thread")(_run, ())
        else:
            threading.Thread(target=_run, name=_NAME, daemon=True).start()
    except BaseException:
        _running.release()
        raise


def join(limit: float) -> None:
    """Wait up to `limit` seconds until everything is handed on.

    Called once there is an event, but perhaps before the thread has started.
    """
    if _get_ident() != _ident and _running.acquire(timeout=limit):
        _running.release()


def _begin_anew() -> None:
    global _ident, _running
    _ident, _running = None, _native.original("allocate_lock")()
    _running.acquire()


# A forked child does not have the thread; its own first event starts one.
os.register_at_fork(after_in_child=_begin_anew)


def _run() -> None:
    global _ident
    _ident, running = _get_ident(), _running
    threading.current_thread().name = _NAME
    try:
        _hand_on()
    finally:
        running.release()


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
