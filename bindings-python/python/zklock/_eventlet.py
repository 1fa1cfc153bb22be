"""Rejects calls on threads that run eventlet. Imported only after the program has imported eventlet."""

from eventlet import hubs, patcher  # type: ignore[import-untyped]


def refuse() -> None:
    """Raise an error on a thread that runs eventlet's green threads."""
    if patcher.is_monkey_patched("thread") and hasattr(hubs._threadlocal, "hub"):
        raise RuntimeError(
            "zklock does not support eventlet, which has patched this process: all green threads of a "
            "thread would be one owner, and a wait would block them all. Use gevent, where each "
            "greenlet is an owner, or threads; in eventlet, use locks in eventlet.tpool.execute() only"
        )
