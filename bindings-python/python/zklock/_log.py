"""Passes the core's events to `logging` on a separate thread, because handlers can be slow."""

from __future__ import annotations

import logging
import sys
import threading

from zklock import _fork, _zklock
from zklock._background import Background

_logger = logging.getLogger("zklock")
# Without this handler, a program that does not configure logging would print warnings to standard error.
_logger.addHandler(logging.NullHandler())
# For the events of the ZooKeeper client crate.
_client_logger = _logger.getChild("zookeeper_client")

_LEVELS = {
    "error": logging.ERROR,
    "warn": logging.WARNING,
    "info": logging.INFO,
    "debug": logging.DEBUG,
    # `logging` has no name for this level.
    "trace": 5,
}

# Level, target, file, line, time, text and fields.
_Event = tuple[str, str, str, int, float, str, list[tuple[str, str]]]


def verbosity() -> int:
    """Return the number of enabled levels of the logger. If a level is enabled, so are all more severe
    levels.
    """
    return sum(_logger.isEnabledFor(level) for level in _LEVELS.values())


def _forward_events() -> None:
    while (batch := _zklock.next_events(verbosity())) is not None:
        events, dropped = batch
        for event in events:
            with _fork.delay_forks():
                _log_safely(event)
        if dropped:
            with _fork.delay_forks():
                _logger.warning("%d events arrived too fast to be logged", dropped)


def _log_safely(event: _Event) -> None:
    try:
        _log_event(event)
    except Exception:
        # Report the error of the program's handler, and continue to log.
        threading.excepthook(threading.ExceptHookArgs((*sys.exc_info(), threading.current_thread())))


def _log_event(event: _Event) -> None:
    level, target, file, line, time, text, fields = event
    logger = _client_logger if target.startswith("zookeeper_client") else _logger
    number = _LEVELS[level]
    if not logger.isEnabledFor(number):
        return
    record = logger.makeRecord(
        logger.name, number, file, line, text, (), None, extra={"target": target, "fields": dict(fields)}
    )
    # Use the time of the event. `makeRecord` sets the current time, which is later.
    record.relativeCreated += (time - record.created) * 1000
    record.created, record.msecs = time, time % 1 * 1000
    logger.handle(record)


_thread = Background("zklock-log", _forward_events)
begin, join = _thread.begin, _thread.join
