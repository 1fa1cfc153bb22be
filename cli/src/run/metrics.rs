//! Writes the metrics of a run to a file, for the textfile collector of Prometheus'
//! `node_exporter`.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nix::libc;

use crate::failure::Failure;
use crate::run::report::Reporter;

/// The metrics of one run. The counts include earlier runs that wrote to the same file.
#[derive(Clone, Debug, Default, PartialEq)]
struct Numbers {
    waiting: bool,
    holding: bool,
    /// Times are in seconds since 1970.
    started: Option<f64>,
    granted: Option<f64>,
    ended: Option<f64>,
    succeeded: Option<f64>,
    waited: Option<f64>,
    held: Option<f64>,
    status: Option<f64>,
    losses: f64,
}

const PREFIX: &str = "zklock_run_";

impl Numbers {
    /// Returns the name, type, help text and value of each metric.
    fn all(&self) -> [(&'static str, &'static str, &'static str, Option<f64>); 10] {
        let flag = |is: bool| Some(f64::from(u8::from(is)));
        [
            ("waiting", "gauge", "1 while the run waits for the lock, else 0", flag(self.waiting)),
            ("holding", "gauge", "1 while the run holds the lock, else 0", flag(self.holding)),
            ("start_timestamp_seconds", "gauge", "Time at which the last run began to wait", self.started),
            ("grant_timestamp_seconds", "gauge", "Time at which the lock was last granted", self.granted),
            ("end_timestamp_seconds", "gauge", "Time at which the last run ended", self.ended),
            (
                "success_timestamp_seconds",
                "gauge",
                "Time at which the command last ended with status 0 without losing the lock",
                self.succeeded,
            ),
            ("waited_seconds", "gauge", "Duration of the last wait for the lock", self.waited),
            ("held_seconds", "gauge", "Duration of the last hold", self.held),
            ("exit_status", "gauge", "Exit status of the last run", self.status),
            ("losses_total", "counter", "Number of runs that lost the lock", Some(self.losses)),
        ]
    }

    /// Returns the metrics in the Prometheus text format.
    fn text(&self, path: &str) -> String {
        let path = escaped(path);
        let mut text = String::new();
        for (name, kind, help, value) in self.all() {
            if let Some(value) = value {
                let name = format!("{PREFIX}{name}");
                writeln!(
                    text,
                    "# HELP {name} {help}.\n# TYPE {name} {kind}\n{name}{{path=\"{path}\"}} {value}"
                )
                .unwrap_or_default();
            }
        }
        text
    }

    /// Parses the numbers that an earlier run for the same lock left in the file. Ignores malformed
    /// lines.
    fn parse(text: &str, path: &str) -> Self {
        let path = escaped(path);
        let value = |name: &str| -> Option<f64> {
            let head = format!("{PREFIX}{name}{{path=\"{path}\"}} ");
            text.lines().find_map(|line| line.strip_prefix(head.as_str()))?.trim().parse().ok()
        };
        Self {
            waiting: false,
            holding: false,
            started: value("start_timestamp_seconds"),
            granted: value("grant_timestamp_seconds"),
            ended: value("end_timestamp_seconds"),
            succeeded: value("success_timestamp_seconds"),
            waited: value("waited_seconds"),
            held: value("held_seconds"),
            status: value("exit_status"),
            losses: value("losses_total").unwrap_or_default(),
        }
    }
}

/// Escapes the value of a label.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// Writes the metrics of this run if the user named a file.
pub(crate) struct Metrics {
    file: Option<PathBuf>,
    path: String,
    reporter: Reporter,
    progress: RefCell<Progress>,
}

struct Progress {
    numbers: Numbers,
    /// Start of the wait, and later of the hold.
    since: Instant,
    lost: bool,
}

impl Metrics {
    /// Records the start of the wait. A file that cannot be written is reported as a usage error.
    pub(crate) fn begin(file: Option<&Path>, path: &str, reporter: &Reporter) -> Result<Self, Failure> {
        let before = file.map(read).transpose().map_err(|error| refused(file, &error))?.unwrap_or_default();
        let numbers = Numbers { waiting: true, started: Some(now()), ..Numbers::parse(&before, path) };
        let progress = RefCell::new(Progress { numbers, since: Instant::now(), lost: false });
        let (path, reporter) = (path.to_owned(), reporter.clone());
        let metrics = Self { file: file.map(Path::to_owned), path, reporter, progress };
        metrics.write().map_err(|error| refused(file, &error))?;
        Ok(metrics)
    }

    /// Records the grant of the lock.
    pub(crate) fn granted(&self) {
        self.update(|numbers, lasted| {
            (numbers.waiting, numbers.holding) = (false, true);
            (numbers.granted, numbers.waited) = (Some(now()), Some(lasted.as_secs_f64()));
        });
    }

