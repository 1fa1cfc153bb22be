"""A table that refuses a writer whose lock was acquired by another process.

One process acquires the lock, checks its lease, and is stopped before it writes, as the kernel or a
hypervisor can stop any process. Meanwhile another process acquires the lock. When the first process resumes,
it does not know that it has lost the lock, and writes. The table refuses this write because of its older
token. With `--unguarded`, the late write overwrites the newer report, so the program fails.

ZKLOCK_HOSTS=127.0.0.1:2181 python fencing_token.py [--unguarded]
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sqlite3
import sys
import tempfile
from contextlib import closing
from multiprocessing.queues import SimpleQueue
from pathlib import Path

import zklock

LOCK = "/examples/fencing-token"
TABLE = "CREATE TABLE report AS SELECT '' AS text, 0 AS token"
GUARDED = "UPDATE report SET text = :text, token = :token WHERE token <= :token"
UNGUARDED = "UPDATE report SET text = :text"


def write(database: Path, statement: str, text: str, lease: zklock.Lease) -> bool:
    """Write a report. Return False if the table refuses it because it has seen a larger token."""
    with closing(sqlite3.connect(database)) as connection, connection:
        row = {"text": text, "token": lease.fencing_token}
        return connection.execute(statement, row).rowcount == 1


def stopped_writer(database: Path, statement: str, holding: SimpleQueue[int]) -> None:
    """Acquire the lock, stop between checking and writing, and write."""
    try:
        with zklock.Client(session_timeout=2) as client, zklock.Mutex(client, LOCK) as lease:
            print("the first writer holds the lock, with token", lease.fencing_token, flush=True)
            holding.put(os.getpid())
            lease.check()  # The check passes, but then:
            os.kill(os.getpid(), signal.SIGSTOP)
            written = write(database, statement, "old", lease)
            print("the first writer resumes, and is", "not refused" if written else "refused", flush=True)
    except zklock.LockLost as error:
        print("the first writer learns of its loss too late:", error, flush=True)


def main() -> int:
    """Run both writers. Fail if the first writer overwrites the report of the second."""
    statement = UNGUARDED if "--unguarded" in sys.argv else GUARDED
    processes = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as directory, zklock.Client() as client:
        database = Path(directory, "reports")
        with closing(sqlite3.connect(database)) as connection, connection:
            connection.execute(TABLE)

        holding = processes.SimpleQueue()
        first = processes.Process(target=stopped_writer, args=(database, statement, holding))
        first.start()
        first_pid = holding.get()
        try:
            with zklock.Mutex(client, LOCK) as lease:
                print("the second writer holds the lock, with token", lease.fencing_token, flush=True)
                write(database, statement, "new", lease)
        finally:
            os.kill(first_pid, signal.SIGCONT)
            first.join()

        with closing(sqlite3.connect(database)) as connection:
            (text,) = connection.execute("SELECT text FROM report").fetchone()
    print(f"the {text} report remains")
    return 0 if text == "new" else 1


if __name__ == "__main__":
    sys.exit(main())
