package zklock.recipes;

import static zklock.recipes.World.PATIENCE;
import static zklock.recipes.World.bytes;
import static zklock.recipes.World.eventually;
import static zklock.recipes.World.require;
import static zklock.recipes.World.same;
import static zklock.recipes.World.text;

import java.util.ArrayList;
import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.api.transaction.CuratorTransactionResult;
import org.apache.curator.framework.api.transaction.OperationType;
import org.apache.curator.framework.recipes.nodes.GroupMember;
import org.apache.curator.framework.recipes.nodes.PersistentNode;
import org.apache.curator.framework.recipes.nodes.PersistentTtlNode;
import org.apache.curator.framework.recipes.queue.DistributedQueue;
import org.apache.curator.framework.recipes.queue.QueueBuilder;
import org.apache.curator.framework.recipes.queue.QueueConsumer;
import org.apache.curator.framework.recipes.queue.QueueSerializer;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.data.Stat;

/** Checks of Curator's persistent nodes, its queue, and its transactions. */
final class Nodes {
    private Nodes() {}

    static void add(Map<String, Main.Check> checks) {
        checks.put("PersistentNode", Nodes::persistent);
        checks.put("PersistentTtlNode", Nodes::touched);
        checks.put("GroupMember", Nodes::group);
        checks.put("DistributedQueue", Nodes::queue);
        checks.put("transactions", Nodes::transactions);
    }

    private static String data(CuratorFramework client, String path) throws Exception {
        try {
            return text(client.getData().forPath(path));
        } catch (KeeperException.NoNodeException gone) {
            return null;
        }
    }

    /** The node exists again after it was deleted and after its session expired. It is deleted with its owner. */
    private static void persistent(World world) throws Exception {
        List<CuratorFramework> clients = world.clients(2);
        CuratorFramework other = clients.get(1);
        String path = world.path();
        PersistentNode node =
                new PersistentNode(clients.get(0), CreateMode.EPHEMERAL, false, path, bytes("1"));
        node.start();
        require(node.waitForInitialCreate(PATIENCE, TimeUnit.MILLISECONDS), "the node was not created");
        Stat first = other.checkExists().forPath(path);
        node.setData(bytes("2"));
        eventually("its new data", () -> "2".equals(data(other, path)));
        other.delete().forPath(path);
        eventually("its second life", () -> "2".equals(data(other, path)));
        Stat second = other.checkExists().forPath(path);
        require(second.getCzxid() > first.getCzxid(), "it is the first node still");
        same(first.getEphemeralOwner(), second.getEphemeralOwner(), "its session");
        world.expire(clients.get(0));
        eventually("its third life, in another session", () -> {
            Stat third = other.checkExists().forPath(path);
            return third != null && third.getEphemeralOwner() != first.getEphemeralOwner();
        });
        same("2", data(other, path), "its data in the new session");
        node.close();
        eventually("its end", () -> other.checkExists().forPath(path) == null);
    }

    /** The node outlives its TTL while its owner touches it, and is deleted some time after its owner stops. */
    private static void touched(World world) throws Exception {
        // Time to live in milliseconds. Curator touches the node twice in this time, so the machine must not stall
        // for half of it.
        int ttl = 2_000;
        List<CuratorFramework> clients = world.clients(2);
        CuratorFramework other = clients.get(1);
        PersistentTtlNode node = new PersistentTtlNode(clients.get(0), world.path(), ttl, bytes("1"));
        node.start();
        require(node.waitForInitialCreate(PATIENCE, TimeUnit.MILLISECONDS), "the node was not created");
        long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(3 * ttl);
        while (System.nanoTime() < end) {
            same("1", data(other, world.path()), "its data while it is touched");
            Thread.sleep(20);
        }
        node.close();
        eventually("its end", () -> other.checkExists().forPath(world.path()) == null);
    }

    private static void group(World world) throws Exception {
        List<CuratorFramework> clients = world.clients(2);
        GroupMember first = new GroupMember(clients.get(0), world.path(), "first", bytes("1"));
        GroupMember second = new GroupMember(clients.get(1), world.path(), "second", bytes("2"));
        first.start();
        second.start();
        for (GroupMember member : List.of(first, second)) {
            eventually("both members", () -> member.getCurrentMembers().size() == 2);
            same("2", text(member.getCurrentMembers().get("second")), "a member's data");
        }
        second.close();
        eventually("one member", () -> first.getCurrentMembers().keySet().equals(java.util.Set.of("first")));
        first.close();
    }

