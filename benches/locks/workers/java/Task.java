package zklock.bench;

/** A worker's task. */
record Task(
        String hosts, String path, String op, String kind, int clients, int contenders, boolean each, double reads,
        int permits, int held, boolean latencies, double period) {
    String lockPath(int contender) {
        return each ? path + "/" + contender : path;
    }

    /**
     * Returns the server of a client. If latencies are measured, the clients are distributed over the servers in a
     * fixed order, because the distance to the leader changes latencies.
     */
    String clientHosts(int client) {
        String[] each = hosts.split(",");
        return latencies ? each[client % each.length] : hosts;
    }

    boolean writes(int contender, int turn) {
        // The share of readers is never 100 %.
        long step = Math.round(100 / (100 - reads));
        return (contender + turn) % step == step - 1;
    }
}
