package zklock;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonNull;
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
import java.util.Collection;
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
import org.apache.curator.framework.api.ACLProvider;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.Participant;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.framework.recipes.locks.Revoker;
import org.apache.curator.framework.recipes.shared.SharedCount;
import org.apache.curator.retry.ExponentialBackoffRetry;
import org.apache.curator.retry.RetryForever;
import org.apache.zookeeper.ZooDefs;
import org.apache.zookeeper.data.ACL;
import org.apache.zookeeper.data.Stat;

/** The worker on Apache Curator's own recipes. Owners are threads, as in Curator. */
public final class CuratorWorker {
    private static final String CONTROL = "control";

    /** The result of an acquire: a level of a mutex, or a permit. */
    private interface Held {
        CuratorFramework client();

        String node();

        void release() throws Exception;
    }

    /** Something that can be acquired. */
    private interface Lock {
        /** Waits at most this long, or forever if {@code timeout} is null. Returns null if the wait timed out. */
        List<Held> acquire(Double timeout, int count) throws Exception;

        boolean owned();

        /** Releases this thread's newest level. */
        void release() throws Exception;
    }

    /** A mutex or a half of a read/write lock. All its levels are the same object. */
    private static final class Mutual implements Lock, Held {
        private final CuratorFramework client;
        private final InterProcessMutex mutex;
        private final Supplier<String> node;

        Mutual(CuratorFramework client, InterProcessMutex mutex, Supplier<String> node) {
            this.client = client;
            this.mutex = mutex;
            this.node = node;
        }

        @Override
        public List<Held> acquire(Double timeout, int count) throws Exception {
            if (timeout == null) {
                mutex.acquire();
            } else if (!mutex.acquire(millis(timeout), TimeUnit.MILLISECONDS)) {
                return null;
            }
            return List.of(this);
        }

        @Override
        public boolean owned() {
            return mutex.isOwnedByCurrentThread();
        }

        @Override
        public CuratorFramework client() {
            return client;
        }

        @Override
        public String node() {
            return node.get();
        }

        @Override
        public void release() throws Exception {
            mutex.release();
        }
    }

    /** A semaphore. Its permits have no owner. */
    private static final class Counting implements Lock {
        private final CuratorFramework client;
        private final String path;
        private final InterProcessSemaphoreV2 semaphore;

        Counting(CuratorFramework client, String path, InterProcessSemaphoreV2 semaphore) {
            this.client = client;
            this.path = path;
            this.semaphore = semaphore;
        }

        @Override
        public List<Held> acquire(Double timeout, int count) throws Exception {
            Collection<Lease> leases = timeout == null
                    ? semaphore.acquire(count)
                    : semaphore.acquire(count, millis(timeout), TimeUnit.MILLISECONDS);
            if (leases == null) {
                return null;
            }
            List<Held> held = new ArrayList<>();
            leases.forEach(lease -> held.add(permit(lease)));
            return held;
        }

        private Held permit(Lease lease) {
            return new Held() {
                @Override
                public CuratorFramework client() {
                    return client;
                }

                @Override
                public String node() {
                    return path + "/leases/" + lease.getNodeName();
                }

                @Override
                public void release() throws Exception {
                    lease.close();
                }
            };
        }

        @Override
        public boolean owned() {
            throw new UnsupportedOperationException("permits have no owner");
        }

        @Override
        public void release() {
            throw new UnsupportedOperationException("permits have no owner");
        }
    }

    /** A candidate of an election. A latch cannot be restarted, so every campaign has its own. */
    private static final class Electing implements Lock {
        private final CuratorFramework client;
        private final String path;
        private final String id;

        Electing(CuratorFramework client, String path, String id) {
            this.client = client;
            this.path = path;
            this.id = id;
        }

        @Override
        public List<Held> acquire(Double timeout, int count) throws Exception {
            LeaderLatch latch = new LeaderLatch(client, path, id);
            latch.start();
            boolean leads = false;
            try {
                if (timeout == null) {
                    latch.await();
                    leads = true;
                } else {
                    leads = latch.await(millis(timeout), TimeUnit.MILLISECONDS);
                }
            } finally {
                if (!leads) {
                    latch.close();
                }
            }
            return leads ? List.of(leading(latch)) : null;
        }

        private Held leading(LeaderLatch latch) {
            return new Held() {
                @Override
                public CuratorFramework client() {
                    return client;
                }

                @Override
                public String node() {
                    return latch.getOurPath();
                }

                @Override
                public void release() throws Exception {
                    latch.close();
                }
            };
        }

        Collection<Participant> participants() throws Exception {
            return new LeaderLatch(client, path).getParticipants();
        }

        Participant leader() throws Exception {
            return new LeaderLatch(client, path).getLeader();
        }

        @Override
        public boolean owned() {
            throw new UnsupportedOperationException("a latch has no owner");
        }

        @Override
        public void release() {
            throw new UnsupportedOperationException("a latch has no owner");
        }
    }

