package zklock.recipes;

import static zklock.recipes.World.MOMENT;
import static zklock.recipes.World.PATIENCE;
import static zklock.recipes.World.bytes;
import static zklock.recipes.World.end;
import static zklock.recipes.World.eventually;
import static zklock.recipes.World.require;
import static zklock.recipes.World.same;
import static zklock.recipes.World.text;

import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.locks.InterProcessMultiLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.framework.recipes.locks.Revoker;
import org.apache.curator.framework.recipes.shared.SharedCount;
import org.apache.zookeeper.KeeperException;

/** Checks of Curator's locks: which holders exclude each other, and in which order they acquire. */
final class Locks {
    private Locks() {}

    static void add(Map<String, Main.Check> checks) {
        checks.put("InterProcessMutex", Locks::exclusion);
        checks.put("InterProcessMutex-order", Locks::order);
        checks.put("InterProcessMutex-revoked", Locks::revocation);
        checks.put("InterProcessReadWriteLock", Locks::readersAndWriters);
        checks.put("InterProcessSemaphoreV2", Locks::permits);
        checks.put("InterProcessSemaphoreV2-count", Locks::permitsOfACount);
        checks.put("InterProcessMultiLock", Locks::several);
    }

    /** No increment of a number is lost, although the contenders write it without a version check. */
    private static void exclusion(World world) throws Exception {
        int threads = 4;
        int rounds = 8;
        String number = world.path() + "/number";
        List<CuratorFramework> clients = world.clients(2);
        clients.get(0).create().creatingParentsIfNeeded().forPath(number, bytes("0"));
        List<Future<Void>> working = new ArrayList<>();
        for (int thread = 0; thread < threads; thread++) {
            CuratorFramework client = clients.get(thread % clients.size());
            InterProcessMutex mutex = new InterProcessMutex(client, world.path() + "/lock");
            working.add(world.begin(() -> {
                for (int round = 0; round < rounds; round++) {
                    mutex.acquire();
                    require(mutex.acquire(0, TimeUnit.SECONDS), "the mutex is not reentrant");
                    int before = Integer.parseInt(text(client.getData().forPath(number)));
                    client.setData().forPath(number, bytes(String.valueOf(before + 1)));
                    mutex.release();
                    require(mutex.isOwnedByCurrentThread(), "the inner release has released it");
                    mutex.release();
                }
                return null;
            }));
        }
        for (Future<Void> one : working) {
            end(one);
        }
        same(threads * rounds, Integer.parseInt(text(clients.get(0).getData().forPath(number))), "increments");
        same(List.of(), left(() -> clients.get(0).getChildren().forPath(world.path() + "/lock")), "contenders left");
    }

    /** Returns the contenders in a queue. If the directory is missing, the server has deleted the empty container. */
    private static Collection<String> left(Callable<Collection<String>> queue) throws Exception {
        try {
            return queue.call();
        } catch (KeeperException.NoNodeException gone) {
            return List.of();
        }
    }

    /** Waiters acquire in the order in which they queued. A waiter whose acquire timed out has left the queue. */
    private static void order(World world) throws Exception {
        String lock = world.path();
        InterProcessMutex first = new InterProcessMutex(world.client(), lock);
        first.acquire();
        require(
                !new InterProcessMutex(world.client(), lock).acquire(MOMENT, TimeUnit.MILLISECONDS),
                "two have the mutex");
        same(1, first.getParticipantNodes().size(), "contenders after a time-out");
        Collection<Integer> served = new ConcurrentLinkedQueue<>();
        List<Future<Void>> waiting = new ArrayList<>();
        for (int i = 0; i < 4; i++) {
            int number = i;
            InterProcessMutex mutex = new InterProcessMutex(world.client(), lock);
            waiting.add(world.begin(() -> {
                mutex.acquire();
                served.add(number);
                mutex.release();
                return null;
            }));
            eventually("contender " + i, () -> first.getParticipantNodes().size() == number + 2);
        }
        same(List.of(), List.copyOf(served), "served while the mutex is held");
        first.release();
        for (Future<Void> one : waiting) {
            end(one);
        }
        same(List.of(0, 1, 2, 3), List.copyOf(served), "the order");
    }

    /** A holder is notified that another client wants the lock. */
    private static void revocation(World world) throws Exception {
        List<CuratorFramework> clients = world.clients(2);
        InterProcessMutex held = new InterProcessMutex(clients.get(0), world.path());
        CountDownLatch asked = new CountDownLatch(1);
        held.makeRevocable(lock -> asked.countDown());
        held.acquire();
        Revoker.attemptRevoke(clients.get(1), held.getParticipantNodes().iterator().next());
        require(asked.await(PATIENCE, TimeUnit.MILLISECONDS), "the holder was not asked to release");
        held.release();
    }

