"""Owners, waits and callbacks where gevent runs. Imported only once the program has imported gevent."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable

import gevent  # type: ignore[import-untyped]
from gevent import monkey
from gevent._hub_local import get_hub_if_exists as get_hub_if_exists  # type: ignore[import-untyped]
from gevent.hub import Hub, Waiter  # type: ignore[import-untyped]
from greenlet import getcurrent  # type: ignore[import-untyped]

from zklock import _zklock


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
        made = current._zklock_owner = _zklock.Owner()
        return made


class Parker:
    """Suspends the greenlet that made it, until another thread wakes it.

    `give_up` is called if the hub ends meanwhile: then nothing does.
    """

    __slots__ = ("__weakref__", "_give_up", "_waiter", "_watcher", "hub", "unpark")

    def __init__(self, hub: Hub, give_up: Callable[[], None] | None) -> None:
        _attend(hub)
        self.hub = hub
        self._give_up = give_up
        self._waiter = Waiter(hub)
        # Started before the wait, so that it misses nothing; it also
        # tells the hub that there is something to wait for.
        self._watcher = hub.loop.async_()
        self._watcher.start(self._waiter.switch, None)
        # The one thing that other threads may call.
        self.unpark = self._watcher.send
        _parkers.add(self)

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
        watcher, self._watcher = self._watcher, None
        if watcher is not None:
            watcher.stop()
            watcher.close()

    def strand(self) -> None:
        """End the wait of a greenlet that will not run again."""
        # First, so that nothing wakes it any more.
        self.close()
        if self._give_up is not None:
            self._give_up()


_parkers: weakref.WeakSet[Parker] = weakref.WeakSet()


def _strand(in_hub: Callable[[Hub], bool]) -> None:
    for parker in list(_parkers):
        if in_hub(parker.hub):
            parker.strand()


def _strand_thread(ident: int) -> None:
    _strand(lambda hub: hub.thread_ident == ident)


class _Thread:
    """Goes with the thread that has it."""


# The thread's own, also where gevent has given each greenlet its own.
_local = monkey.get_original("threading", "local")()


def _attend(hub: Hub) -> None:
    """See to it that what is waited for in this hub, which is this thread's, is given up with it.

    A hub ends when it is destroyed, which gevent tells nobody, or with its thread.
    """
    if "destroy" not in vars(hub):
        reference = weakref.ref(hub)

        def destroy(destroy_loop: bool | None = None) -> None:
            ended = reference()
            if ended is not None:
                _strand(lambda hub: hub is ended)
                type(ended).destroy(ended, destroy_loop)

        hub.destroy = destroy
    if not hasattr(_local, "thread"):
        _local.thread = _Thread()
        weakref.finalize(_local.thread, _strand_thread, hub.thread_ident).atexit = False


def _unpark_all() -> None:
    """Greenlets survive a fork. What they wait for is the parent's, as they learn when they run again."""
    for parker in list(_parkers):
        parker.unpark()


os.register_at_fork(after_in_child=_unpark_all)


def in_greenlet(callback: Callable[[object], object], is_main_thread: bool) -> Callable[[object], object]:
    """Return what the delivery thread is to call: has `callback` called in a new greenlet of this thread.

    A thread without greenlets has no hub; then it is called on the delivery thread itself.
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