    /// Records that the lock was lost, or that the command was ended because no server had replied
    /// for too long.
    pub(crate) fn lost(&self) {
        // Do not write the file yet: it is written at the end of the run.
        let mut progress = self.progress.borrow_mut();
        progress.numbers.losses += 1.0;
        progress.lost = true;
    }

    /// Records the end of the run.
    pub(crate) fn ended(&self, status: u8) {
        let lost = self.progress.borrow().lost;
        self.update(|numbers, lasted| {
            let lasted = Some(lasted.as_secs_f64());
            if numbers.holding {
                numbers.held = lasted;
            } else {
                numbers.waited = lasted;
            }
            (numbers.ended, numbers.status) = (Some(now()), Some(f64::from(status)));
            if numbers.holding && !lost && status == 0 {
                numbers.succeeded = numbers.ended;
            }
            (numbers.waiting, numbers.holding) = (false, false);
        });
    }

    fn update(&self, change: impl FnOnce(&mut Numbers, Duration)) {
        let mut progress = self.progress.borrow_mut();
        let lasted = progress.since.elapsed();
        change(&mut progress.numbers, lasted);
        progress.since = Instant::now();
        drop(progress);
        if let (Err(error), Some(file)) = (self.write(), &self.file) {
            self.reporter.report("metrics", format_args!("cannot write {}: {error}", file.display()));
        }
    }

    /// Replaces the whole file with a rename, so a reader sees either the old file or the new one.
    fn write(&self) -> io::Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        check_kind(file)?;
        let name = file.file_name().ok_or(io::ErrorKind::IsADirectory)?.to_string_lossy().into_owned();
        // The name does not end in `.prom`, so no collector reads the file.
        let unfinished = file.with_file_name(format!(".{name}.{}", std::process::id()));
        let text = self.progress.borrow().numbers.text(&self.path);
        // Remove a file of this name: an earlier run with the same process ID might have left it.
        // Never write to an existing file, because the name is predictable and another user might
        // have created it.
        drop(fs::remove_file(&unfinished));
        let written = File::create_new(&unfinished)
            .and_then(|mut new| new.write_all(text.as_bytes()))
            .and_then(|()| fs::rename(&unfinished, file));
        written.inspect_err(|_| drop(fs::remove_file(&unfinished)))
    }
}

/// Reads the metrics of earlier runs. A file that is unreadable or not UTF-8 counts as empty.
fn read(file: &Path) -> io::Result<String> {
    check_kind(file)?;
    // The file might have been replaced since the check, so do not follow a link and do not block
    // on a FIFO.
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let mut text = String::new();
    let opened = File::options().read(true).custom_flags(flags).open(file);
    let read = opened.and_then(|mut opened| opened.read_to_string(&mut text));
    Ok(if read.is_ok() { text } else { String::new() })
}

/// Refuses everything except a regular file or a missing one. The rename would replace a device or
/// a link, and reading a FIFO might never end.
fn check_kind(file: &Path) -> io::Result<()> {
    let kind = match fs::symlink_metadata(file) {
        Ok(found) => found.file_type(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    let what = match kind {
        _ if kind.is_file() => return Ok(()),
        _ if kind.is_dir() => "a directory",
        _ if kind.is_symlink() => "a symbolic link",
        _ if kind.is_fifo() => "a FIFO",
        _ if kind.is_socket() => "a socket",
        _ => "a device",
    };
    Err(io::Error::new(io::ErrorKind::InvalidInput, format!("it is {what}, not a regular file")))
}

fn refused(file: Option<&Path>, error: &io::Error) -> Failure {
    let file = file.unwrap_or(Path::new("")).display();
    Failure::usage(format!(
        "cannot write --metrics {file}: {error}; choose a file in a directory that this user can write to"
    ))
}

/// Returns the current time in seconds since 1970.
fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_again_by_the_next_run() {
        let numbers = Numbers {
            waiting: true,
            holding: false,
            started: Some(1_700_000_000.25),
            granted: None,
            ended: Some(5.0),
            succeeded: Some(4.0),
            waited: Some(0.125),
            held: Some(3.5),
            status: Some(79.0),
            losses: 2.0,
        };
        let path = "/a \"b\"\\\nc";
        let text = numbers.text(path);
        assert_eq!(Numbers::parse(&text, path), Numbers { waiting: false, ..numbers });
        assert_eq!(Numbers::parse(&text, "/other"), Numbers::default());
        assert!(
            text.lines().all(|line| line.starts_with('#') || line.contains(r#"{path="/a \"b\"\\\nc"} "#))
        );
    }

    #[test]
    fn events_that_did_not_happen_have_no_value() {
        let text = Numbers::default().text("/a");
        assert!(text.contains("zklock_run_losses_total{path=\"/a\"} 0\n"), "{text}");
        assert!(!text.contains("exit_status"), "{text}");
    }
}
