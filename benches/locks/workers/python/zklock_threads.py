"""The worker that uses zklock in Python with threads."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable

import zklock

from gate import BATCH, Gate, Task, hold, serve, start
from latencies import Latencies, Stopwatch


def locks(task: Task, client: zklock.Client, contender: int) -> tuple[zklock.Lock, zklock.Lock]:
    """Return a contender's locks for writing and reading."""
    path = task.lock_path(contender)
    if task.kind == "mutex":
        mutex = zklock.Mutex(client, path, cohort=task.cohort, linger=task.linger)
        return mutex, mutex
    if task.kind == "semaphore":
        semaphore = zklock.Semaphore(client, path, task.permits)
        return semaphore, semaphore
    both = zklock.ReadWriteLock(client, path, cohort=task.cohort, linger=task.linger)
    return both.write_lock, both.read_lock


def pairs(
    task: Task, gate: Gate, watch: Stopwatch, both: tuple[zklock.Lock, zklock.Lock], contender: int
) -> None:
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


def reenter(gate: Gate, lock: zklock.Lock, contender: int) -> None:
    """Re-enter the lock that this thread holds."""
    lock.acquire()
    while True:
        gate.wait()
        for _ in range(BATCH):
            lock.acquire()
            lock.release()
        gate.counts[contender] += BATCH


def tries(gate: Gate, lock: zklock.Lock, contender: int) -> None:
    """Try a taken lock forever."""
    while True:
        gate.wait()
        assert not lock.acquire(blocking=False)
        gate.counts[contender] += 1


def main() -> None:
    task = Task.from_arguments()
    contenders = task.clients * task.contenders
    gate, latencies = Gate(contenders), Latencies(task)
    # The last client holds the locks that the others find taken.
    clients = [zklock.Client(task.client_hosts(number)) for number in range(task.clients + 1)]

    def held() -> zklock.Lock:
        lock = locks(task, clients[-1], 0)[1]
        lock.acquire()
        # Keep the lock object, because it would release its lock when it is garbage-collected.
        return lock

    hold(task.held, held)

    def body(contender: int) -> None:
        both = locks(task, clients[contender // task.contenders], contender)
        watch = Stopwatch(latencies)
        work: dict[str, Callable[[], None]] = {
            "pair": lambda: pairs(task, gate, watch, both, contender),
            "reenter": lambda: reenter(gate, both[0], contender),
            "try": lambda: tries(gate, both[0], contender),
        }
        with contextlib.suppress(zklock.ClientClosed):
            work[task.op]()

    start(contenders, body)

    def close() -> None:
        for client in clients:
            client.close()

    serve(gate, zklock.__version__, close, latencies)


if __name__ == "__main__":
    main()
