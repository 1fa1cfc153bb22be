package zklock.recipes;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.retry.ExponentialBackoffRetry;
import org.apache.zookeeper.Watcher;
import org.apache.zookeeper.ZooKeeper;

/** The environment of one check: clients and threads that end with it, its own path, and assertions. */
final class World implements AutoCloseable {
    /** Timeout in milliseconds for an event that must happen. */
    static final long PATIENCE = 10_000;
    /** Time in milliseconds after which an event is assumed not to happen. */
    static final int MOMENT = 150;

    private static final int SESSION = 10_000;

    private final String hosts;
    private final String path;
    private final Collection<CuratorFramework> clients = new ConcurrentLinkedQueue<>();
    private final ExecutorService threads = Executors.newCachedThreadPool();

    World(String hosts, String path) {
        this.hosts = hosts;
        this.path = path;
    }

    /** Returns a path that no other check uses. */
    String path() {
        return path;
    }

    /** Returns a new connected client. */
    CuratorFramework client() throws Exception {
        CuratorFramework client =
                CuratorFrameworkFactory.newClient(hosts, SESSION, SESSION, new ExponentialBackoffRetry(50, 5));
        clients.add(client);
        client.start();
        require(client.blockUntilConnected((int) PATIENCE, TimeUnit.MILLISECONDS), "a client cannot connect");
        return client;
    }

    List<CuratorFramework> clients(int count) throws Exception {
        List<CuratorFramework> made = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            made.add(client());
        }
        return made;
    }

    <T> Future<T> begin(Callable<T> work) {
        return threads.submit(work);
    }

    static <T> T end(Future<T> work) throws Exception {
        return work.get(PATIENCE, TimeUnit.MILLISECONDS);
    }

    /**
     * Expires a client's session: a second connection takes the session over and closes it. The client can reconnect
     * first and take the session back, so this is repeated until the session is gone.
     */
    void expire(CuratorFramework client) throws Exception {
        ZooKeeper session = client.getZookeeperClient().getZooKeeper();
        long id = session.getSessionId();
        byte[] password = session.getSessionPasswd();
        eventually("the end of a session", () -> hasEnded(id, password));
    }

    /** Returns whether a session has ended, and closes it if not. */
    private boolean hasEnded(long session, byte[] password) throws Exception {
        CompletableFuture<Boolean> ended = new CompletableFuture<>();
        Watcher watcher = event -> {
            if (event.getState() == Watcher.Event.KeeperState.SyncConnected) {
                ended.complete(false);
            } else if (event.getState() == Watcher.Event.KeeperState.Expired) {
                ended.complete(true);
            }
        };
        ZooKeeper second = new ZooKeeper(hosts, SESSION, watcher, session, password);
        try {
            return ended.get(PATIENCE, TimeUnit.MILLISECONDS);
        } finally {
            second.close();
        }
    }

    /** A condition that can become true later. */
    interface Condition {
        boolean holds() throws Exception;
    }

    static void eventually(String what, Condition condition) throws Exception {
        eventually(() -> what, condition);
    }

    /** Waits for a condition. The failure message is computed at the end. */
    static void eventually(Supplier<String> what, Condition condition) throws Exception {
        long deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(PATIENCE);
        while (!condition.holds()) {
            if (System.nanoTime() >= deadline) {
                throw new IllegalStateException("has not happened: " + what.get());
            }
            Thread.sleep(5);
        }
    }

    static void require(boolean holds, String otherwise) {
        if (!holds) {
            throw new IllegalStateException(otherwise);
        }
    }

    static void same(Object expected, Object actual, String what) {
        require(Objects.equals(expected, actual), what + ": expected " + expected + ", not " + actual);
    }

    static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    static String text(byte[] bytes) {
        return new String(bytes, StandardCharsets.UTF_8);
    }

    @Override
    public void close() {
        threads.shutdownNow();
        clients.forEach(CuratorFramework::close);
    }
}
