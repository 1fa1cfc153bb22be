//! Writes lines on a separate thread, so that a thread that supervises a command does not wait for
//! a reader.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use zklock::internal::block_signals;

/// Maximum number of lines in the queue. Further lines are dropped.
const CAPACITY: usize = 1000;

/// Writes lines in order, and drops lines when no process reads them.
pub(crate) struct LineWriter(Arc<Shared>);

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    added: Condvar,
    written: Condvar,
}

#[derive(Default)]
struct Queue {
    entries: VecDeque<Entry>,
    /// Number of lines among the entries.
    lines: usize,
    /// True while the thread writes an entry that it has removed from the queue.
    writing: bool,
}

enum Entry {
    Line(String),
    /// Number of lines that were dropped at this position.
    Dropped(u64),
}

impl Queue {
    fn add(&mut self, line: String) {
        if self.lines < CAPACITY {
            self.lines += 1;
            self.entries.push_back(Entry::Line(line));
        } else if let Some(Entry::Dropped(count)) = self.entries.back_mut() {
            *count += 1;
        } else {
            self.entries.push_back(Entry::Dropped(1));
        }
    }

    fn take(&mut self) -> Option<Entry> {
        let entry = self.entries.pop_front();
        self.writing = entry.is_some();
        if let Some(Entry::Line(_)) = entry {
            self.lines -= 1;
        }
        entry
    }
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next(&self) -> Entry {
        let mut queue = self.queue();
        loop {
            if let Some(entry) = queue.take() {
                return entry;
            }
            self.written.notify_all();
            queue = self.added.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl LineWriter {
    /// Starts the thread. If lines had to be dropped, the thread passes their number to `dropped`,
    /// and writes the line that `dropped` returns.
    pub(crate) fn start(
        mut out: impl Write + Send + 'static,
        dropped: impl Fn(u64) -> String + Send + 'static,
    ) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let ours = Arc::clone(&shared);
        thread::Builder::new().name("zklock-report".to_owned()).spawn(move || {
            // Block signals, because SIGTTOU stops a background process that writes to the
            // terminal.
            block_signals();
            loop {
                let mut line = match ours.next() {
                    Entry::Line(line) => line,
                    Entry::Dropped(count) => dropped(count),
                };
                line.push('\n');
                // The reader might have exited.
                out.write_all(line.as_bytes()).and_then(|()| out.flush()).unwrap_or_default();
            }
        })?;
        Ok(Self(shared))
    }

    /// Adds a line. Never waits for the reader.
    pub(crate) fn add(&self, line: String) {
        self.0.queue().add(line);
        self.0.added.notify_one();
    }

    /// Waits until all lines are written, but at most for `limit`.
    pub(crate) fn finish(&self, limit: Duration) {
        let unwritten = |queue: &mut Queue| queue.writing || !queue.entries.is_empty();
        drop(self.0.written.wait_timeout_while(self.0.queue(), limit, unwritten));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

    use super::*;

    /// Generous timeout: even a heavily loaded machine finishes earlier.
    const LIMIT: Duration = Duration::from_secs(60);

    /// Output that behaves like a full pipe: it reports the start of each write, and blocks it
    /// until the test lets it continue.
    struct Full {
        begun: SyncSender<()>,
        room: Receiver<()>,
        written: Arc<Mutex<String>>,
    }

    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.begun.send(()).ok();
            // Once the other end is closed, writes no longer block.
            self.room.recv().ok();
            self.written.lock().unwrap().push_str(std::str::from_utf8(bytes).unwrap());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn nobody_waits_for_a_reader_and_lines_that_were_dropped_are_counted() {
        let (begun, begins) = sync_channel(1);
        let (goes_on, room) = sync_channel(0);
        let written = Arc::new(Mutex::new(String::new()));
        let out = Full { begun, room, written: Arc::clone(&written) };
        let lines = LineWriter::start(out, |count| format!("{count} dropped")).expect("a thread");
        lines.add("first".to_owned());
        begins.recv_timeout(LIMIT).expect("a write");
        for number in 0..CAPACITY + 7 {
            lines.add(number.to_string());
        }
        lines.finish(Duration::from_millis(1));
        assert_eq!(*written.lock().unwrap(), "", "a full pipe holds nobody up");
        goes_on.send(()).expect("the thread");
        begins.recv_timeout(LIMIT).expect("the next write");
        lines.add("after".to_owned());
        drop((goes_on, begins));
        lines.finish(LIMIT);
        let mut wanted = vec!["first".to_owned()];
        wanted.extend((0..CAPACITY).map(|number| number.to_string()));
        wanted.extend(["7 dropped".to_owned(), "after".to_owned()]);
        assert_eq!(written.lock().unwrap().lines().collect::<Vec<_>>(), wanted);
    }
}
