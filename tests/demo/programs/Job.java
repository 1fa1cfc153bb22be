import java.util.concurrent.ThreadLocalRandom;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.RetryForever;

/** A job that only one process at a time runs, in Java with Apache Curator: {@code java Job.java PATH ROUNDS}. */
public final class Job {
    /** Prints the time and an event. */
    private static void say(String what) {
        System.out.println(System.nanoTime() + " " + what);
    }

    public static void main(String[] arguments) throws Exception {
        String path = arguments[0];
        CuratorFramework client =
                CuratorFrameworkFactory.newClient(System.getenv("ZKLOCK_HOSTS"), 2000, 10_000, new RetryForever(100));
        client.start();
        client.blockUntilConnected();
        InterProcessMutex lock = new InterProcessMutex(client, path);
        for (int round = 0; round < Integer.parseInt(arguments[1]); round++) {
            say("waits");
            lock.acquire();
            try {
                // Curator does not report the name of its node. The holder's node has the smallest number.
                String node = client.getChildren().forPath(path).stream()
                        .min((one, other) -> number(one).compareTo(number(other))).orElseThrow();
                long token = client.checkExists().forPath(path + "/" + node).getCzxid();
                say("holds " + path + "/" + node + " " + token);
                Thread.sleep(ThreadLocalRandom.current().nextInt(250, 500)); // the work
                say("releases");
            } finally {
                lock.release();
            }
        }
        client.close();
    }

    private static String number(String node) {
        return node.substring(node.length() - 10);
    }
}
