package zklock.recipes;

import static zklock.recipes.World.end;
import static zklock.recipes.World.eventually;
import static zklock.recipes.World.require;
import static zklock.recipes.World.same;

import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.Future;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.atomic.AtomicValue;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicLong;
import org.apache.curator.framework.recipes.atomic.PromotedToLock;
import org.apache.curator.framework.recipes.shared.SharedCount;
import org.apache.curator.framework.recipes.shared.SharedCountListener;
import org.apache.curator.framework.recipes.shared.SharedCountReader;
import org.apache.curator.framework.recipes.shared.VersionedValue;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.RetryNTimes;

/** Checks of Curator's shared counters: no write is lost, and all clients see the newest value. */
final class Counts {
    private Counts() {}

    static void add(Map<String, Main.Check> checks) {
        checks.put("SharedCount", Counts::shared);
        checks.put("DistributedAtomicLong", Counts::atomic);
        checks.put("DistributedAtomicLong-promoted", Counts::promoted);
    }

    /** A write with an old version fails. A successful write is reported to the other client. */
    private static void shared(World world) throws Exception {
        List<CuratorFramework> clients = world.clients(2);
        try (SharedCount ours = new SharedCount(clients.get(0), world.path(), 7);
                SharedCount theirs = new SharedCount(clients.get(1), world.path(), 7)) {
            ours.start();
            theirs.start();
            Collection<Integer> heard = new ConcurrentLinkedQueue<>();
            theirs.addListener(new SharedCountListener() {
                @Override
                public void countHasChanged(SharedCountReader count, int now) {
                    heard.add(now);
                }

                @Override
                public void stateChanged(CuratorFramework client, ConnectionState state) {}
            });
            same(7, theirs.getCount(), "the first count");
            VersionedValue<Integer> old = theirs.getVersionedValue();
            require(ours.trySetCount(ours.getVersionedValue(), 8), "a write on the newest version");
            eventually("the write elsewhere", () -> theirs.getCount() == 8 && heard.contains(8));
            require(!theirs.trySetCount(old, 9), "a write on an old version");
            theirs.setCount(10);
            eventually("the other's write", () -> ours.getCount() == 10);
        }
    }

    private static void increment(World world, DistributedAtomicLong[] numbers, int each) throws Exception {
        List<Future<Integer>> working = new ArrayList<>();
        for (DistributedAtomicLong number : numbers) {
            working.add(world.begin(() -> {
                int done = 0;
                for (int i = 0; i < each; i++) {
                    AtomicValue<Long> value = number.increment();
                    if (value.succeeded()) {
                        same(value.preValue() + 1, value.postValue(), "the value after an increment");
                        done++;
                    }
                }
                return done;
            }));
        }
        long total = 0;
        for (Future<Integer> one : working) {
            total += end(one);
        }
        require(total > 0, "no increment succeeded");
        same(total, numbers[0].get().postValue(), "the sum of the increments that succeeded");
    }

    private static void atomic(World world) throws Exception {
        DistributedAtomicLong[] numbers = new DistributedAtomicLong[3];
        for (int i = 0; i < numbers.length; i++) {
            numbers[i] = new DistributedAtomicLong(world.client(), world.path(), new RetryNTimes(20, 5));
        }
        increment(world, numbers, 15);
        long now = numbers[0].get().postValue();
        require(!numbers[1].compareAndSet(now + 1, 0L).succeeded(), "a comparison with a wrong number");
        require(numbers[1].compareAndSet(now, 1_000L).succeeded(), "a comparison with the right number");
        same(998L, numbers[2].subtract(2L).postValue(), "a subtraction");
        require(!numbers[2].initialize(5L), "a second initialization succeeds");
    }

    /** Every increment succeeds: after the optimistic attempts, the counter uses a lock. */
    private static void promoted(World world) throws Exception {
        DistributedAtomicLong[] numbers = new DistributedAtomicLong[3];
        for (int i = 0; i < numbers.length; i++) {
            PromotedToLock promoted = PromotedToLock.builder()
                    .lockPath(world.path() + "/lock")
                    .retryPolicy(new RetryNTimes(3, 1))
                    .build();
            numbers[i] = new DistributedAtomicLong(
                    world.client(), world.path() + "/number", new RetryNTimes(1, 1), promoted);
        }
        increment(world, numbers, 8);
    }
}
