//! Runs many clients in one process, for `make bench-scale`. The driver (`benches/scale`) writes
//! one command per line to the standard input, and receives a line of JSON when the command is
//! done.

use std::io::{self, BufRead, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio::task::JoinSet;
use zklock::{Client, ClientOptions, Lease, Mutex, Result};
use zklock_bench_locks::Task;

/// The clients of this process and their locks.
struct Fleet {
    task: Task,
    clients: Vec<Client>,
    leases: Vec<Lease>,
    /// Contenders that wait for a lock, or that hold a lock until `go` lets them release it.
    queued: JoinSet<Result<()>>,
    go: Arc<watch::Sender<bool>>,
}

impl Fleet {
    fn new(task: Task) -> Self {
        let go = Arc::new(watch::Sender::new(false));
        Self { task, clients: Vec::new(), leases: Vec::new(), queued: JoinSet::new(), go }
    }

    /// Connects all clients.
    async fn connect(&mut self) -> Result<()> {
        let time = Duration::from_secs(self.task.number("session_timeout") as u64);
        let mut connecting = JoinSet::new();
        for _ in 0..self.task.number("clients") {
            let options = ClientOptions::new(Some(self.task.text("hosts")))?;
            let client =
                Client::new(options.session_timeout(time)?.connect_timeout(Duration::from_secs(60))?);
            self.clients.push(client.clone());
            connecting.spawn(async move { client.ready().await });
        }
        connecting.join_all().await.into_iter().collect()
    }

    /// Lets each client acquire separate locks until it holds this many.
    async fn hold(&mut self, each: usize) -> Result<()> {
        let held = self.leases.len() / self.clients.len();
        let mut holding = JoinSet::new();
        for (place, client) in self.clients.iter().enumerate() {
            let client = client.clone();
            let path = format!("{}/own/{}", self.task.text("path"), self.task.number("first") + place);
            holding.spawn(async move {
                let mut leases = Vec::new();
                // Acquire one lock at a time. If a client acquired many locks in parallel, its
                // requests would wait so long that leases would be lost.
                for lock in held..each {
                    leases.push(Mutex::new(&client, format!("{path}-{lock}"))?.acquire().await?);
                }
                Ok(leases)
            });
        }
        while let Some(held) = holding.join_next().await {
            let held: Result<Vec<Lease>> = held.expect("a task that does not panic");
            self.leases.extend(held?);
        }
        Ok(())
    }

    /// Distributes the clients over the queues of `locks` locks. A client that acquires its lock
    /// keeps it until `drain`.
    fn queue(&mut self, locks: usize) -> Result<()> {
        self.go.send_replace(false);
        for (place, client) in self.clients.iter().enumerate() {
            let lock = (self.task.number("first") + place) % locks;
            let mutex = Mutex::new(client, format!("{}/queue-{locks}-{lock}", self.task.text("path")))?;
            let mut go = self.go.subscribe();
            self.queued.spawn(async move {
                let lease = mutex.acquire().await?;
                go.wait_for(|open| *open).await.ok();
                lease.release().await
            });
        }
        Ok(())
    }

    /// Lets all contenders acquire and release, and waits until no contender is left.
    async fn drain(&mut self) -> Result<()> {
        self.go.send_replace(true);
        while let Some(done) = self.queued.join_next().await {
            done.expect("a task that does not panic")?;
        }
        Ok(())
    }

    fn losses(&self) -> Value {
        let stats: Vec<_> = self.clients.iter().map(Client::stats).collect();
        let sum = |field: fn(&zklock::Stats) -> u64| stats.iter().map(field).sum::<u64>();
        json!({
            "losses": sum(|one| one.losses),
            "sessions": sum(|one| one.sessions),
            "reconnections": sum(|one| one.reconnections),
            "acquisitions": sum(|one| one.acquisitions),
        })
    }

    async fn close(&mut self) {
        let mut closing = JoinSet::new();
        for client in self.clients.drain(..) {
            closing.spawn(async move { client.close().await.ok() });
        }
        closing.join_all().await;
    }

    async fn carry_out(&mut self, command: &str, number: usize) -> Result<()> {
        match command {
            "connect" => self.connect().await?,
            "hold" => self.hold(number).await?,
            "queue" => self.queue(number)?,
            "drain" => self.drain().await?,
            "close" => self.close().await,
            "look" => {}
            other => panic!("no such command: {other}"),
        }
        Ok(())
    }
}

#[expect(clippy::print_stdout, reason = "the lines to the driver")]
fn main() {
    let runtime = Runtime::new().expect("a runtime");
    let mut fleet = Fleet::new(Task::from_arguments());
    for line in io::stdin().lock().lines() {
        let line = line.expect("a line");
        let (command, number) = line.split_once(' ').unwrap_or((&line, "0"));
        let began = Instant::now();
        runtime.block_on(fleet.carry_out(command, number.parse().expect("a number"))).expect("a server");
        let told = json!({ "seconds": began.elapsed().as_secs_f64(), "told": fleet.losses() });
        println!("{told}");
        io::stdout().flush().expect("a driver that reads");
    }
    runtime.shutdown_background();
}
