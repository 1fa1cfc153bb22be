"""Owners, waits and callbacks where gevent runs. Imported only once the program has imported gevent."""

from __future__ import annotations

import contextlib
import os
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

# The greenlets that are owners, for a dump.
greenlets: weakref.WeakSet[Any] = weakref.WeakSet()


def owner() -> _zklock.Owner | None:
    """Return the owner that the calling greenlet is; None for the first of a thread, which is the thread.

    It is kept with the greenlet, so it is never reused, and goes with it.
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
    """Return the name of the calling greenlet, or of its thread where `threading` starts greenlets.

    `threading` also makes up names, for greenlets that it did not start; these count as none.
    """
    if monkey.is_module_patched("threading"):
        thread = threading._active.get(threading.get_ident())  # type: ignore[attr-defined]
        if thread is not None and not isinstance(thread, threading._DummyThread):
            return thread.name
    return getattr(getcurrent(), "name", None)


def reference() -> weakref.ref[object] | None:
    """Return a weak reference to the calling greenlet; None for the first of a thread."""
    current = getcurrent()
    return None if current.parent is None else weakref.ref(current)


class Parker:
    """Suspends the greenlet that made it, until another thread wakes it.

    `give_up` is called if the hub ends meanwhile: then nothing does.
    """

    __slots__ = ("_all", "_give_up", "_waiter", "_watcher", "hub", "unpark")

    def __init__(self, hub: Hub, give_up: Callable[[], None] | None) -> None:
        self._all = _attend(hub)
        self.hub = hub
        self._give_up = give_up
        self._waiter = Waiter(hub)
        # Started before the wait, so that it misses nothing; it also
        # tells the hub that there is something to wait for.
        self._watcher = hub.loop.async_()
        self._watcher.start(self._waiter.switch, None)
        # The one thing that other threads may call.
        self.unpark = self._watcher.send
        self._all.add(self)

    def park(self, seconds: float | None) -> None:
        """Let the other greenlets run until `unpark`, or for so long."""
        if getcurrent() is self.hub:
            raise RuntimeError(
                "this would wait in gevent's hub, where callbacks of its loop run, and stop all greenlets; "
                "call it in a greenlet (gevent.spawn), or release with wait=False"
            )
        if seconds is None:
            self._waiter.get()
        else:
            with gevent.Timeout(seconds, False):
                self._waiter.get()
        if self._watcher is None:
            raise RuntimeError(
                "gevent's hub, in which this greenlet waited, has ended, and what it waited for was given up"
            )
        self._waiter.clear()

    def close(self) -> None:
        """End the wait."""
        self._all.discard(self)
        watcher, self._watcher = self._watcher, None
        if watcher is not None:
            # Refused once the loop is destroyed, where nothing is left to stop: each of gevent's loops has an
            # error of its own.
            with contextlib.suppress(Exception):
                watcher.stop()
                watcher.close()

    def strand(self) -> None:
        """End the wait of a greenlet that will not run again."""
        try:
            # First, so that nothing wakes it any more.
            self.close()
        finally:
            if self._give_up is not None:
                self._give_up()


def _strand(parkers: set[Parker], hub: Hub | None = None) -> None:
    """End the waits in a hub, or in all of a thread's."""
    # An exception, such as Ctrl-C, does not spare the others.
    with contextlib.ExitStack() as stack:
        for parker in list(parkers):
            if hub is None or parker.hub is hub:
                stack.callback(parker.strand)


class _Thread:
    """Goes with the thread that has it."""


class _Local(monkey.get_original("threading", "local")):  # type: ignore[misc]
    """The thread's own, also where gevent has given each greenlet its own."""

    def __init__(self) -> None:
        # Of the greenlets of this thread: the waits of others never change it while it is looked through, and
        # after a fork there are no others.
        self.parkers: set[Parker] = set()
        self.thread = _Thread()
        weakref.finalize(self.thread, _strand, self.parkers).atexit = False


_local = _Local()


def _attend(hub: Hub) -> set[Parker]:
    """See to it that what is waited for in this hub, which is this thread's, is given up with it.

    A hub ends when it is destroyed, which gevent tells nobody, or with its thread. Returns where the waits of
    this thread are kept.
    """
    parkers = _local.parkers
    if "destroy" not in vars(hub):
        reference = weakref.ref(hub)

        def destroy(destroy_loop: bool | None = None) -> None:
            ended = reference()
            if ended is not None:
                try:
                    _strand(parkers, ended)
                finally:
                    type(ended).destroy(ended, destroy_loop)

        hub.destroy = destroy
    return parkers


def _unpark_all() -> None:
    """Greenlets survive a fork. What they wait for is the parent's, as they learn when they run again."""
    for parker in list(_local.parkers):
        # Refused where the loop is destroyed, and with it the greenlet.
        with contextlib.suppress(Exception):
            parker.unpark()


os.register_at_fork(after_in_child=_unpark_all)


def in_greenlet(callback: Callable[[object], object], is_main_thread: bool) -> Callable[[object], object]:
    """Return what the delivery thread is to call: has `callback` called in a new greenlet of this thread.

    A thread without greenlets has no hub; then it is `callback` itself, which the thread for callbacks calls.
    """
    hub = get_hub_if_exists()
    if hub is None and is_main_thread and monkey.is_module_patched("threading"):
        # Nothing has waited yet, but greenlets are what the program uses.
        hub = gevent.get_hub()
    if hub is None:
        return callback

    def call(argument: object) -> None:
        hub.loop.run_callback_threadsafe(gevent.spawn, callback, argument)

    return call
