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
    "relay": "from another thread",
    "queue": "watch the one before",
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
    "each": "64 threads, a lock each (acquires/s)",
    "readers": "16 clients, 95 % readers (acquires/s)",
    "kept": "free lock, linger of 1 s (pairs/s)",
    "handed-on": "64 threads, cohort of 64 (acquires/s)",
    "kept-readers": "16 clients, 99.9 % readers, linger of 1 s (acquires/s)",
    "semaphore": "16 clients, 4 permits (acquires/s)",
    "try": "busy try (tries/s)",
    "reenter": "enter again (ns)",
    "wait-10": "10 contenders (hand-offs/s)",
    "wait-100": "100 contenders (hand-offs/s)",
    "wait-500": "500 contenders (hand-offs/s)",
    "wait-2000": "2,000 contenders (hand-offs/s)",
    "held-10": "a reader beside 10 (pairs/s)",
    "held-100": "a reader beside 100 (pairs/s)",
    "held-2000": "a reader beside 2,000 (pairs/s)",
    "free-10ms": "free lock (round trips)",
    "handoff-10ms": "hand-off among 10 clients (round trips)",
    "readers-10ms": "a reader beside 10 (round trips)",
    "semaphore-10ms": "free permit (round trips)",
    "try-10ms": "busy try (round trips)",
}
