"""Documented misuses. Type checkers must report exactly the lines that have a comment. Never executed."""

import asyncio

import zklock
from zklock import aio
from zklock.compat import kazoo


def blocking(client: zklock.Client) -> None:
    lock = zklock.Mutex(client, "/locks/report")
    lock.acquire(timeout="5")  # A number of seconds.
    zklock.Mutex(client, "/locks/report", "nightly")  # Options are keyword arguments.
    zklock.Mutex(client, "/locks/report", naming="Kazoo")  # Must be one of two values.
    print(lock.lease.fencing_token)  # None, if the lock is not held.
    with lock.acquire():  # It returns a bool. `with lock` is the scope.
        pass
    if lock.locked:  # `locked` is a method.
        print("taken")
    zklock.MultiLock([lock, zklock.ReadWriteLock(client, "/locks/catalogue")])  # Must be one of its halves.

    @lock.hold(timeout=5)
    def rebuild(name: str) -> int:
        return len(name)

    rebuild(7)  # A decorated function keeps its parameters.
    lock.once("monday", rebuild)  # The body takes a lease.
    lock.once("monday", print, record="end")  # Must be one of two values.
    print(1 + lock.once("monday", lambda lease: lease.fencing_token))  # None, if the slot is recorded.
    zklock.ReadWriteLock(client, "/locks/catalogue").read_lock.once("monday", print)  # Only a mutex has this.


async def awaiting(client: aio.Client, other: zklock.Client) -> None:
    lock = aio.Mutex(client, "/locks/report")
    with lock:  # Needs `async with`.
        pass
    lock.acquire()  # Needs `await`.
    async with lock.acquire():  # It returns a bool. `async with lock` is the scope.
        pass
    aio.Mutex(other, "/locks/report")  # This is a blocking client.
    async with lock.hold(timeout=asyncio.timeout(5)):  # A number of seconds.
        pass

    @lock  # Decorates async functions.
    def rebuild() -> int:
        return 1

    print(rebuild)


async def forgotten(client: aio.Client) -> int:
    if aio.Mutex(client, "/locks/report").locked():
        return 1
    return "free"  # The code behind a forgotten `await` is checked too.


def words(lease: zklock.Lease, awaited: aio.Lease, client: aio.Client, error: zklock.LockTimeout) -> None:
    print(lease.state == "gone")  # Not a state of a lease.
    print(awaited.loss_reason == "expired")  # Not a reason of a loss.
    print(client.state == "Connected")  # Not a state of a client.
    print(error.reason == "busy")  # Not a reason of a timeout.
    print(client.health().holds[0].mode == "Mutex")  # Not a mode.


def as_in_kazoo(client: zklock.Client) -> None:
    kazoo.Lock(client, "/locks/report").acquire(ephemeral=False)  # zklock does not support this.
    client.Lock("/locks/report")  # Not a method of the client.
    kazoo.Lock(client, "/locks/report").lease_holders()  # A method of a semaphore only.
    kazoo.Semaphore(client, "/locks/upstream", max_leases="5")  # Must be a number.


def in_a_test(server: zklock.testing.Server) -> None:
    server.expire("client")  # Must be a client, a lease or an id.
    server.expire(zklock.Mutex(server.hosts, "/locks/report"))  # A lock has no session.