    /** A mutex that exposes the name of its node, which Curator shows only to subclasses. */
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
    /** Leases by name. A name stands for one lease, or for all leases of one acquire. */
    private final Map<String, List<Held>> leases = new ConcurrentHashMap<>();
    private final Map<String, InterProcessReadWriteLock> readWrites = new ConcurrentHashMap<>();
    private final Map<String, ExecutorService> owners = new ConcurrentHashMap<>();
    private final Map<JsonPrimitive, Future<?>> pending = new ConcurrentHashMap<>();
    /** Locks without a name, which are held until the process ends. Only used by the thread that holds them. */
    private final List<InterProcessMutex> unnamed = new ArrayList<>();

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
                unlock(command, locks.get(text(command, "lock")));
                break;
            case "owned":
                value(command, new JsonPrimitive(locks.get(text(command, "lock")).owned()));
                break;
            case "contend":
                contend(command);
                break;
            case "hold":
                hold(command);
                break;
            case "cycles":
                cycles(command);
                break;
            case "revoke":
                Revoker.attemptRevoke(clients.get(text(command, "client")), text(command, "node"));
                answer(command, event("done", now()));
                break;
            case "leader":
                leader(command);
                break;
            case "candidates":
                candidates(command);
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
        // By default, retry forever with short pauses, because most tests are not about Curator's backoff. Tests of
        // the backoff set the number of retries. They use the pause of Curator's own examples.
        RetryPolicy retries = command.has("retries")
                ? new ExponentialBackoffRetry(1000, command.get("retries").getAsInt())
                : new RetryForever(50);
        CuratorFrameworkFactory.Builder builder = CuratorFrameworkFactory.builder()
                .connectString(text(command, "hosts"))
                .sessionTimeoutMs((int) (session * 1000))
                .connectionTimeoutMs((int) (connect * 1000))
                .retryPolicy(retries);
        if (command.has("auth")) {
            JsonArray first = command.getAsJsonArray("auth").get(0).getAsJsonArray();
            builder.authorization(first.get(0).getAsString(), first.get(1).getAsString().getBytes(StandardCharsets.UTF_8));
        }
        if (command.has("acl")) {
            builder.aclProvider(new CreatorAll());
        }
        CuratorFramework client = builder.build();
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

    /** Creates an independent lock object. */
    private Lock make(JsonObject command) throws Exception {
        CuratorFramework client = clients.get(text(command, "client"));
        String path = text(command, "path");
        String kind = kind(command);
        if (kind.equals("mutex")) {
            Mutex mutex = new Mutex(client, path);
            // A revocable lock sends an additional request to set a watch, so a test must ask for it.
            if (command.has("revocable")) {
                mutex.makeRevocable(asked -> tellRevoked(command));
            }
            return new Mutual(client, mutex, mutex::node);
        }
        if (kind.equals("semaphore")) {
            return new Counting(client, path, semaphore(command, client, path));
        }
        if (kind.equals("election")) {
            return new Electing(client, path, command.has("candidate") ? text(command, "candidate") : "");
        }
        return half(client, new InterProcessReadWriteLock(client, path), kind);
    }

    private void leader(JsonObject command) throws Exception {
        Participant leader = ((Electing) locks.get(text(command, "lock"))).leader();
        // If there is no leader, Curator returns a dummy participant that does not lead.
        value(command, leader.isLeader() ? participant(leader, 0) : JsonNull.INSTANCE);
    }

    private void candidates(JsonObject command) throws Exception {
        JsonArray all = new JsonArray();
        for (Participant participant : ((Electing) locks.get(text(command, "lock"))).participants()) {
            all.add(participant(participant, all.size()));
        }
        value(command, all);
    }

    private static JsonObject participant(Participant participant, int position) {
        JsonObject line = new JsonObject();
        line.addProperty("position", position);
        line.addProperty("id", participant.getId());
        return line;
    }

    /** The only access control list that the tests use with Curator. */
    private static final class CreatorAll implements ACLProvider {
        @Override
        public List<ACL> getDefaultAcl() {
            return ZooDefs.Ids.CREATOR_ALL_ACL;
        }

        @Override
        public List<ACL> getAclForPath(String path) {
            return ZooDefs.Ids.CREATOR_ALL_ACL;
        }
    }

    private void tellRevoked(JsonObject command) {
        JsonObject revoked = event("revoked", now());
        revoked.addProperty("lock", text(command, "lock"));
        emit(revoked);
    }

    private static InterProcessSemaphoreV2 semaphore(JsonObject command, CuratorFramework client, String path)
            throws Exception {
        if (command.has("permits")) {
            return new InterProcessSemaphoreV2(client, path, command.get("permits").getAsInt());
        }
        SharedCount count = new SharedCount(client, text(command, "shared_count"), 1);
        count.start();
        return new InterProcessSemaphoreV2(client, path, count);
    }

