package zklock.recipes;

import static zklock.recipes.World.MOMENT;
import static zklock.recipes.World.PATIENCE;
import static zklock.recipes.World.end;
import static zklock.recipes.World.require;
import static zklock.recipes.World.same;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.barriers.DistributedBarrier;
import org.apache.curator.framework.recipes.barriers.DistributedDoubleBarrier;

/** Checks of Curator's barriers: no member passes early, and every member passes. */
final class Barriers {
    private Barriers() {}

    static void add(Map<String, Main.Check> checks) {
        checks.put("DistributedBarrier", Barriers::barrier);
        checks.put("DistributedDoubleBarrier", Barriers::doubleBarrier);
    }

    private static void barrier(World world) throws Exception {
        List<CuratorFramework> clients = world.clients(2);
        DistributedBarrier set = new DistributedBarrier(clients.get(0), world.path());
        set.setBarrier();
        DistributedBarrier met = new DistributedBarrier(clients.get(1), world.path());
        require(!met.waitOnBarrier(MOMENT, TimeUnit.MILLISECONDS), "one has passed a barrier that is set");
        List<Future<Boolean>> waiting = new ArrayList<>();
        for (CuratorFramework client : clients) {
            DistributedBarrier barrier = new DistributedBarrier(client, world.path());
            waiting.add(world.begin(() -> barrier.waitOnBarrier(PATIENCE, TimeUnit.MILLISECONDS)));
        }
        set.removeBarrier();
        for (Future<Boolean> one : waiting) {
            require(end(one), "the barrier is gone, and one waits");
        }
    }

    /** All members enter when all are present, and all leave when all are ready. */
    private static void doubleBarrier(World world) throws Exception {
        int members = 3;
        AtomicInteger arrived = new AtomicInteger();
        AtomicInteger ready = new AtomicInteger();
        List<Future<Void>> working = new ArrayList<>();
        for (int i = 0; i < members; i++) {
            int number = i;
            CuratorFramework client = world.client();
            working.add(world.begin(() -> {
                DistributedDoubleBarrier barrier = new DistributedDoubleBarrier(client, world.path(), members);
                Thread.sleep(20L * number);
                arrived.incrementAndGet();
                require(barrier.enter(PATIENCE, TimeUnit.MILLISECONDS), "a member could not enter");
                same(members, arrived.get(), "members when one enters");
                Thread.sleep(20L * (members - number));
                ready.incrementAndGet();
                require(barrier.leave(PATIENCE, TimeUnit.MILLISECONDS), "a member could not leave");
                same(members, ready.get(), "members that are ready when one leaves");
                return null;
            }));
        }
        for (Future<Void> one : working) {
            end(one);
        }
    }
}
