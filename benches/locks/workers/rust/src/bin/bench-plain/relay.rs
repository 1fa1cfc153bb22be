//! Runs the plain client on its own thread, like a library for programs in other languages. A
//! contender sends each request to that thread, and receives the outcome.

use std::sync::Arc;
use std::{process, thread};

use spawns_core::enter;
use tokio::runtime::Builder;
use tokio::sync::{mpsc, oneshot};
use zklock_bench_locks::{Gate, Stopwatch, Task, serve};
use zookeeper_client::Client;

use super::{Design, OnRuntime, Result, VERSION, acquire, make};

/// A request of a contender, with the channel for the reply.
enum RelayedRequest {
    /// Creates a node in this directory and returns its path.
    Acquire(Arc<str>, oneshot::Sender<String>),
    /// Deletes this node.
    Release(String, oneshot::Sender<()>),
}

/// Runs the worker until the driver sends `stop`.
pub(super) fn run(task: &Task, gate: &Arc<Gate>) {
    let (send, errands) = mpsc::unbounded_channel();
    let (ready, is_ready) = oneshot::channel();
    let there = task.clone();
    thread::spawn(move || {
        let _scope = enter(&OnRuntime);
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(carry_out(&there, errands, ready)).expect("a server");
    });
    let runtime = Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(is_ready).expect("a client");
    for contender in 0..task.contenders() {
        runtime.spawn(contend(task.path(contender).into(), send.clone(), gate.clone()));
    }
    serve(gate, VERSION);
    // The session ends with the process.
    process::exit(0);
}

async fn contend(path: Arc<str>, errands: mpsc::UnboundedSender<RelayedRequest>, gate: Arc<Gate>) {
    let mut watch = Stopwatch::new(&gate);
    loop {
        watch.start().await;
        let (reply, held) = oneshot::channel();
        errands.send(RelayedRequest::Acquire(Arc::clone(&path), reply)).ok();
        // The error comes from closing the client.
        let Ok(held) = held.await else { break };
        watch.acquired();
        gate.pass().await;
        watch.releasing();
        let (reply, released) = oneshot::channel();
        errands.send(RelayedRequest::Release(held, reply)).ok();
        let Ok(()) = released.await else { break };
        watch.released();
        gate.done(1);
    }
}

async fn carry_out(
    task: &Task,
    mut errands: mpsc::UnboundedReceiver<RelayedRequest>,
    ready: oneshot::Sender<()>,
) -> Result<()> {
    let client = Client::connect(task.hosts(0)).await?;
    for contender in 0..task.contenders() {
        make(&client, &task.path(contender)).await?;
    }
    ready.send(()).ok();
    let alone = task.contenders() == 1;
    while let Some(errand) = errands.recv().await {
        let client = client.clone();
        tokio::spawn(async move {
            match errand {
                RelayedRequest::Acquire(path, reply) => {
                    let held = acquire(Design::Raw, &client, &path, alone).await?;
                    reply.send(held).ok();
                }
                RelayedRequest::Release(held, reply) => {
                    client.delete(&held, None).await?;
                    reply.send(()).ok();
                }
            }
            Ok::<(), zookeeper_client::Error>(())
        });
    }
    Ok(())
}
