"""Programs that use an event loop in unusual ways next to zklock."""

from __future__ import annotations

import asyncio
import time

import scripts
from conftest import Run
from harness.observer import Observer
from tasks import acquire

from zklock import aio


def test_outcomes_that_come_while_a_loop_is_busy_all_arrive(run: Run, path: str) -> None:
    """A loop that was busy receives all outcomes when it runs again, and later outcomes wake it again."""

    async def again_and_again(client: aio.Client, name: str) -> bool:
        lock = aio.Mutex(client, f"{path}-{name}")
        for _ in range(20):
            async with lock:
                # Outcomes of the other tasks arrive meanwhile.
                time.sleep(0.001)
        return True

    async def body(client: aio.Client) -> None:
        async with asyncio.timeout(60):
            assert all(await asyncio.gather(*(again_and_again(client, str(number)) for number in range(20))))

    run(body)


def test_an_acquire_of_several_steps_continues_while_its_loop_is_blocked(
    run: Run, observer: Observer, path: str
) -> None:
    """An acquire of a permit needs several requests, which must continue while the event loop is blocked."""

    async def body(client: aio.Client) -> None:
        semaphore = aio.Semaphore(client, path, 1)
        acquiring = asyncio.create_task(acquire(semaphore))
        await asyncio.sleep(0)
        # The event loop is blocked meanwhile.
        observer.wait_queue(f"{path}/leases", 1)
        observer.wait_queue(f"{path}/locks", 0)
        assert await acquiring
        await semaphore.release()

    run(body)


def test_a_new_event_loop_at_the_address_of_an_old_one_is_notified(hosts: str, path: str) -> None:
    """The thread that notifies a loop can be so late that the loop has been deleted meanwhile."""
    done = scripts.run(
        """
        with zklock.Mutex(hosts, path):
            pass
        # Use one processor, and give the library's threads a lower priority, so that they run late.
        processor = {min(os.sched_getaffinity(0))}
        for task in os.listdir("/proc/self/task"):
            os.sched_setaffinity(int(task), processor)
            if open(f"/proc/self/task/{task}/comm").read().startswith("zklock"):
                os.setpriority(os.PRIO_PROCESS, int(task), 5)

        async def use():
            async with aio.Mutex(hosts, path):
                pass

        for _ in range(300):
            asyncio.run(use())
        print("done")
        """,
        hosts,
        path,
        timeout=90,
    )
    assert done.stdout.strip() == "done", done


def test_a_forked_child_takes_nothing_from_its_parents_loop(hosts: str, path: str) -> None:
    """A forked child shares the descriptors of its parent's loop. Here the child also runs that loop."""
    done = scripts.run(
        """
        async def wait():
            async with aio.Mutex(hosts, path):
                return "granted"

        async def tick():
            # The child can read the byte that would wake the parent's loop, so wake the loop regularly.
            while True:
                await asyncio.sleep(0.05)

        async def main():
            ticking = asyncio.create_task(tick())
            held = zklock.Mutex(zklock.Client(hosts), path)
            held.acquire()
            waiting = asyncio.create_task(wait())
            while len(held.contenders()) < 2:
                await asyncio.sleep(0.01)
            received, tell = os.pipe()
            pid = os.fork()
            if pid == 0:
                os.read(received, 1)
                sys.exit(0)
            held.release()
            # The loop has been woken for the outcome when the child runs it.
            asyncio.get_running_loop()._selector.select(20)
            os.write(tell, b".")
            os.waitpid(pid, 0)
            print(await waiting, await wait())
            ticking.cancel()

        asyncio.run(main())
        """,
        hosts,
        path,
    )
    assert done.stdout.strip() == "granted granted", done


def test_a_task_that_waited_leaves_its_context_to_the_garbage_collector(hosts: str, path: str) -> None:
    """An event loop keeps no reference to a task's context, so a lock in that context can be collected."""
    done = scripts.run(
        """
        import contextvars, gc

        variable = contextvars.ContextVar("variable")

        async def forget():
            lock = aio.Mutex(hosts, path)
            variable.set(lock)
            await lock.acquire()

        async def main():
            await asyncio.create_task(forget())
            other = zklock.Mutex(hosts, path)
            deadline = time.monotonic() + 10
            while other.locked() and time.monotonic() < deadline:
                gc.collect()
                await asyncio.sleep(0.01)
            print(other.locked())

        asyncio.run(main())
        """,
        hosts,
        path,
    )
    assert done.stdout.strip() == "False", done


def test_a_loop_that_still_watches_a_closed_socket(hosts: str, path: str) -> None:
    """The loop still watches a closed descriptor, so it could not watch a new one with the same number."""
    done = scripts.run(
        """
        import socket

        with zklock.Mutex(hosts, path):
            pass

        async def main():
            one, other = socket.socketpair()
            for end in (one, other):
                asyncio.get_running_loop().add_reader(end, lambda: None)
                end.close()
            async with asyncio.timeout(10), aio.Mutex(hosts, path):
                print("granted")

        asyncio.run(main())
        """,
        hosts,
        path,
    )
    assert done.stdout.strip() == "granted", done


def test_a_loop_that_can_only_wait_for_low_descriptors(hosts: str, path: str) -> None:
    """`select` supports only descriptors below 1,024, so zklock must not add a descriptor to the loop."""
    done = scripts.run(
        """
        import resource, selectors

        resource.setrlimit(resource.RLIMIT_NOFILE, (2048, 2048))
        with zklock.Mutex(hosts, path):
            pass
        event_loop = asyncio.SelectorEventLoop(selectors.SelectSelector())
        taken = [os.dup(0) for _ in range(1100)]

        async def main():
            async with aio.Mutex(hosts, path):
                print("granted")

        event_loop.run_until_complete(main())
        """,
        hosts,
        path,
    )
    assert done.stdout.strip() == "granted", done
