"""Names of peers and workloads for publication."""

from __future__ import annotations

SHOWN = {
    "rust": "Rust",
    "python": "Python",
    "asyncio": "asyncio",
    "node": "Node",
    "curator": "Curator",
    "kazoo": "kazoo",
    "go": "go-zookeeper",
    "recipe": "node-zookeeper-client",
    "raw": "client alone",
    "relay": "client alone, other thread",
    "queue": "watch the predecessor",
    "spin": "spin",
    "herd": "herd",
    "postgres": "PostgreSQL",
    "redis": "Redis",
    "etcd": "etcd",
}
OURS = ("rust", "python", "asyncio", "node")
THEIRS = ("curator", "kazoo", "go", "recipe")
OTHERS = ("postgres", "redis", "etcd")
YARDSTICKS = ("raw", "relay")
DESIGNS = ("queue", "herd", "spin")

TITLES = {
    "free": "free lock, 1 client (pairs/s)",
    "threads": "64 threads, 1 client (acquires/s)",
    "clients": "64 clients (acquires/s)",
    "each": "64 threads, separate locks (acquires/s)",
    "readers": "16 clients, 95 % readers (acquires/s)",
    "kept": "free lock, linger of 1 s (pairs/s)",
    "handed-on": "64 threads, cohort of 64 (acquires/s)",
    "kept-readers": "16 clients, 99.9 % readers, linger of 1 s (acquires/s)",
    "semaphore": "16 clients, 4 permits (acquires/s)",
    "try": "try of a taken lock (tries/s)",
    "reenter": "re-entry (ns)",
    "wait-10": "10 contenders (hand-offs/s)",
    "wait-100": "100 contenders (hand-offs/s)",
    "wait-500": "500 contenders (hand-offs/s)",
    "wait-2000": "2,000 contenders (hand-offs/s)",
    "held-10": "reader next to 10 holders (pairs/s)",
    "held-100": "reader next to 100 holders (pairs/s)",
    "held-2000": "reader next to 2,000 holders (pairs/s)",
    "free-10ms": "free lock (round trips)",
    "handoff-10ms": "hand-off among 10 clients (round trips)",
    "readers-10ms": "reader next to 10 holders (round trips)",
    "semaphore-10ms": "free permit (round trips)",
    "try-10ms": "try of a taken lock (round trips)",
}
