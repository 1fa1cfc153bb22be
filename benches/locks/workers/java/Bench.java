package zklock.bench;

import com.google.gson.Gson;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.LongAdder;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.retry.ExponentialBackoffRetry;

/** The worker that uses Apache Curator's recipes. Owners are threads, as in Curator. */
public final class Bench {
    /** Number of operations without a request between two checks of the gate. */
    private static final int BATCH = 100;

    /** Stack size of a thread in bytes, because there can be thousands of threads. */
    private static final long STACK = 256 * 1024;

    private interface Step {
        void run() throws Exception;
    }

    /** Something that can be acquired and released repeatedly. */
    private record Lock(Step acquire, Step release) {}

    /** A gate that stops contenders while nothing is counted. Each keeps its lock, so nothing else happens. */
    private static volatile CountDownLatch gate = new CountDownLatch(1);
    private static final LongAdder DONE = new LongAdder();

    private final Task task;
    private final Latencies latencies;
    private final List<CuratorFramework> clients = new ArrayList<>();

    private Bench(Task task) {
        this.task = task;
        boolean exclusive = task.kind().equals("mutex") && !task.each();
        latencies = new Latencies(task.latencies(), exclusive, task.period(), task.clients() * task.contenders());
    }

    public static void main(String[] arguments) throws Exception {
        new Bench(new Gson().fromJson(arguments[0], Task.class)).run();
    }

    private void run() throws Exception {
        for (int number = 0; number <= task.clients(); number++) {
            CuratorFramework client =
                    CuratorFrameworkFactory.newClient(
                            task.clientHosts(number), 10_000, 10_000, new ExponentialBackoffRetry(100, 3));
            client.start();
            client.blockUntilConnected();
            clients.add(client);
        }
        hold();
        for (int number = 0; number < task.clients() * task.contenders(); number++) {
            int contender = number;
            start(() -> contend(contender));
        }
        serve();
        clients.forEach(CuratorFramework::close);
        Runtime.getRuntime().halt(0);
    }

    private static void start(Runnable body) {
        Thread thread = new Thread(null, body, "contender", STACK);
        thread.setDaemon(true);
        thread.start();
    }

    /** The last client holds the locks that the others find taken. */
    private void hold() throws InterruptedException {
        CountDownLatch holding = new CountDownLatch(task.held());
        CuratorFramework client = clients.get(task.clients());
        for (int number = 0; number < task.held(); number++) {
            start(() -> {
                try {
                    locks(client, 0)[1].acquire.run();
                    holding.countDown();
                    new CountDownLatch(1).await();
                } catch (Exception problem) {
                    throw new IllegalStateException(problem);
                }
            });
        }
        holding.await();
    }

    /** Returns a contender's locks for writing and reading. */
    private Lock[] locks(CuratorFramework client, int contender) {
        String path = task.lockPath(contender);
        if (task.kind().equals("readwrite")) {
            InterProcessReadWriteLock both = new InterProcessReadWriteLock(client, path);
            return new Lock[] {mutual(both.writeLock()), mutual(both.readLock())};
        }
        Lock lock = task.kind().equals("mutex")
                ? mutual(new InterProcessMutex(client, path))
                : counting(new InterProcessSemaphoreV2(client, path, task.permits()));
        return new Lock[] {lock, lock};
    }

    private static Lock mutual(InterProcessMutex mutex) {
        return new Lock(mutex::acquire, mutex::release);
    }

    private static Lock counting(InterProcessSemaphoreV2 semaphore) {
        Lease[] held = new Lease[1];
        return new Lock(() -> held[0] = semaphore.acquire(), () -> semaphore.returnLease(held[0]));
    }

    private void contend(int contender) {
        CuratorFramework client = clients.get(contender / task.contenders());
        try {
            switch (task.op()) {
                case "pair" -> pairs(locks(client, contender), contender);
                case "reenter" -> reenter(locks(client, contender)[0]);
                default -> tries(new InterProcessMutex(client, task.lockPath(contender)));
            }
        } catch (Exception end) {
            // The exception comes from closing the client.
        }
    }

    private void pairs(Lock[] both, int contender) throws Exception {
        Latencies.Stopwatch watch = latencies.new Stopwatch();
        for (int turn = 0; true; turn++) {
            Lock lock = both[task.writes(contender, turn) ? 0 : 1];
            watch.start();
            lock.acquire.run();
            watch.acquired();
            latencies.pass(gate);
            watch.releasing();
            lock.release.run();
            watch.released();
            DONE.increment();
        }
    }

    private static void reenter(Lock lock) throws Exception {
        lock.acquire.run();
        while (true) {
            gate.await();
            for (int number = 0; number < BATCH; number++) {
                lock.acquire.run();
                lock.release.run();
            }
            DONE.add(BATCH);
        }
    }

    private static void tries(InterProcessMutex mutex) throws Exception {
        while (true) {
            gate.await();
            if (mutex.acquire(0, TimeUnit.MILLISECONDS)) {
                throw new IllegalStateException("the lock is taken");
            }
            DONE.increment();
        }
    }

    /** Reports that the worker is ready, and follows the driver's commands until `stop`. */
    private void serve() throws Exception {
        String version = CuratorFramework.class.getPackage().getImplementationVersion();
        System.out.println("{\"ready\": \"Curator " + version + "\"}");
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null && line.startsWith("count "); line = lines.readLine()) {
            double seconds = Double.parseDouble(line.substring(6));
            long before = DONE.sum();
            long began = System.nanoTime();
            latencies.begin();
            gate.countDown();
            Thread.sleep((long) (seconds * 1000));
            gate = new CountDownLatch(1);
            long count = DONE.sum() - before;
            double took = (System.nanoTime() - began) / 1e9;
            String told = latencies.on ? ", \"latencies\": " + latencies.take() : "";
            System.out.println("{\"count\": " + count + ", \"seconds\": " + took + told + "}");
        }
    }
}