    /** Readers share the lock, a writer is alone, and a reader does not overtake a waiting writer. */
    private static void readersAndWriters(World world) throws Exception {
        InterProcessReadWriteLock one = new InterProcessReadWriteLock(world.client(), world.path());
        InterProcessReadWriteLock two = new InterProcessReadWriteLock(world.client(), world.path());
        InterProcessReadWriteLock three = new InterProcessReadWriteLock(world.client(), world.path());
        one.readLock().acquire();
        require(two.readLock().acquire(PATIENCE, TimeUnit.MILLISECONDS), "readers exclude each other");
        two.readLock().release();
        require(!two.writeLock().acquire(MOMENT, TimeUnit.MILLISECONDS), "a writer holds together with a reader");
        CountDownLatch release = new CountDownLatch(1);
        CountDownLatch written = new CountDownLatch(1);
        Future<Void> writing = world.begin(() -> {
            two.writeLock().acquire();
            written.countDown();
            require(release.await(PATIENCE, TimeUnit.MILLISECONDS), "the check itself hangs");
            two.readLock().acquire();
            two.writeLock().release();
            return null;
        });
        eventually("a writer that waits", () -> two.writeLock().getParticipantNodes().size() == 1);
        require(!three.readLock().acquire(MOMENT, TimeUnit.MILLISECONDS), "a reader has overtaken a writer");
        one.readLock().release();
        require(written.await(PATIENCE, TimeUnit.MILLISECONDS), "the writer was not let in");
        require(!three.readLock().acquire(MOMENT, TimeUnit.MILLISECONDS), "a reader holds together with a writer");
        release.countDown();
        end(writing);
        // The writer has become a reader. Other readers can acquire the lock, but no other writer can.
        require(three.readLock().acquire(PATIENCE, TimeUnit.MILLISECONDS), "a downgraded lock keeps readers out");
        require(!one.writeLock().acquire(MOMENT, TimeUnit.MILLISECONDS), "a writer holds together with readers");
    }

    /** There are never more permits in use than exist, and all permits can be in use. */
    private static void permits(World world) throws Exception {
        int permits = 3;
        AtomicInteger out = new AtomicInteger();
        AtomicInteger most = new AtomicInteger();
        List<CuratorFramework> clients = world.clients(2);
        List<Future<Void>> working = new ArrayList<>();
        for (int thread = 0; thread < 8; thread++) {
            InterProcessSemaphoreV2 semaphore =
                    new InterProcessSemaphoreV2(clients.get(thread % 2), world.path(), permits);
            working.add(world.begin(() -> {
                for (int round = 0; round < 3; round++) {
                    Lease lease = semaphore.acquire();
                    most.accumulateAndGet(out.incrementAndGet(), Math::max);
                    Thread.sleep(10);
                    out.decrementAndGet();
                    semaphore.returnLease(lease);
                }
                return null;
            }));
        }
        for (Future<Void> one : working) {
            end(one);
        }
        require(most.get() <= permits, most.get() + " permits of " + permits + " were out");
        InterProcessSemaphoreV2 semaphore = new InterProcessSemaphoreV2(clients.get(0), world.path(), permits);
        Collection<Lease> all = semaphore.acquire(permits, PATIENCE, TimeUnit.MILLISECONDS);
        require(all != null && all.size() == permits, "not all permits are free again");
        same(null, semaphore.acquire(MOMENT, TimeUnit.MILLISECONDS), "one permit more");
        semaphore.returnAll(all);
        same(List.of(), left(semaphore::getParticipantNodes), "permits left");
    }

    /** A shared count sets the number of permits. When it grows, another permit is granted immediately. */
    private static void permitsOfACount(World world) throws Exception {
        List<CuratorFramework> clients = world.clients(2);
        try (SharedCount ours = new SharedCount(clients.get(0), world.path() + "/count", 1);
                SharedCount theirs = new SharedCount(clients.get(1), world.path() + "/count", 1)) {
            ours.start();
            theirs.start();
            InterProcessSemaphoreV2 semaphore =
                    new InterProcessSemaphoreV2(clients.get(0), world.path() + "/permits", ours);
            require(semaphore.acquire(PATIENCE, TimeUnit.MILLISECONDS) != null, "the first permit");
            same(null, semaphore.acquire(MOMENT, TimeUnit.MILLISECONDS), "a second permit of one");
            Future<Lease> waiting = world.begin(semaphore::acquire);
            eventually("a contender that waits", () -> semaphore.getParticipantNodes().size() == 2);
            theirs.setCount(2);
            require(end(waiting) != null, "the permit that was added");
        }
    }

    /** A multi lock acquires all its locks or none. */
    private static void several(World world) throws Exception {
        List<CuratorFramework> clients = world.clients(2);
        List<String> paths = List.of(world.path() + "/a", world.path() + "/b");
        InterProcessMultiLock both = new InterProcessMultiLock(clients.get(0), paths);
        InterProcessMutex second = new InterProcessMutex(clients.get(1), paths.get(1));
        second.acquire();
        require(!both.acquire(MOMENT, TimeUnit.MILLISECONDS), "a multi lock with a member that another client holds");
        require(!both.isAcquiredInThisProcess(), "it reports that it has the locks");
        InterProcessMutex first = new InterProcessMutex(clients.get(1), paths.get(0));
        require(first.acquire(PATIENCE, TimeUnit.MILLISECONDS), "the first lock was kept without the second");
        first.release();
        second.release();
        require(both.acquire(PATIENCE, TimeUnit.MILLISECONDS), "free locks");
        require(!first.acquire(MOMENT, TimeUnit.MILLISECONDS), "the first lock is not held");
        require(!second.acquire(MOMENT, TimeUnit.MILLISECONDS), "the second lock is not held");
        both.release();
    }
}