    private static final QueueSerializer<String> SERIALIZER = new QueueSerializer<>() {
        @Override
        public byte[] serialize(String item) {
            return bytes(item);
        }

        @Override
        public String deserialize(byte[] stored) {
            return text(stored);
        }
    };

    private static QueueConsumer<String> consumer(Collection<String> items) {
        return new QueueConsumer<>() {
            @Override
            public void consumeMessage(String item) {
                items.add(item);
            }

            @Override
            public void stateChanged(CuratorFramework client, ConnectionState state) {}
        };
    }

    /** A single consumer receives all items in order. Of two consumers with a lock, exactly one receives each item. */
    private static void queue(World world) throws Exception {
        List<String> items = IntStream.range(0, 20).mapToObj(String::valueOf).toList();
        List<CuratorFramework> clients = world.clients(3);
        String path = world.path() + "/queue";
        Collection<String> received = new ConcurrentLinkedQueue<>();
        try (DistributedQueue<String> in = QueueBuilder.builder(clients.get(0), null, SERIALIZER, path)
                        .buildQueue();
                DistributedQueue<String> out = QueueBuilder.builder(
                                clients.get(1), consumer(received), SERIALIZER, path)
                        .buildQueue()) {
            in.start();
            out.start();
            for (String item : items) {
                in.put(item);
            }
            eventually("all items", () -> received.size() == items.size());
            same(items, List.copyOf(received), "the order of the items");
        }
        Collection<String> shared = new ConcurrentLinkedQueue<>();
        List<DistributedQueue<String>> queues = new ArrayList<>();
        for (CuratorFramework client : clients) {
            QueueConsumer<String> consumer = client == clients.get(0) ? null : consumer(shared);
            queues.add(QueueBuilder.builder(client, consumer, SERIALIZER, path + "-shared")
                    .lockPath(path + "-locks")
                    .buildQueue());
        }
        for (DistributedQueue<String> queue : queues) {
            queue.start();
        }
        for (String item : items) {
            queues.get(0).put(item);
        }
        eventually("all items", () -> shared.size() >= items.size());
        same(new HashSet<>(items), new HashSet<>(shared), "the items");
        eventually("an empty queue", () -> clients.get(0).getChildren().forPath(path + "-shared").isEmpty());
        same(items.size(), shared.size(), "how often an item was received");
        for (DistributedQueue<String> queue : queues) {
            queue.close();
        }
    }

    /** A transaction applies all operations or none, and returns a result for each operation. */
    private static void transactions(World world) throws Exception {
        CuratorFramework client = world.client();
        String path = world.path();
        client.create().forPath(path, bytes("0"));
        List<CuratorTransactionResult> results = client.transaction().forOperations(
                client.transactionOp().check().withVersion(0).forPath(path),
                client.transactionOp().create().forPath(path + "/a", bytes("1")),
                client.transactionOp().create().withMode(CreateMode.PERSISTENT_SEQUENTIAL).forPath(path + "/s-"),
                client.transactionOp().setData().forPath(path + "/a", bytes("2")),
                client.transactionOp().delete().forPath(path + "/a"),
                client.transactionOp().create().forPath(path + "/b"));
        same(
                List.of(
                        OperationType.CHECK,
                        OperationType.CREATE,
                        OperationType.CREATE,
                        OperationType.SET_DATA,
                        OperationType.DELETE,
                        OperationType.CREATE),
                results.stream().map(CuratorTransactionResult::getType).toList(),
                "the parts");
        same(path + "/s-0000000001", results.get(2).getResultPath(), "the name of the sequential node");
        same(1, results.get(3).getResultStat().getVersion(), "the version after the write");
        Stat created = client.checkExists().forPath(path + "/b");
        same(created.getCzxid(), client.checkExists().forPath(path).getPzxid(), "one transaction");
        try {
            client.transaction().forOperations(
                    client.transactionOp().create().forPath(path + "/c"),
                    client.transactionOp().delete().forPath(path + "/b"),
                    client.transactionOp().check().withVersion(5).forPath(path));
            throw new IllegalStateException("a check of a wrong version");
        } catch (KeeperException.BadVersionException refused) {
            same(3, refused.getResults().size(), "the results of a transaction that failed");
        }
        same(null, client.checkExists().forPath(path + "/c"), "the node that the failed transaction would have created");
        require(client.checkExists().forPath(path + "/b") != null, "it has deleted something");
    }
}
