package zklock.recipes;

import com.google.gson.JsonObject;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;

/**
 * Runs Curator's recipes on a server, and checks the promises of each recipe. Prints one JSON object a line for each
 * check: its name, and the problem if there is one. Arguments: the hosts, then the names of the checks to run. Without
 * names, all checks run.
 */
public final class Main {
    /** Timeout for all checks, in seconds. */
    private static final long LIMIT = 120;
    /** Number of checks that run at the same time. Most checks mostly wait. */
    private static final int AT_A_TIME = 4;

    interface Check {
        void run(World world) throws Exception;
    }

    private static Map<String, Check> checks() {
        Map<String, Check> checks = new LinkedHashMap<>();
        Locks.add(checks);
        Leaders.add(checks);
        Counts.add(checks);
        Barriers.add(checks);
        Caches.add(checks);
        Nodes.add(checks);
        Sessions.add(checks);
        return checks;
    }

    private Main() {}

    private static String run(String hosts, String name, Check check) {
        try (World world = new World(hosts, "/curator-" + name + "-" + System.nanoTime())) {
            check.run(world);
            return null;
        } catch (Throwable thrown) {
            StringWriter trace = new StringWriter();
            thrown.printStackTrace(new PrintWriter(trace));
            return trace.toString();
        }
    }

    private static synchronized void tell(String name, String problem) {
        JsonObject line = new JsonObject();
        line.addProperty("check", name);
        line.addProperty("problem", problem);
        System.out.println(line);
    }

    public static void main(String[] arguments) throws Exception {
        Map<String, Check> checks = checks();
        for (int i = 1; i < arguments.length; i++) {
            World.require(checks.containsKey(arguments[i]), "no such check: " + arguments[i]);
        }
        if (arguments.length > 1) {
            checks.keySet().retainAll(Arrays.asList(arguments).subList(1, arguments.length));
        }
        ExecutorService pool = Executors.newFixedThreadPool(AT_A_TIME);
        Map<String, Future<?>> running = new LinkedHashMap<>();
        checks.forEach((name, check) ->
                running.put(name, pool.submit(() -> tell(name, run(arguments[0], name, check)))));
        pool.shutdown();
        pool.awaitTermination(LIMIT, TimeUnit.SECONDS);
        for (Map.Entry<String, Future<?>> one : running.entrySet()) {
            if (!one.getValue().isDone()) {
                tell(one.getKey(), "has not ended after " + LIMIT + " s");
            }
        }
        // Curator's threads must not keep the process from exiting.
        System.exit(0);
    }
}
