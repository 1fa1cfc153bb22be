"""The worker that locks a key in Redis: `SET NX PX`, a Lua script that deletes the key, and a watchdog that
renews held keys.

There is no queue: a waiter polls after a random pause.
"""

from __future__ import annotations

import contextlib
import random
import threading
import time
import uuid

import redis

from gate import Gate, Task, serve, start

TTL = 10_000
"""Milliseconds until a dead holder's key expires, the same as the session timeout of the other peers."""

PAUSE = 0.01
"""Maximum pause of a waiter, in seconds."""

DELETE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"
RENEW = (
    "if redis.call('get', KEYS[1]) == ARGV[1] then"
    " return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0"
)


class Lock:
    """One contender's lock."""

    def __init__(self, client: redis.Redis, path: str) -> None:
        self._client = client
        self._path = path
        self._token = uuid.uuid4().hex
        self._delete = client.register_script(DELETE)
        self._renew = client.register_script(RENEW)
        self.held = False

    def attempt(self) -> bool:
        """Acquire the lock if it is free."""
        self.held = bool(self._client.set(self._path, self._token, nx=True, px=TTL))
        return self.held

    def acquire(self) -> None:
        """Wait for the lock."""
        while not self.attempt():
            time.sleep(random.uniform(0, PAUSE))

    def release(self) -> None:
        """Release the lock."""
        self.held = False
        self._delete(keys=[self._path], args=[self._token])

    def renew(self) -> None:
        """Renew the key. The watchdog calls this three times within the lifetime of a key."""
        if self.held:
            self._renew(keys=[self._path], args=[self._token, TTL])


def main() -> None:
    task = Task.from_arguments()
    contenders = task.clients * task.contenders
    gate = Gate(contenders)
    host, port = task.hosts.rsplit(":", 1)
    # Each client has a connection pool: a thread uses one of its connections for the duration of a call.
    clients = [redis.Redis(host=host, port=int(port)) for _ in range(task.clients)]
    holder = Lock(clients[0], task.lock_path(0))
    if task.held:
        assert holder.attempt()
    locks = [
        Lock(clients[contender // task.contenders], task.lock_path(contender))
        for contender in range(contenders)
    ]

    def watch() -> None:
        while True:
            time.sleep(TTL / 3_000)
            for lock in (holder, *locks):
                lock.renew()

    threading.Thread(target=watch, daemon=True).start()

    def body(contender: int) -> None:
        lock = locks[contender]
        with contextlib.suppress(redis.ConnectionError):
            while True:
                if task.op == "pair":
                    lock.acquire()
                    gate.wait()
                    lock.release()
                else:
                    gate.wait()
                    assert not lock.attempt()
                gate.counts[contender] += 1

    start(contenders, body)
    info = clients[0].info("server")
    serve(gate, f"Redis {info['redis_version']}", lambda: None)


if __name__ == "__main__":
    main()
