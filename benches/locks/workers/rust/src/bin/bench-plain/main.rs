//! The workers that use the plain ZooKeeper client. The second argument selects one. The first two
//! are the baseline: they send the requests of a lock, but do not wait until it is free.
//!
//! * `raw`: sends a create and a listing together, and then a delete. With more than one contender,
//!   it reads the directory's stat instead of the listing, which would be longer.
//! * `relay`: the same requests, with the client on its own thread.
//! * `spin`: a contender that cannot create the only node tries again immediately.
//! * `herd`: every waiter watches the only node, and all try again when it is deleted.
//! * `bare`: one client sends `exists` requests one after another, to measure a round trip.
//! * `queue`: a contender creates a sequential node and watches the node ahead of it, as in most
//!   recipes.
//! * `lookahead`: sends the requests of zklock's hand-off, without its logic and safety.

mod lookahead;
mod nodes;
mod relay;

use std::pin::Pin;
use std::sync::Arc;

use spawns_core::{Spawn, enter};
use tokio::runtime::Builder;
use zklock_bench_locks::{Gate, Stopwatch, Task, serve};
use zookeeper_client::{Client, Error};

use self::nodes::{DATA, DIRECTORY, NODE, NUMBERED, PREFIX};

const VERSION: &str = "zookeeper-client 0.11.2";

type Result<T> = std::result::Result<T, Error>;

/// Spawns the client's tasks on the thread's runtime.
struct OnRuntime;

impl Spawn for OnRuntime {
    fn spawn(&self, task: spawns_core::Task) {
        drop(tokio::spawn(Pin::from(task.future)));
    }
}

#[derive(Clone, Copy)]
enum Design {
    Raw,
    Relay,
    Bare,
    Spin,
    Herd,
    Queue,
    Lookahead,
}

impl Design {
    fn from_arguments() -> Self {
        match std::env::args().nth(2).expect("a design").as_str() {
            "raw" => Design::Raw,
            "relay" => Design::Relay,
            "bare" => Design::Bare,
            "spin" => Design::Spin,
            "herd" => Design::Herd,
            "queue" => Design::Queue,
            "lookahead" => Design::Lookahead,
            other => panic!("no such design: {other}"),
        }
    }
}

fn main() {
    let (task, design) = (Task::from_arguments(), Design::from_arguments());
    let gate = Gate::new(&task);
    if matches!(design, Design::Relay) {
        return relay::run(&task, &gate);
    }
    let _scope = enter(&OnRuntime);
    // Keep the runtime alive as long as the threads.
    let runtime = Builder::new_multi_thread()
        .enable_all()
        .on_thread_start(|| std::mem::forget(enter(&OnRuntime)))
        .build()
        .expect("a runtime");
    let clients = runtime.block_on(start(&task, design, &gate)).expect("a server");
    serve(&gate, VERSION);
    // Stop the tasks, because they have client handles, and a session is closed only when its last
    // handle is dropped.
    runtime.shutdown_background();
    drop(clients);
}

async fn start(task: &Task, design: Design, gate: &Arc<Gate>) -> Result<Vec<Client>> {
    if matches!(design, Design::Bare) {
        return Ok(vec![bare(task, gate).await?]);
    }
    let mut clients = Vec::new();
    for number in 0..task.number("clients") {
        clients.push(Client::connect(task.hosts(number)).await?);
    }
    if matches!(design, Design::Lookahead) {
        lookahead::start(task, &clients, gate).await?;
        return Ok(clients);
    }
    for contender in 0..task.contenders() {
        let client = clients[contender / task.number("contenders")].clone();
        let path = task.path(contender);
        make(&client, &path).await?;
        let alone = task.contenders() == 1;
        let gate = gate.clone();
        tokio::spawn(async move {
            // The error comes from closing the client.
            let mut watch = Stopwatch::new(&gate);
            loop {
                watch.start().await;
                let held = acquire(design, &client, &path, alone).await?;
                watch.acquired();
                gate.pass().await;
                watch.releasing();
                client.delete(&held, None).await?;
                watch.released();
                gate.done(1);
            }
            #[expect(unreachable_code, reason = "names the type")]
            Ok::<(), Error>(())
        });
    }
    Ok(clients)
}

/// Creates a lock's directory, unless it exists.
async fn make(client: &Client, path: &str) -> Result<()> {
    client.mkdir(path, &DIRECTORY).await.or_else(|error| match error {
        Error::NodeExists => Ok(()),
        other => Err(other),
    })
}

/// Reads the state of an existing node, one read after another.
async fn bare(task: &Task, gate: &Arc<Gate>) -> Result<Client> {
    let client = Client::connect(task.hosts(0)).await?;
    let (asks, gate) = (client.clone(), gate.clone());
    tokio::spawn(async move {
        loop {
            // Check the gate between two requests, as a lock does, so that whole pairs are counted.
            asks.check_stat("/zookeeper").await?;
            gate.pass().await;
            asks.check_stat("/zookeeper").await?;
            gate.done(2);
        }
        #[expect(unreachable_code, reason = "names the type")]
        Ok::<(), Error>(())
    });
    Ok(client)
}

/// Acquires the lock and returns the path of its node.
async fn acquire(design: Design, client: &Client, path: &str, alone: bool) -> Result<String> {
    let one = format!("{path}/lock");
    match design {
        Design::Bare | Design::Relay | Design::Lookahead => unreachable!("has no lock of its own"),
        Design::Raw => {
            let numbered = format!("{path}/{PREFIX}");
            let create = client.create(&numbered, DATA, &NUMBERED);
            let sequence = if alone {
                tokio::try_join!(create, client.get_children(path))?.0.1
            } else {
                tokio::try_join!(create, client.check_stat(path))?.0.1
            };
            Ok(format!("{numbered}{sequence}"))
        }
        Design::Spin => loop {
            match client.create(&one, b"", &NODE).await {
                Err(Error::NodeExists) => {}
                done => return done.map(|_| one),
            }
        },
        Design::Herd => loop {
            match client.create(&one, b"", &NODE).await {
                Err(Error::NodeExists) => {}
                done => return done.map(|_| one),
            }
            let (there, watcher) = client.check_and_watch_stat(&one).await?;
            if there.is_some() {
                watcher.changed().await;
            }
        },
        Design::Queue => {
            let numbered = format!("{path}/n-");
            let (_, sequence) = client.create(&numbered, b"", &NUMBERED).await?;
            let ours = format!("n-{sequence}");
            loop {
                let mut names = client.list_children(path).await?;
                names.sort_unstable();
                let Some(before) = names.iter().rev().find(|name| **name < ours) else { break };
                let (there, watcher) = client.check_and_watch_stat(&format!("{path}/{before}")).await?;
                if there.is_some() {
                    watcher.changed().await;
                }
            }
            Ok(format!("{path}/{ours}"))
        }
    }
}
