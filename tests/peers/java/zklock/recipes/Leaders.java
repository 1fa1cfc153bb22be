package zklock.recipes;

import static zklock.recipes.World.end;
import static zklock.recipes.World.eventually;
import static zklock.recipes.World.require;
import static zklock.recipes.World.same;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderSelector;
import org.apache.curator.framework.recipes.leader.LeaderSelectorListenerAdapter;
import org.apache.curator.framework.recipes.leader.Participant;

/** Checks of Curator's elections: one leader at a time, and always a successor. */
final class Leaders {
    private Leaders() {}

    static void add(Map<String, Main.Check> checks) {
        checks.put("LeaderLatch", Leaders::latches);
        checks.put("LeaderLatch-expired", Leaders::expiredLeader);
        checks.put("LeaderSelector", Leaders::selectors);
    }

    private static List<String> leaders(List<LeaderLatch> latches) {
        return latches.stream().filter(LeaderLatch::hasLeadership).map(LeaderLatch::getId).toList();
    }

    private static List<LeaderLatch> start(World world, int count) throws Exception {
        List<LeaderLatch> latches = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            LeaderLatch latch = new LeaderLatch(world.client(), world.path(), "candidate " + i);
            latch.start();
            latches.add(latch);
            int known = i + 1;
            eventually("candidate " + i, () -> latch.getParticipants().size() == known);
        }
        return latches;
    }

    /** One candidate leads. When it resigns, the next one leads. All candidates agree on the leader. */
    private static void latches(World world) throws Exception {
        List<LeaderLatch> latches = start(world, 3);
        for (int turn = 0; turn < 3; turn++) {
            List<String> expected = List.of("candidate " + turn);
            eventually("the election of " + expected, () -> leaders(latches).equals(expected));
            for (LeaderLatch latch : latches) {
                same(expected.get(0), latch.getLeader().getId(), "the leader as another sees it");
            }
            same(3 - turn, latches.get(0).getParticipants().size(), "candidates");
            latches.remove(0).close();
        }
    }

    /** A leader whose session has expired stops leading, and queues again behind the other candidate. */
    private static void expiredLeader(World world) throws Exception {
        List<CuratorFramework> clients = world.clients(2);
        LeaderLatch first = new LeaderLatch(clients.get(0), world.path(), "first");
        first.start();
        require(first.await(10, TimeUnit.SECONDS), "one candidate does not lead");
        LeaderLatch second = new LeaderLatch(clients.get(1), world.path(), "second");
        second.start();
        eventually("two candidates", () -> first.getParticipants().size() == 2);
        world.expire(clients.get(0));
        require(second.await(10, TimeUnit.SECONDS), "no candidate leads after the leader's session expired");
        eventually("the end of the old leader", () -> !first.hasLeadership());
        eventually("its new candidacy", () -> ids(second).equals(List.of("second", "first")));
        second.close();
        require(first.await(10, TimeUnit.SECONDS), "no candidate leads after the resignation");
        first.close();
    }

    private static List<String> ids(LeaderLatch latch) throws Exception {
        return latch.getParticipants().stream().map(Participant::getId).toList();
    }

    /** Two candidates never lead at the same time, and every candidate that queues again leads again. */
    private static void selectors(World world) throws Exception {
        int turns = 2;
        AtomicInteger leading = new AtomicInteger();
        AtomicInteger overlaps = new AtomicInteger();
        Map<Integer, AtomicInteger> led = new ConcurrentHashMap<>();
        CountDownLatch wanted = new CountDownLatch(3 * turns);
        List<LeaderSelector> selectors = new ArrayList<>();
        for (int i = 0; i < 3; i++) {
            AtomicInteger mine = new AtomicInteger();
            led.put(i, mine);
            selectors.add(new LeaderSelector(world.client(), world.path(), new LeaderSelectorListenerAdapter() {
                @Override
                public void takeLeadership(CuratorFramework client) throws Exception {
                    if (leading.incrementAndGet() != 1) {
                        overlaps.incrementAndGet();
                    }
                    try {
                        Thread.sleep(5);
                        if (mine.incrementAndGet() <= turns) {
                            wanted.countDown();
                        }
                    } finally {
                        // Closing a selector interrupts its leader.
                        leading.decrementAndGet();
                    }
                }
            }));
        }
        for (LeaderSelector selector : selectors) {
            selector.autoRequeue();
            selector.start();
        }
        boolean all = wanted.await(10, TimeUnit.SECONDS);
        for (LeaderSelector selector : selectors) {
            // In another thread, with a timeout.
            end(world.begin(() -> {
                selector.close();
                return null;
            }));
        }
        require(all, "turns: " + led);
        same(0, overlaps.get(), "leaders at one time");
    }
}
