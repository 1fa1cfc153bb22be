import java.util.concurrent.ThreadLocalRandom;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.RetryForever;

/** A job that only one process at a time runs, in Java with Apache Curator: {@code java Job.java PATH ROUNDS}. */
public final class Job {
    public static void main(String[] arguments) throws Exception {
        CuratorFramework client =
                CuratorFrameworkFactory.newClient(System.getenv("ZKLOCK_HOSTS"), 2000, 10_000, new RetryForever(100));
        client.start();
        client.blockUntilConnected();
        InterProcessMutex lock = new InterProcessMutex(client, arguments[0]);
        for (int round = 0; round < Integer.parseInt(arguments[1]); round++) {
            lock.acquire();
            try {
                Thread.sleep(ThreadLocalRandom.current().nextInt(250, 500)); // the work
            } finally {
                lock.release();
            }
        }
        client.close();
    }
}
