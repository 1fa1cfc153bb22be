package zklock.recipes;

import static zklock.recipes.World.bytes;
import static zklock.recipes.World.eventually;
import static zklock.recipes.World.same;
import static zklock.recipes.World.text;

import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.cache.ChildData;
import org.apache.curator.framework.recipes.cache.CuratorCache;
import org.apache.curator.framework.recipes.cache.CuratorCacheListener;
import org.apache.curator.framework.recipes.cache.PathChildrenCache;
import org.apache.curator.framework.recipes.watch.PersistentWatcher;

/** Checks of Curator's caches: they report all changes in order, and end with the server's state. */
final class Caches {
    private Caches() {}

    static void add(Map<String, Main.Check> checks) {
        checks.put("PathChildrenCache", Caches::children);
        checks.put("CuratorCache", Caches::tree);
        checks.put("CuratorCache-expired", Caches::afterAnExpiry);
        checks.put("PersistentWatcher", Caches::watcher);
    }

    /** A cache with one-time watches, which it sets again after each event. */
    @SuppressWarnings("deprecation")
    private static void children(World world) throws Exception {
        List<CuratorFramework> clients = world.clients(2);
        CuratorFramework writer = clients.get(0);
        String child = world.path() + "/child";
        writer.create().creatingParentsIfNeeded().forPath(world.path() + "/before", bytes("0"));
        Collection<String> events = new ConcurrentLinkedQueue<>();
        try (PathChildrenCache cache = new PathChildrenCache(clients.get(1), world.path(), true)) {
            cache.getListenable().addListener((client, event) -> {
                if (event.getData() != null) {
                    String name = event.getData().getPath().substring(world.path().length() + 1);
                    events.add(event.getType() + " " + name + " " + text(event.getData().getData()));
                }
            });
            cache.start(PathChildrenCache.StartMode.BUILD_INITIAL_CACHE);
            same(1, cache.getCurrentData().size(), "children that existed before");
            writer.create().forPath(child, bytes("1"));
            eventually("the child", () -> cache.getCurrentData(child) != null);
            writer.setData().forPath(child, bytes("2"));
            eventually("its new data", () -> text(cache.getCurrentData(child).getData()).equals("2"));
            writer.delete().forPath(child);
            eventually("its end", () -> cache.getCurrentData(child) == null);
            List<String> expected = List.of("CHILD_ADDED child 1", "CHILD_UPDATED child 2", "CHILD_REMOVED child 2");
            eventually("the events, not " + events, () -> List.copyOf(events).equals(expected));
        }
    }

    private static Map<String, String> content(CuratorCache cache) {
        Map<String, String> content = new TreeMap<>();
        cache.stream().forEach(data -> content.put(data.getPath(), text(data.getData())));
        return content;
    }

    /** A cache with a persistent recursive watch. */
    private static void tree(World world) throws Exception {
        List<CuratorFramework> clients = world.clients(2);
        CuratorFramework writer = clients.get(0);
        String root = world.path();
        Collection<String> events = new ConcurrentLinkedQueue<>();
        writer.create().forPath(root, bytes("root"));
        try (CuratorCache cache = CuratorCache.build(clients.get(1), root)) {
            cache.listenable().addListener((type, before, after) ->
                    events.add(type + " " + (after == null ? before : after).getPath()));
            cache.start();
            eventually("the root", () -> cache.get(root).isPresent());
            writer.create().forPath(root + "/a", bytes("1"));
            writer.create().forPath(root + "/a/b", bytes("2"));
            eventually("the created nodes", () -> cache.size() == 3);
            writer.setData().forPath(root + "/a/b", bytes("3"));
            Map<String, String> all = Map.of(root, "root", root + "/a", "1", root + "/a/b", "3");
            eventually("the new data", () -> content(cache).equals(all));
            writer.delete().deletingChildrenIfNeeded().forPath(root + "/a");
            eventually("the deletion of all nodes but the root", () -> content(cache).equals(Map.of(root, "root")));
            List<String> expected = List.of(
                    CuratorCacheListener.Type.NODE_CREATED + " " + root,
                    CuratorCacheListener.Type.NODE_CREATED + " " + root + "/a",
                    CuratorCacheListener.Type.NODE_CREATED + " " + root + "/a/b",
                    CuratorCacheListener.Type.NODE_CHANGED + " " + root + "/a/b",
                    CuratorCacheListener.Type.NODE_DELETED + " " + root + "/a/b",
                    CuratorCacheListener.Type.NODE_DELETED + " " + root + "/a");
            eventually("the events, not " + events, () -> List.copyOf(events).equals(expected));
        }
    }

    /** A cache does not miss changes that happen while its client has no session. */
    private static void afterAnExpiry(World world) throws Exception {
        List<CuratorFramework> clients = world.clients(2);
        CuratorFramework writer = clients.get(0);
        writer.create().creatingParentsIfNeeded().forPath(world.path() + "/gone", bytes("1"));
        try (CuratorCache cache = CuratorCache.build(clients.get(1), world.path())) {
            cache.start();
            eventually("all nodes in the cache", () -> cache.size() == 2);
            world.expire(clients.get(1));
            writer.delete().forPath(world.path() + "/gone");
            writer.create().forPath(world.path() + "/new", bytes("2"));
            eventually("the changes during the expiry", () -> {
                ChildData added = cache.get(world.path() + "/new").orElse(null);
                return added != null && cache.get(world.path() + "/gone").isEmpty();
            });
        }
    }

    /** Every change of a node and its child causes one event, in order. A closed watcher receives none. */
    private static void watcher(World world) throws Exception {
        CuratorFramework client = world.client();
        Collection<String> events = new ConcurrentLinkedQueue<>();
        List<String> expected = List.of("NodeCreated", "NodeDataChanged", "NodeCreated", "NodeDeleted", "NodeDeleted");
        PersistentWatcher watcher = new PersistentWatcher(client, world.path(), true);
        watcher.getListenable().addListener(event -> {
            if (event.getPath() != null) {
                events.add(event.getType().name());
            }
        });
        watcher.start();
        // The server handles requests in order. When this request returns, the watch that was requested earlier is set.
        client.checkExists().forPath(world.path());
        for (int round = 0; round < 2; round++) {
            client.create().forPath(world.path());
            client.setData().forPath(world.path(), bytes("1"));
            client.create().forPath(world.path() + "/child");
            client.delete().deletingChildrenIfNeeded().forPath(world.path());
            eventually("the events, not " + events, () -> List.copyOf(events).equals(expected));
            // Close the watcher. It must not report the second round.
            watcher.close();
            client.checkExists().forPath(world.path());
        }
    }
}
