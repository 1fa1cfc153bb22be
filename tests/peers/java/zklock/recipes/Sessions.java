package zklock.recipes;

import static zklock.recipes.World.PATIENCE;
import static zklock.recipes.World.bytes;
import static zklock.recipes.World.end;
import static zklock.recipes.World.eventually;
import static zklock.recipes.World.require;
import static zklock.recipes.World.same;
import static zklock.recipes.World.text;

import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.ZooDefs;

/** Checks of what ends with a session, and of a client's rights. */
final class Sessions {
    private Sessions() {}

    static void add(Map<String, Main.Check> checks) {
        checks.put("expiry", Sessions::expiry);
        checks.put("access", Sessions::access);
        checks.put("containers", Sessions::containers);
        checks.put("configuration", Sessions::configuration);
    }

    /** When a session expires, the next waiter acquires its lock. Its owner is notified, and can start again. */
    private static void expiry(World world) throws Exception {
        List<CuratorFramework> clients = world.clients(2);
        CuratorFramework expired = clients.get(0);
        Collection<ConnectionState> states = new ConcurrentLinkedQueue<>();
        expired.getConnectionStateListenable().addListener((client, state) -> states.add(state));
        long session = expired.getZookeeperClient().getZooKeeper().getSessionId();
        String node = world.path() + "/ephemeral";
        expired.create().creatingParentsIfNeeded().withMode(CreateMode.EPHEMERAL).forPath(node);
        InterProcessMutex held = new InterProcessMutex(expired, world.path() + "/lock");
        held.acquire();
        InterProcessMutex wanted = new InterProcessMutex(clients.get(1), world.path() + "/lock");
        Future<Boolean> waiting = world.begin(() -> wanted.acquire(PATIENCE, TimeUnit.MILLISECONDS));
        eventually("a contender that waits", () -> wanted.getParticipantNodes().size() == 2);
        world.expire(expired);
        require(end(waiting), "the lock of a session that has ended is held");
        same(null, clients.get(1).checkExists().forPath(node), "its node");
        eventually(() -> "its loss, and a new connection, not " + states, () -> hasStartedAnew(sinceItWasCutOff(states)));
        require(
                expired.getZookeeperClient().getZooKeeper().getSessionId() != session,
                "it has the session that has ended");
        expired.create().withMode(CreateMode.EPHEMERAL).forPath(node);
    }

    /** Returns whether the client lost its session and reconnected. A slow Curator can report a loss twice. */
    private static boolean hasStartedAnew(List<ConnectionState> states) {
        List<ConnectionState> expected =
                List.of(ConnectionState.SUSPENDED, ConnectionState.LOST, ConnectionState.RECONNECTED);
        return states.size() >= expected.size()
                && states.subList(0, expected.size()).equals(expected)
                && states.get(states.size() - 1) == ConnectionState.RECONNECTED;
    }

    /**
     * Removes leading pairs of SUSPENDED and RECONNECTED. The client can reconnect before the second connection has
     * closed its session.
     */
    private static List<ConnectionState> sinceItWasCutOff(Collection<ConnectionState> states) {
        List<ConnectionState> back = List.of(ConnectionState.SUSPENDED, ConnectionState.RECONNECTED);
        List<ConnectionState> left = List.copyOf(states);
        while (left.size() >= 2 && left.subList(0, 2).equals(back)) {
            left = left.subList(2, left.size());
        }
        return left;
    }

    /** A node that is protected by a digest ACL is inaccessible to other clients. */
    private static void access(World world) throws Exception {
        List<CuratorFramework> clients = world.clients(2);
        CuratorFramework owner = clients.get(0);
        owner.getZookeeperClient().getZooKeeper().addAuthInfo("digest", bytes("owner:secret"));
        owner.create().withACL(ZooDefs.Ids.CREATOR_ALL_ACL).forPath(world.path(), bytes("1"));
        try {
            clients.get(1).getData().forPath(world.path());
            throw new IllegalStateException("others can read it");
        } catch (KeeperException.NoAuthException refused) {
            same("1", text(owner.getData().forPath(world.path())), "its data for its owner");
        }
        clients.get(1).getZookeeperClient().getZooKeeper().addAuthInfo("digest", bytes("owner:secret"));
        clients.get(1).setData().forPath(world.path(), bytes("2"));
        same("2", text(owner.getData().forPath(world.path())), "its data after a write with the secret");
    }

    /** A parent that Curator created is deleted after its last child. */
    private static void containers(World world) throws Exception {
        CuratorFramework client = world.client();
        client.create().creatingParentContainersIfNeeded().forPath(world.path() + "/child");
        client.delete().forPath(world.path() + "/child");
        eventually("the end of the container", () -> client.checkExists().forPath(world.path()) == null);
    }

    /** The configuration node is readable: Curator reads it at every start, to learn of changes of an ensemble. */
    private static void configuration(World world) throws Exception {
        CuratorFramework client = world.client();
        byte[] configuration = client.getConfig().forEnsemble();
        byte[] node = client.usingNamespace(null).getData().forPath(ZooDefs.CONFIG_NODE);
        same(text(node), text(configuration), "the configuration");
    }
}