    /** Creates a lock object. Halves on the same client and path belong to one read/write lock. */
    private Lock shared(JsonObject command) throws Exception {
        if (command.has("reentrant") && !command.get("reentrant").getAsBoolean()) {
            throw new UnsupportedOperationException("Curator's InterProcessSemaphoreMutex has another layout");
        }
        String kind = kind(command);
        if (kind.equals("mutex") || kind.equals("semaphore") || kind.equals("election")) {
            return make(command);
        }
        String path = text(command, "path");
        CuratorFramework client = clients.get(text(command, "client"));
        String name = text(command, "client") + path;
        return half(client, readWrites.computeIfAbsent(name, unused -> new InterProcessReadWriteLock(client, path)), kind);
    }

    private static Lock half(CuratorFramework client, InterProcessReadWriteLock lock, String kind) {
        return kind.equals("read")
                ? new Mutual(client, lock.readLock(), lock.readLock()::getLockPath)
                : new Mutual(client, lock.writeLock(), lock.writeLock()::getLockPath);
    }

    private static String kind(JsonObject command) {
        return command.has("kind") ? text(command, "kind") : "mutex";
    }

    private void acquire(JsonObject command, Double timeout, String otherwise) throws Exception {
        Lock lock = locks.get(text(command, "lock"));
        List<Held> held = lock.acquire(timeout, command.has("count") ? command.get("count").getAsInt() : 1);
        long granted = now();
        pending.remove(command.getAsJsonPrimitive("id"));
        if (held == null) {
            answer(command, event(otherwise, granted));
            return;
        }
        String name = text(command, "lease");
        leases.put(name, held);
        JsonObject acquired = event("acquired", granted);
        describe(acquired, held.get(0));
        if (command.has("count")) {
            JsonArray all = new JsonArray();
            for (Held one : held) {
                JsonObject line = new JsonObject();
                line.addProperty("lease", name + "/" + all.size());
                describe(line, one);
                leases.put(name + "/" + all.size(), List.of(one));
                all.add(line);
            }
            acquired.add("leases", all);
        }
        answer(command, acquired);
    }

    private static long millis(double seconds) {
        return (long) (seconds * 1000);
    }

    private static void describe(JsonObject line, Held held) throws Exception {
        String path = held.node();
        line.addProperty("node", path.substring(path.lastIndexOf('/') + 1));
        Stat stat = held.client().checkExists().forPath(path);
        if (stat != null) {
            line.addProperty("token", Long.toString(stat.getCzxid()));
            line.addProperty("session", Long.toString(stat.getEphemeralOwner()));
        }
    }

    private void release(JsonObject command, List<Held> held) throws Exception {
        long started = now();
        for (Held one : held) {
            one.release();
        }
        JsonObject released = event("released", now());
        released.addProperty("t0", started);
        answer(command, released);
    }

    private void unlock(JsonObject command, Lock lock) throws Exception {
        long started = now();
        lock.release();
        JsonObject released = event("released", now());
        released.addProperty("t0", started);
        answer(command, released);
    }

    private void hold(JsonObject command) throws Exception {
        int first = command.get("first").getAsInt();
        for (int number = first; number < first + command.get("count").getAsInt(); number++) {
            InterProcessMutex mutex =
                    new InterProcessMutex(clients.get(text(command, "client")), text(command, "path") + "/" + number);
            mutex.acquire();
            unnamed.add(mutex);
        }
        answer(command, event("done", now()));
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
        Held taken = lock.acquire(null, 1).get(0);
        JsonObject held = event("held", now());
        String id = command.get("id").getAsString();
        held.addProperty("lease", id + "-" + number + "-" + turn);
        held.addProperty("owner", id + "-" + number);
        held.addProperty("t_wait", asked);
        describe(held, taken);
        double work = low == high ? low : ThreadLocalRandom.current().nextDouble(low, high);
        TimeUnit.NANOSECONDS.sleep((long) (work * 1e6));
        held.addProperty("t_end", now());
        taken.release();
        answer(command, held);
    }

    private void cycles(JsonObject command) throws Exception {
        Lock lock = locks.get(text(command, "lock"));
        int count = command.get("count").getAsInt();
        long started = now();
        for (int index = 0; index < count; index++) {
            lock.acquire(null, 1).get(0).release();
        }
        JsonObject done = event("done", now());
        done.addProperty("elapsed_ns", now() - started);
        done.addProperty("count", count);
        answer(command, done);
    }

    private void threads(JsonObject command) throws IOException {
        JsonArray names = new JsonArray();
        try (DirectoryStream<Path> tasks = Files.newDirectoryStream(Path.of("/proc/self/task"))) {
            for (Path task : tasks) {
                names.add(Files.readString(task.resolve("comm")).strip());
            }
        }
        value(command, names);
    }

    private void value(JsonObject command, JsonElement value) {
        JsonObject line = event("value", now());
        line.add("value", value);
        answer(command, line);
    }

    private static String text(JsonObject command, String field) {
        return command.get(field).getAsString();
    }

    /** Returns CLOCK_MONOTONIC, which nanoTime reads on Linux. */
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
