//! The Rust worker of the scenario tests: executes lock commands (see `tests/worker-protocol.md`).

mod answers;
mod arguments;
mod command;
mod holds;
mod lockable;
mod log;
mod process;
mod world;

use std::io::{BufRead, Write};
use std::rc::Rc;

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::command::Command;
use crate::world::World;

/// Returns `CLOCK_MONOTONIC` in nanoseconds.
fn now() -> i64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

/// Writes a line. Adds a stamp if the line has none.
fn write(mut line: Value) {
    if line.get("t").is_none() {
        line["t"] = now().into();
    }
    let mut output = std::io::stdout().lock();
    // Ignore errors. The write fails only if the test process has exited, and then the input also ends.
    writeln!(output, "{line}").and_then(|()| output.flush()).ok();
}

fn main() {
    let (sender, mut commands) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_time().build() else {
        std::process::exit(1);
    };
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, async {
        write(json!({"event": "ready", "surface": "rust", "pid": std::process::id()}));
        let world = Rc::new(World::default());
        while let Some(line) = commands.recv().await {
            let line: Value = serde_json::from_str(&line).unwrap_or(Value::String(line));
            let id = line["id"].clone();
            match Command::deserialize(&line) {
                Ok(Command::Exit) => {
                    write(json!({"id": id, "event": "bye"}));
                    break;
                }
                Ok(command) => world.obey(id, command),
                // Reply with an error: otherwise the test would wait until its timeout.
                Err(error) => {
                    let message = format!("{error}: {line}");
                    write(json!({"id": id, "event": "error", "type": "Worker", "message": message}));
                }
            }
        }
        world.close().await;
    });
}
