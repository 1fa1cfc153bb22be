"""The documented uses, for type checkers. None of this code runs."""

import asyncio
import threading
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from typing import Any, Literal, assert_type

import zklock
from zklock import aio
from zklock.compat import kazoo


def clients() -> None:
    with zklock.Client("zk1:2181,zk2:2181/app", session_timeout=4, label="billing") as client:
        assert_type(client.state, Literal["idle", "connecting", "connected", "suspended", "closed", "forked"])
        assert_type(client.stats().wait.sum, float)
        notice = client.on_state(lambda state: print("now", state.upper()))
        notice.cancel()
    private = zklock.Client(
        "zk1:2281",
        tls=zklock.Tls("ca.pem", cert="cert.pem", key="key.pem"),
        auth=[("digest", "me:secret"), ("digest", b"me:\xff")],
        acl="creator",
        connect=False,
    )
    assert_type(private.connect(), zklock.Client)


def mutexes(client: zklock.Client) -> None:
    lock = zklock.Mutex(client, "/locks/report", label="nightly", naming="kazoo")
    with lock as lease:
        assert_type(lease, zklock.Lease)
        assert_type(lease.fencing_token, int)
        assert_type(lease.remaining, float)
        lease.on_lost(lambda lost: print(lost.loss_reason))
        lease.transaction().set_data("/state", b"done", version=0).create("/report").commit()
    if lock.acquire(timeout=5):
        lock.release(wait=False)
    assert_type(lock.acquire(blocking=False), bool)
    assert_type(lock.once("monday", lambda lease: lease.fencing_token, timeout=5, record="start"), int | None)

    @lock.once_per(3600, timeout=5)
    def clean_up(days: int, *, dry: bool = False) -> str:
        return f"{days} {dry}"

    assert_type(clean_up(3, dry=True), str | None)
    with lock.hold(timeout=5) as lease:
        assert_type(lease, zklock.Lease)
    assert_type(lock.lease, zklock.Lease | None)
    for contender in lock.contenders():
        assert_type(contender.host, str | None)
        assert_type(contender.owner, zklock.OwnerInfo | None)
        assert_type((contender.cohort, contender.linger), tuple[int | None, float | None])
        client.break_lock(f"{lock.path}/{contender.node}")
    everywhere = zklock.Mutex("zk1:2181", "/locks/report", reentrant=False)
    threading.Thread(target=everywhere.release).start()
    with threading.Condition(everywhere) as condition_held:  # type: ignore[arg-type]
        assert_type(condition_held, bool)


def decorators(client: zklock.Client) -> None:
    lock = zklock.Mutex(client, "/locks/index")

    @lock
    def rebuild(name: str, *, full: bool = False) -> int:
        return len(name) if full else 0

    @lock.hold(timeout=5)
    def refresh() -> str:
        return "fresh"

    assert_type(rebuild("all", full=True), int)
    assert_type(refresh(), str)


def other_locks(client: zklock.Client) -> None:
    catalogue = zklock.ReadWriteLock(client, "/locks/catalogue")
    slots = zklock.Semaphore(client, "/locks/upstream", 5)
    shared = zklock.Semaphore(client, "/locks/shared", shared_count="/config/slots")
    with catalogue.read_lock as reading, slots as permit, shared:
        assert_type(reading, zklock.Lease)
        assert_type(permit, zklock.Lease)
    with slots.acquire_many(2, timeout=10) as leases:
        assert_type([lease.node for lease in leases], list[str])
    several: zklock.Acquirable[zklock.Leases] = zklock.MultiLock([slots, catalogue.write_lock])
    locks: list[zklock.Lock] = [slots, catalogue.read_lock, zklock.Mutex(client, "/a")]
    with several as all_of_them, ExitStack() as stack:
        assert_type(all_of_them[0], zklock.Lease)
        assert_type([stack.enter_context(lock) for lock in locks], list[zklock.Lease])


def errors(lock: zklock.Mutex) -> str:
    try:
        with lock.hold(timeout=5) as lease:
            lease.check()
    except TimeoutError:
        return "taken"
    except zklock.LockLost as error:
        match error.reason:
            case "term ended" | "session expired" | "client closed":
                return "try again"
            case "node deleted" | "held too long" | "inherited through fork" | None:
                return error.code
    except zklock.TransactionFailed as error:
        assert_type(error.index, int | None)
        assert_type(error.path, str | None)
    except zklock.ConnectionFailed as error:
        assert_type(error.servers[0].detail, str)
    return "done"


