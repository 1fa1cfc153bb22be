"""The worker that uses kazoo's own recipes."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import Any

import kazoo.client
import kazoo.exceptions
import kazoo.version

from gate import Gate, Task, hold, serve, start
from latencies import Latencies, Stopwatch


def locks(task: Task, client: Any, contender: int) -> tuple[Any, Any]:
    """Return a contender's locks for writing and reading."""
    path = task.lock_path(contender)
    if task.kind == "mutex":
        lock = client.Lock(path)
        return lock, lock
    if task.kind == "semaphore":
        lock = client.Semaphore(path, max_leases=task.permits)
        return lock, lock
    return client.WriteLock(path), client.ReadLock(path)


def pairs(task: Task, gate: Gate, watch: Stopwatch, both: tuple[Any, Any], contender: int) -> None:
    """Acquire and release forever."""
    turn = 0
    while True:
        lock = both[0 if task.writes(contender, turn) else 1]
        turn += 1
        if pause := watch.pause():
            time.sleep(pause)
        watch.start()
        lock.acquire()
        watch.acquired()
        gate.wait()
        watch.releasing()
        lock.release()
        watch.released()
        gate.counts[contender] += 1


def tries(gate: Gate, lock: Any, contender: int) -> None:
    """Try a taken lock forever."""
    while True:
        gate.wait()
        assert not lock.acquire(blocking=False)
        gate.counts[contender] += 1


def main() -> None:
    task = Task.from_arguments()
    contenders = task.clients * task.contenders
    gate, latencies = Gate(contenders), Latencies(task)
    clients = [kazoo.client.KazooClient(task.client_hosts(number)) for number in range(task.clients + 1)]
    for client in clients:
        client.start()

    def held() -> Any:
        lock = locks(task, clients[-1], 0)[1]
        lock.acquire()
        return lock

    hold(task.held, held)

    def body(contender: int) -> None:
        both = locks(task, clients[contender // task.contenders], contender)
        watch = Stopwatch(latencies)
        work: dict[str, Callable[[], None]] = {
            "pair": lambda: pairs(task, gate, watch, both, contender),
            "try": lambda: tries(gate, both[0], contender),
        }
        ends = (kazoo.exceptions.KazooException, kazoo.exceptions.ConnectionClosedError)
        with contextlib.suppress(*ends):
            work[task.op]()

    start(contenders, body)

    def close() -> None:
        for client in clients:
            client.stop()

    serve(gate, f"kazoo {kazoo.version.__version__}", close, latencies)


if __name__ == "__main__":
    main()
