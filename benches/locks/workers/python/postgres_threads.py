"""The worker that locks a row in PostgreSQL: `SELECT … FOR UPDATE`, held until the
transaction is committed.
"""

from __future__ import annotations

import contextlib
import time
import zlib
from typing import Any

import psycopg

from gate import Gate, Task, serve, start
from latencies import Latencies, Stopwatch

WAIT = "SELECT FROM locks WHERE path = %s FOR UPDATE"
TRY = "SELECT FROM locks WHERE path = %s FOR UPDATE SKIP LOCKED"


def connect(task: Task) -> Any:
    """Return the connection of one contender. Transactions are begun explicitly."""
    host, port = task.hosts.rsplit(":", 1)
    return psycopg.connect(
        host=host, port=int(port), user="bench", dbname="postgres", autocommit=True, prepare_threshold=1
    )


def contend(task: Task, gate: Gate, watch: Stopwatch, connection: Any, contender: int) -> None:
    """Acquire and release forever, or try a taken lock."""
    path = (task.lock_path(contender),)
    while True:
        if task.op == "pair":
            if pause := watch.pause():
                time.sleep(pause)
            watch.start()
            with connection.transaction():
                connection.execute(WAIT, path)
                watch.acquired()
                gate.wait()
                watch.releasing()
            watch.released()
        else:
            gate.wait()
            assert connection.execute(TRY, path).fetchone() is None
        gate.counts[contender] += 1


def main() -> None:
    task = Task.from_arguments()
    contenders = task.clients * task.contenders
    gate, latencies = Gate(contenders), Latencies(task)
    with connect(task) as first:
        # All workers share one table. Insert the rows that this worker needs.
        first.execute("SELECT pg_advisory_lock(%s)", (zlib.crc32(b"locks"),))
        first.execute("CREATE TABLE IF NOT EXISTS locks (path text PRIMARY KEY)")
        for contender in range(contenders):
            row = (task.lock_path(contender),)
            first.execute("INSERT INTO locks VALUES (%s) ON CONFLICT DO NOTHING", row)
        version = first.info.server_version
    holder = connect(task)
    if task.held:
        holder.execute("BEGIN")
        holder.execute(WAIT, (task.lock_path(0),))
    connections = [connect(task) for _ in range(contenders)]

    def body(contender: int) -> None:
        with contextlib.suppress(psycopg.Error):
            contend(task, gate, Stopwatch(latencies), connections[contender], contender)

    start(contenders, body)
    told = f"PostgreSQL {version // 10_000}.{version % 10_000}"
    serve(gate, told, lambda: None, latencies)


if __name__ == "__main__":
    main()
