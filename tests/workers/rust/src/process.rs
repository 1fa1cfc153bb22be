//! Information about this process, and communication with other processes.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

/// Returns the names of this process's threads.
pub(crate) fn threads() -> Vec<String> {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    tasks
        .filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok())
        .map(|name| name.trim().to_owned())
        .collect()
}

/// Sends a line to another process and returns the reply line. This blocks the calling thread, so it must not be called
/// on the thread that runs the locks.
pub(crate) fn exchange(address: &str, text: &str) -> std::io::Result<String> {
    let mut connection = TcpStream::connect(address)?;
    writeln!(connection, "{text}")?;
    let mut reply = String::new();
    BufReader::new(connection).read_line(&mut reply)?;
    Ok(reply.trim_end().to_owned())
}
