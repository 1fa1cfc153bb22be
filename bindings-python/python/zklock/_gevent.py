"""Lets gevent's greenlets own locks, wait and run callbacks. Imported only after the program has imported
gevent.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Callable
from typing import Any

import gevent  # type: ignore[import-untyped]
from gevent import monkey
from gevent._hub_local import get_hub_if_exists as get_hub_if_exists  # type: ignore[import-untyped]
from gevent.hub import Hub, Waiter  # type: ignore[import-untyped]
from greenlet import getcurrent  # type: ignore[import-untyped]

from zklock import _zklock
from zklock._at_fork import register_at_fork

# The greenlets that have used a lock, for a dump.
greenlets: weakref.WeakSet[Any] = weakref.WeakSet()


def owner() -> _zklock.Owner | None:
    """Return the owner of the calling greenlet, or None for the main greenlet of a thread.

    In the main greenlet, the owner is the thread. The owner is stored in the greenlet, so it is dropped with
    the greenlet, and no other greenlet can have it.
    """
    current = getcurrent()
    if current.parent is None:
        return None
    try:
        known: _zklock.Owner = current._zklock_owner
        return known
    except AttributeError:
        made = current._zklock_owner = _zklock.Owner(greenlet=True)
        greenlets.add(current)
        return made


def name() -> object:
    """Return the name of the calling greenlet, or the name of its `threading.Thread` object if it has one.

    Patched `threading` also creates `_DummyThread` objects for greenlets that it did not start. Their names
    are ignored.
    """
    if monkey.is_module_patched("threading"):
        thread = threading._active.get(threading.get_ident())  # type: ignore[attr-defined]
        if thread is not None and not isinstance(thread, threading._DummyThread):
            return thread.name
    return getattr(getcurrent(), "name", None)


def reference() -> weakref.ref[object] | None:
    """Return a weak reference to the calling greenlet, or None for the main greenlet of a thread."""
    current = getcurrent()
    return None if current.parent is None else weakref.ref(current)


class Parker:
    """Suspends the greenlet that created it, until another thread wakes it.

    If the hub is destroyed meanwhile, the greenlet is never woken, and `give_up` is called instead.
    """

    __slots__ = ("_all", "_give_up", "_waiter", "_watcher", "hub", "unpark")

    def __init__(self, hub: Hub, give_up: Callable[[], None] | None) -> None:
        self._all = _watch_hub_end(hub)
        self.hub = hub
        self._give_up = give_up
        self._waiter = Waiter(hub)
        # The watcher starts before the wait, so that no wake-up is missed. It also keeps the hub's loop
        # running.
        self._watcher = hub.loop.async_()
        self._watcher.start(self._waiter.switch, None)
        # The only method that other threads can call.
        self.unpark = self._watcher.send
        self._all.add(self)

    def park(self, seconds: float | None) -> None:
        """Let the other greenlets run until `unpark`, or for at most `seconds`."""
        if getcurrent() is self.hub:
            raise RuntimeError(
                "this would wait in gevent's hub, where the callbacks of its loop run, and block all "
                "greenlets; call it in a greenlet (gevent.spawn), or release with wait=False"
            )
        if seconds is None:
            self._waiter.get()
        else:
            with gevent.Timeout(seconds, False):
                self._waiter.get()
        if self._watcher is None:
            raise RuntimeError(
                "gevent's hub, in which this greenlet waited, has ended, so the wait was given up"
            )
        self._waiter.clear()

    def close(self) -> None:
        """End the wait."""
        self._all.discard(self)
        watcher, self._watcher = self._watcher, None
        if watcher is not None:
            # This fails if the loop has been destroyed. In that case the watcher has already stopped. The
            # exception depends on gevent's loop.
            with contextlib.suppress(Exception):
                watcher.stop()
                watcher.close()

    def give_up(self) -> None:
        """End the wait of a greenlet that will not run again."""
        try:
            # Close first, so that no thread can wake the greenlet.
            self.close()
        finally:
            if self._give_up is not None:
                self._give_up()


def _give_up_all(parkers: set[Parker], hub: Hub | None = None) -> None:
    """End the waits in a hub, or all waits of a thread."""
    # If one call raises an exception such as `KeyboardInterrupt`, the other calls must still run.
    with contextlib.ExitStack() as stack:
        for parker in list(parkers):
            if hub is None or parker.hub is hub:
                stack.callback(parker.give_up)


class _Thread:
    """A marker object that is dropped with its thread."""


class _Local(monkey.get_original("threading", "local")):  # type: ignore[misc]
    """Thread-local data, even where gevent has made `threading.local` greenlet-local."""

    def __init__(self) -> None:
        # Only greenlets of this thread use the set, so another thread never changes it during an iteration.
        # After a fork, this thread is the only one.
        self.parkers: set[Parker] = set()
        self.thread = _Thread()
        weakref.finalize(self.thread, _give_up_all, self.parkers).atexit = False


_local = _Local()


def _watch_hub_end(hub: Hub) -> set[Parker]:
    """Make sure that the waits in a hub of this thread are given up when the hub ends.

    A hub ends with its thread, or when it is destroyed, which gevent does not report. Return the set of waits
    of this thread.
    """
    parkers = _local.parkers
    if "destroy" not in vars(hub):
        reference = weakref.ref(hub)

        def destroy(destroy_loop: bool | None = None) -> None:
            ended = reference()
            if ended is not None:
                try:
                    _give_up_all(parkers, ended)
                finally:
                    type(ended).destroy(ended, destroy_loop)

        hub.destroy = destroy
    return parkers


def _unpark_all() -> None:
    """Wake all waiting greenlets in a forked child.

    The greenlets still exist in the child, but their operations belong to the parent. When they run again,
    they detect the fork and raise an error.
    """
    for parker in list(_local.parkers):
        # This fails if the loop, and with it the greenlet, is destroyed.
        with contextlib.suppress(Exception):
            parker.unpark()


register_at_fork(after_in_child=_unpark_all)


def in_greenlet(callback: Callable[[object], object], is_main_thread: bool) -> Callable[[object], object]:
    """Return a function for the delivery thread that runs `callback` in a new greenlet of this thread.

    A thread without greenlets has no hub. For such a thread, return `callback` itself, which the callback
    thread will call.
    """
    hub = get_hub_if_exists()
    if hub is None and is_main_thread and monkey.is_module_patched("threading"):
        # A patched program uses greenlets even if no greenlet has waited yet. In that case, the hub must be
        # created here.
        hub = gevent.get_hub()
    if hub is None:
        return callback

    def call(argument: object) -> None:
        hub.loop.run_callback_threadsafe(gevent.spawn, callback, argument)

    return call
