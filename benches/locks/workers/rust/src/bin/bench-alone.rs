//! The client alone, as a worker of `tests/worker-protocol.md`, for `make bench-cost`. Instead of a
//! lock it creates an ephemeral node, and it implements only the commands of that benchmark.

use std::io::{self, BufRead, Write};
use std::pin::Pin;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use spawns_core::{Spawn, enter};
use tokio::runtime::Builder;
use tokio::sync::mpsc;
use zookeeper_client::{Acls, Client, CreateMode, CreateOptions, Error};

const NODE: CreateOptions<'static> = CreateMode::Ephemeral.with_acls(Acls::anyone_all());
const DIRECTORY: CreateOptions<'static> = CreateMode::Persistent.with_acls(Acls::anyone_all());

/// Spawns the client's tasks on the thread's runtime.
struct OnRuntime;

impl Spawn for OnRuntime {
    fn spawn(&self, task: spawns_core::Task) {
        drop(tokio::spawn(Pin::from(task.future)));
    }
}

#[derive(Default)]
struct Worker {
    client: Option<Client>,
}

impl Worker {
    async fn obey(&mut self, command: &Value) -> Result<&'static str, Error> {
        let text = |field: &str| command[field].as_str().unwrap_or_default();
        match text("cmd") {
            "connect" => {
                let timeout = Duration::from_secs_f64(command["session_timeout"].as_f64().unwrap_or(10.0));
                let connector = Client::connector().with_session_timeout(timeout);
                self.client = Some(connector.connect(text("hosts")).await?);
                Ok("connected")
            }
            "hold" => {
                let client = self.client.as_ref().ok_or(Error::ClientClosed)?;
                let number = |field: &str| command[field].as_u64().unwrap_or_default();
                match client.mkdir(text("path"), &DIRECTORY).await {
                    Ok(()) | Err(Error::NodeExists) => {}
                    Err(error) => return Err(error),
                }
                for each in number("first")..number("first") + number("count") {
                    client.create(&format!("{}/{each}", text("path")), b"", &NODE).await?;
                }
                Ok("done")
            }
            _ => Ok("unsupported"),
        }
    }
}

#[expect(clippy::print_stdout, reason = "the lines to the driver")]
fn write(line: &Value) {
    println!("{line}");
    // Ignore errors: without a driver, the input ends too.
    io::stdout().flush().ok();
}

fn main() {
    let (sender, mut commands) = mpsc::unbounded_channel();
    thread::spawn(move || {
        for line in io::stdin().lock().lines().map_while(Result::ok) {
            sender.send(line).ok();
        }
    });
    let _scope = enter(&OnRuntime);
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        write(&json!({ "event": "ready", "surface": "alone", "pid": std::process::id(), "t": 0 }));
        let mut worker = Worker::default();
        while let Some(line) = commands.recv().await {
            let command: Value = serde_json::from_str(&line).expect("a command");
            let id = &command["id"];
            let answer = match worker.obey(&command).await {
                Ok(event) => json!({ "id": id, "event": event, "session": "0", "t": 0 }),
                Err(error) => json!({ "id": id, "event": "error", "message": error.to_string(), "t": 0 }),
            };
            write(&answer);
        }
    });
}
