//! The worker that uses zklock in Rust.

use std::future::pending;
use std::sync::Arc;

use tokio::runtime::Runtime;
use zklock::{Client, Lease, LockOptions, Mutex, Owner, ReadWriteLock, Result, Semaphore, Timeout};
use zklock_bench_locks::{BATCH, Gate, Stopwatch, Task, serve};

enum Lock {
    Mutex(Mutex),
    ReadWrite(ReadWriteLock),
    Semaphore(Semaphore),
}

impl Lock {
    fn new(task: &Task, client: &Client, contender: usize) -> Result<Self> {
        let path = task.path(contender);
        let cohort = u32::try_from(task.number("cohort")).expect("a few holds");
        let options = LockOptions::default().cohort(cohort).linger(task.linger());
        Ok(match task.text("kind") {
            "mutex" => Lock::Mutex(Mutex::with_options(client, path, options)?),
            "readwrite" => Lock::ReadWrite(ReadWriteLock::with_options(client, path, options)?),
            "semaphore" => {
                let permits = u32::try_from(task.number("permits")).expect("a few permits");
                Lock::Semaphore(Semaphore::new(client, path, permits)?)
            }
            other => panic!("no such kind: {other}"),
        })
    }

    async fn acquire(&self, write: bool) -> Result<Lease> {
        match self {
            Lock::Mutex(mutex) => mutex.acquire().await,
            Lock::ReadWrite(both) if write => both.write_lock.acquire().await,
            Lock::ReadWrite(both) => both.read_lock.acquire().await,
            Lock::Semaphore(semaphore) => semaphore.acquire().await,
        }
    }
}

fn main() {
    let task = Task::from_arguments();
    let gate = Gate::new(&task);
    let runtime = Runtime::new().expect("a runtime");
    let clients = runtime.block_on(start(&task, &gate)).expect("a server");
    serve(&gate, env!("CARGO_PKG_VERSION"));
    runtime.block_on(async {
        for client in clients {
            client.close().await.ok();
        }
    });
    runtime.shutdown_background();
}

async fn start(task: &Task, gate: &Arc<Gate>) -> Result<Vec<Client>> {
    let mut clients = Vec::new();
    for number in 0..=task.number("clients") {
        clients.push(Client::connect(task.hosts(number)).await?);
    }
    // The last client holds the locks that the others find taken.
    let holders = clients.last().expect("a client");
    let held = task.number("held");
    let mut joins = Vec::new();
    for _ in 0..held {
        let lock = Lock::new(task, holders, 0)?;
        joins.push(tokio::spawn(async move {
            let lease = lock.acquire(false).await.expect("a hold");
            tokio::spawn(async move {
                let _lease = lease;
                pending::<()>().await;
            });
        }));
    }
    for join in joins {
        join.await.expect("a holder");
    }
    for contender in 0..task.contenders() {
        let client = &clients[contender / task.number("contenders")];
        let lock = Lock::new(task, client, contender)?;
        let (task, gate) = (task.clone(), gate.clone());
        tokio::spawn(async move {
            // The error comes from closing the client.
            contend(&task, &gate, &lock, contender).await.ok();
        });
    }
    Ok(clients)
}

async fn contend(task: &Task, gate: &Arc<Gate>, lock: &Lock, contender: usize) -> Result<()> {
    match (task.text("op"), lock) {
        ("pair", _) => {
            let mut watch = Stopwatch::new(gate);
            for turn in 0.. {
                watch.start().await;
                let lease = lock.acquire(task.writes(contender, turn)).await?;
                watch.acquired();
                gate.pass().await;
                watch.releasing();
                lease.release().await?;
                watch.released();
                gate.done(1);
            }
        }
        ("reenter", Lock::Mutex(mutex)) => {
            let owner = Owner::new();
            let _lease = mutex.acquire_as(&owner, Timeout::Forever).await?;
            loop {
                gate.pass().await;
                for _ in 0..BATCH {
                    mutex.acquire_as(&owner, Timeout::Forever).await?.release().await?;
                }
                gate.done(BATCH);
            }
        }
        ("try", Lock::Mutex(mutex)) => loop {
            gate.pass().await;
            assert!(mutex.try_acquire().await?.is_none(), "the lock is taken");
            gate.done(1);
        },
        (other, _) => panic!("no such work: {other}"),
    }
    Ok(())
}