def reasons(error: zklock.LockTimeout, lease: aio.Lease) -> int:
    assert_type(lease.state, Literal["held", "suspended", "lost", "released"])
    assert_type(lease.mode, Literal["mutex", "read", "write", "permit", "leadership"])
    match error.reason:
        case "taken":
            return 409
        case "unreachable" | "unknown" | "full":
            return 503


def a_process() -> None:
    zklock.close_on_signals()
    print(zklock.dump())
    for hold in zklock.Client("zk1:2181").health().holds:
        assert_type(hold.owner, zklock.OwnerReport)
        assert_type(hold.owner.name, str | None)
    for wait in zklock.Client("zk1:2181").health().waits:
        assert_type(wait.in_cohort, bool)


async def awaiting() -> None:
    async with aio.Client("zk1:2181") as client:
        lock = aio.Mutex(client, "/locks/report")

        async def report(lease: aio.Lease) -> int:
            return lease.fencing_token

        assert_type(await lock.once("monday", report, timeout=5, record="start"), int | None)

        @lock.once_per(3600)
        async def clean_up(days: int) -> str:
            return str(days)

        assert_type(await clean_up(3), str | None)
        assert_type(await lock.acquire(timeout=5), bool)
        await lock.release()
        assert_type(await asyncio.wait_for(lock.acquire(), 5), bool)
        async with lock.hold(timeout=5) as lease, asyncio.timeout(10):
            assert_type(lease, aio.Lease)
            await lease.transaction().set_data("/state", b"done").commit()
        asyncio.get_running_loop().call_later(5, lock.release)
        if not await lock.locked():
            print([contender.data for contender in await lock.contenders()])

        slots = aio.Semaphore(client, "/locks/upstream", 5)
        async with slots.acquire_many(2) as leases:
            assert_type(leases, aio.Leases)
        leases = await slots.acquire_many(2, timeout=5)
        assert_type(leases, aio.Leases)
        async with AsyncExitStack() as stack:
            locks: list[aio.Lock] = [slots, aio.ReadWriteLock(client, "/b").read_lock, lock]
            for one in locks:
                assert_type(await stack.enter_async_context(one), aio.Lease)
            several = aio.MultiLock(locks)
            assert_type(await stack.enter_async_context(several.hold(timeout=5)), aio.Leases)

        @lock
        async def rebuild(name: str) -> int:
            return len(name)

        @lock.hold(timeout=5)
        async def refresh() -> str:
            return "fresh"

        assert_type(await rebuild("all"), int)
        assert_type(await refresh(), str)


@asynccontextmanager
async def lifespan(_app: Any) -> AsyncGenerator[aio.Mutex, None]:
    async with aio.Client() as client:
        yield aio.Mutex(client, "/locks/report")


def as_in_kazoo(client: zklock.Client) -> None:
    lock = kazoo.Lock(client, "/locks/report", "worker-7", extra_lock_patterns=["-lock-"])
    try:
        assert_type(lock.acquire(timeout=5, ephemeral=True), bool)
    except kazoo.LockTimeout as error:
        assert_type(error, zklock.LockTimeout)
    except kazoo.CancelledError:
        lock.cancel()
    else:
        assert_type(lock.release(), bool)
    with lock as lease, kazoo.ReadLock("zk1:2181", "/a"), kazoo.WriteLock(client, "/b"):
        assert_type(lease.fencing_token, int)
    assert_type(lock.contenders(), list[str])
    semaphore = kazoo.Semaphore(client, "/locks/upstream", "worker-7", max_leases=5)
    assert_type(semaphore.acquire(blocking=False), bool)
    assert_type(semaphore.lease_holders(), list[str])


def in_a_test(zklock_server: zklock.testing.Server, client: zklock.Client, awaited: aio.Client) -> None:
    with zklock.testing.Server() as server, zklock.Mutex(server.hosts, "/locks/report") as lease:
        for whose in (client, awaited, lease, lease.session_id):
            assert_type(server.expire(whose), bool)
        assert_type(server.tree(), dict[str, bytes])
        server.latency(1)
    assert_type(zklock_server.disconnect(awaited), bool)
