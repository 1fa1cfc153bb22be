package zklock;

import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import com.google.gson.JsonPrimitive;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import org.apache.curator.RetryPolicy;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.retry.RetryForever;
import org.apache.zookeeper.data.Stat;

/** The worker on Apache Curator's own recipe. Owners are threads, as Curator has it. */
public final class CuratorWorker {
    private static final String CONTROL = "control";

    /** A mutex or a half of a read/write lock. */
    private static final class Lock {
        final CuratorFramework client;
        final InterProcessMutex mutex;
        final Supplier<String> node;

        Lock(CuratorFramework client, InterProcessMutex mutex, Supplier<String> node) {
            this.client = client;
            this.mutex = mutex;
            this.node = node;
        }
    }

    /** Curator tells the name of a mutex's node only to subclasses. */
    private static final class Mutex extends InterProcessMutex {
        Mutex(CuratorFramework client, String directory) {
            super(client, directory);
        }

        String node() {
            return getLockPath();
        }
    }

    private final PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
    private final Map<String, CuratorFramework> clients = new ConcurrentHashMap<>();
    private final Map<String, Lock> locks = new ConcurrentHashMap<>();
    private final Map<String, Lock> leases = new ConcurrentHashMap<>();
    private final Map<String, InterProcessReadWriteLock> readWrites = new ConcurrentHashMap<>();
    private final Map<String, ExecutorService> owners = new ConcurrentHashMap<>();
    private final Map<JsonPrimitive, Future<?>> pending = new ConcurrentHashMap<>();

    public static void main(String[] args) throws IOException {
        new CuratorWorker().run();
    }

