"""A node in ZooKeeper that only the current holder of the lock can write.

As in `fencing_token.py`, a process is stopped between checking its lease and writing. This program writes in
a transaction, which needs no token: the servers check the lock and write in one step. With `--unguarded`, the
stopped process writes as if there were no lock and overwrites the newer report, so the program fails.

ZKLOCK_HOSTS=127.0.0.1:2181 python guarded_write.py [--unguarded]
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from multiprocessing.queues import SimpleQueue

import zklock

LOCK = "/examples/guarded-write"


def write(lease: zklock.Lease, report: str, text: str) -> None:
    """Write a report, provided that the lock is still held when the servers carry out the write."""
    lease.transaction().set_data(report, text.encode()).commit()


def write_unguarded(client: zklock.Client, report: str, text: str) -> None:
    """Write without the protection of `LOCK`. The transaction checks an unrelated lock instead."""
    with zklock.Mutex(client, f"{LOCK}-not") as lease:
        write(lease, report, text)


def stopped_writer(report: str, guarded: bool, holding: SimpleQueue[int]) -> None:
    """Acquire the lock, stop between checking and writing, and write."""
    try:
        with zklock.Client(session_timeout=2) as client, zklock.Mutex(client, LOCK) as lease:
            print("the first writer holds the lock", flush=True)
            holding.put(os.getpid())
            lease.check()  # The check passes, but then:
            os.kill(os.getpid(), signal.SIGSTOP)
            if guarded:
                write(lease, report, "old")
            else:
                write_unguarded(client, report, "old")
            print("the first writer resumes, and is not refused", flush=True)
    except zklock.LockLost as error:
        print("the first writer learns of its loss:", error, flush=True)


def main() -> int:
    """Run both writers. Fail if the first writer overwrites the report of the second."""
    guarded = "--unguarded" not in sys.argv
    report = f"/examples/report-{os.getpid()}"
    processes = multiprocessing.get_context("spawn")
    with zklock.Client() as client:
        holding = processes.SimpleQueue()
        first = processes.Process(target=stopped_writer, args=(report, guarded, holding))
        first.start()
        first_pid = holding.get()
        try:
            with zklock.Mutex(client, LOCK) as lease:
                print("the second writer holds the lock", flush=True)
                lease.transaction().create(report).set_data(report, b"new").commit()
        finally:
            os.kill(first_pid, signal.SIGCONT)
            first.join()

        with zklock.Mutex(client, LOCK) as lease:
            try:
                # After one write, a node has version 1.
                lease.transaction().delete(report, version=1).commit()
            except zklock.TransactionFailed:
                lease.transaction().delete(report).commit()
                print("the old report remains")
                return 1
    print("the new report remains")
    return 0


if __name__ == "__main__":
    sys.exit(main())