    private void run() throws IOException {
        JsonObject ready = event("ready", now());
        ready.addProperty("surface", "curator");
        ready.addProperty("pid", ProcessHandle.current().pid());
        emit(ready);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonObject command = JsonParser.parseString(line).getAsJsonObject();
            String name = command.get("cmd").getAsString();
            if (name.equals("exit")) {
                closeAll();
                answer(command, event("bye", now()));
                System.exit(0);
            } else if (name.equals("cancel")) {
                Future<?> task = pending.remove(command.getAsJsonPrimitive("target"));
                if (task != null) {
                    task.cancel(true);
                }
                answer(command, event("cancelled", now()));
            } else {
                String owner = name.equals("contend") ? "contend-" + command.get("id")
                        : command.has("owner") ? command.get("owner").getAsString() : CONTROL;
                Future<?> task = owners.computeIfAbsent(owner, CuratorWorker::thread).submit(() -> perform(command));
                if (name.equals("acquire")) {
                    pending.put(command.getAsJsonPrimitive("id"), task);
                }
            }
        }
        closeAll();
        System.exit(0);
    }

    private static ExecutorService thread(String owner) {
        return Executors.newSingleThreadExecutor(body -> {
            Thread thread = new Thread(body, owner);
            thread.setDaemon(true);
            return thread;
        });
    }

    private void closeAll() {
        clients.values().forEach(CuratorFramework::close);
    }

    private void perform(JsonObject command) {
        try {
            dispatch(command);
        } catch (InterruptedException error) {
            answer(command, event("cancelled", now()));
        } catch (Exception error) {
            JsonObject failure = event("error", now());
            failure.addProperty("type", error.getClass().getSimpleName());
            failure.addProperty("message", String.valueOf(error.getMessage()));
            if (error instanceof IllegalMonitorStateException) {
                failure.addProperty("code", "NOT_HELD");
            }
            answer(command, failure);
        }
    }

    private void dispatch(JsonObject command) throws Exception {
        switch (command.get("cmd").getAsString()) {
            case "connect":
                connect(command);
                break;
            case "lock":
                locks.put(text(command, "lock"), shared(command));
                answer(command, event("ready", now()));
                break;
            case "acquire":
                acquire(command, command.has("timeout") ? command.get("timeout").getAsDouble() : null, "timeout");
                break;
            case "try":
                acquire(command, 0.0, "busy");
                break;
            case "release":
                release(command, leases.get(text(command, "lease")));
                break;
            case "unlock":
                release(command, locks.get(text(command, "lock")));
                break;
            case "owned":
                value(command, new JsonPrimitive(locks.get(text(command, "lock")).mutex.isOwnedByCurrentThread()));
                break;
            case "contend":
                contend(command);
                break;
            case "cycles":
                cycles(command);
                break;
            case "threads":
                threads(command);
                break;
            case "close":
                clients.remove(text(command, "client")).close();
                answer(command, event("closed", now()));
                break;
            default:
                answer(command, event("unsupported", now()));
        }
    }

    private void connect(JsonObject command) throws Exception {
        double session = command.has("session_timeout") ? command.get("session_timeout").getAsDouble() : 10;
        double connect = command.has("connect_timeout") ? command.get("connect_timeout").getAsDouble() : 10;
        // Short retries: what is tested is the queue, not how long Curator backs off.
        RetryPolicy retries = new RetryForever(50);
        CuratorFramework client = CuratorFrameworkFactory.newClient(
                text(command, "hosts"), (int) (session * 1000), (int) (connect * 1000), retries);
        client.start();
        if (!client.blockUntilConnected((int) (connect * 1000), TimeUnit.MILLISECONDS)) {
            client.close();
            throw new IOException("not connected in time");
        }
        clients.put(text(command, "client"), client);
        JsonObject connected = event("connected", now());
        connected.addProperty("session", Long.toString(client.getZookeeperClient().getZooKeeper().getSessionId()));
        answer(command, connected);
    }

    /** A lock object of its own. */
    private Lock make(JsonObject command) {
        CuratorFramework client = clients.get(text(command, "client"));
        String path = text(command, "path");
        String kind = kind(command);
        if (kind.equals("mutex")) {
            Mutex mutex = new Mutex(client, path);
            return new Lock(client, mutex, mutex::node);
        }
        return half(client, new InterProcessReadWriteLock(client, path), kind);
    }

    /** The same, but halves made on one client and path belong to one read/write lock. */
    private Lock shared(JsonObject command) {
        if (command.has("reentrant") && !command.get("reentrant").getAsBoolean()) {
            throw new UnsupportedOperationException("Curator's InterProcessSemaphoreMutex has another layout");
        }
        String kind = kind(command);
        if (kind.equals("mutex")) {
            return make(command);
        }
        String path = text(command, "path");
        CuratorFramework client = clients.get(text(command, "client"));
        String name = text(command, "client") + path;
        return half(client, readWrites.computeIfAbsent(name, unused -> new InterProcessReadWriteLock(client, path)), kind);
    }

    private static Lock half(CuratorFramework client, InterProcessReadWriteLock lock, String kind) {
        return kind.equals("read")
                ? new Lock(client, lock.readLock(), lock.readLock()::getLockPath)
                : new Lock(client, lock.writeLock(), lock.writeLock()::getLockPath);
    }

    private static String kind(JsonObject command) {
        return command.has("kind") ? text(command, "kind") : "mutex";
    }

    private void acquire(JsonObject command, Double timeout, String otherwise) throws Exception {
        Lock lock = locks.get(text(command, "lock"));
        boolean held = true;
        if (timeout == null) {
            lock.mutex.acquire();
        } else {
            held = lock.mutex.acquire((long) (timeout * 1000), TimeUnit.MILLISECONDS);
        }
        long granted = now();
        pending.remove(command.getAsJsonPrimitive("id"));
        if (!held) {
            answer(command, event(otherwise, granted));
            return;
        }
        leases.put(text(command, "lease"), lock);
        JsonObject acquired = event("acquired", granted);
        describe(acquired, lock);
        answer(command, acquired);
    }

    private static void describe(JsonObject line, Lock lock) throws Exception {
        String path = lock.node.get();
        line.addProperty("node", path.substring(path.lastIndexOf('/') + 1));
        Stat stat = lock.client.checkExists().forPath(path);
        if (stat != null) {
            line.addProperty("token", Long.toString(stat.getCzxid()));
            line.addProperty("session", Long.toString(stat.getEphemeralOwner()));
        }
    }

    private void release(JsonObject command, Lock lock) throws Exception {
        long started = now();
        lock.mutex.release();
        JsonObject released = event("released", now());
        released.addProperty("t0", started);
        answer(command, released);
    }

    private void contend(JsonObject command) throws Exception {
        Lock shared = text(command, "objects").equals("shared") ? make(command) : null;
        int count = command.get("owners").getAsInt();
        int rounds = command.get("rounds").getAsInt();
        double low = command.getAsJsonArray("hold_ms").get(0).getAsDouble();
        double high = command.getAsJsonArray("hold_ms").get(1).getAsDouble();
        ExecutorService pool = Executors.newFixedThreadPool(count);
        List<Future<?>> all = new ArrayList<>();
        for (int index = 0; index < count; index++) {
            int number = index;
            Lock lock = shared != null ? shared : make(command);
            all.add(pool.submit(() -> {
                for (int turn = 0; turn < rounds; turn++) {
                    hold(command, lock, number, turn, low, high);
                }
                return null;
            }));
        }
        pool.shutdown();
        for (Future<?> one : all) {
            one.get();
        }
        JsonObject done = event("done", now());
        done.addProperty("count", count * rounds);
        answer(command, done);
    }

    private void hold(JsonObject command, Lock lock, int number, int turn, double low, double high)
            throws Exception {
        long asked = now();
        lock.mutex.acquire();
        JsonObject held = event("held", now());
        String id = command.get("id").getAsString();
        held.addProperty("lease", id + "-" + number + "-" + turn);
        held.addProperty("owner", id + "-" + number);
        held.addProperty("t_wait", asked);
        describe(held, lock);
        double work = low == high ? low : ThreadLocalRandom.current().nextDouble(low, high);
        TimeUnit.NANOSECONDS.sleep((long) (work * 1e6));
        held.addProperty("t_end", now());
        lock.mutex.release();
        answer(command, held);
    }

    private void cycles(JsonObject command) throws Exception {
        Lock lock = locks.get(text(command, "lock"));
        int count = command.get("count").getAsInt();
        long started = now();
        for (int index = 0; index < count; index++) {
            lock.mutex.acquire();
            lock.mutex.release();
        }
        JsonObject done = event("done", now());
        done.addProperty("elapsed_ns", now() - started);
        done.addProperty("count", count);
        answer(command, done);
    }

    private void threads(JsonObject command) throws IOException {
        com.google.gson.JsonArray names = new com.google.gson.JsonArray();
        try (DirectoryStream<Path> tasks = Files.newDirectoryStream(Path.of("/proc/self/task"))) {
            for (Path task : tasks) {
                names.add(Files.readString(task.resolve("comm")).strip());
            }
        }
        value(command, names);
    }

    private void value(JsonObject command, com.google.gson.JsonElement value) {
        JsonObject line = event("value", now());
        line.add("value", value);
        answer(command, line);
    }

    private static String text(JsonObject command, String field) {
        return command.get(field).getAsString();
    }

    /** CLOCK_MONOTONIC: that is what nanoTime reads on Linux. */
    private static long now() {
        return System.nanoTime();
    }

    private static JsonObject event(String name, long stamp) {
        JsonObject line = new JsonObject();
        line.addProperty("event", name);
        line.addProperty("t", stamp);
        return line;
    }

    private void answer(JsonObject command, JsonObject line) {
        line.add("id", command.get("id"));
        emit(line);
    }

    private void emit(JsonObject line) {
        synchronized (out) {
            out.println(line);
            out.flush();
        }
    }
}
