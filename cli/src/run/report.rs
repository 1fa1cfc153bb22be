//! Reports events on standard error while the command runs, as text or as JSON.

use std::fmt::Display;
use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use clap::{Args, ValueEnum};
use nix::sys::signal::Signal;
use serde_json::json;
use zklock::{Client, ClientState, Lease};

use crate::failure::Failure;
use crate::run::line_writer::LineWriter;
use crate::run::options::OnRevoke;

/// Maximum time for which a run waits, before it exits, for its last reports to be read.
const LAST_REPORTS: Duration = Duration::from_secs(1);

/// Format of the reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// A line of text for each event
    Text,
    /// A line of JSON for each event, with `time`, `event` and `message`
    Json,
}

/// Options for the reports.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct ReportOptions {
    /// Also report lost connections, and signals that the command receives because of the lock
    #[arg(short = 'v', long)]
    verbose: bool,
    /// The format of reports, such as the loss of the lock, on standard error
    #[arg(long = "log", value_enum, default_value_t = Format::Text)]
    format: Format,
}

impl ReportOptions {
    fn line(self, event: &str, message: &str, now: SystemTime) -> String {
        match self.format {
            Format::Text => format!("zklock: {message}"),
            Format::Json => {
                let time = humantime::format_rfc3339_millis(now).to_string();
                json!({ "time": time, "event": event, "message": message }).to_string()
            }
        }
    }
}

/// Reports events of a lock. Never waits for a reader, because the command must be supervised at
/// the same time.
#[derive(Clone)]
pub(crate) struct Reporter {
    options: ReportOptions,
    lines: Arc<LineWriter>,
}

impl Reporter {
    /// Starts the thread that writes the reports.
    pub(crate) fn start(options: ReportOptions) -> Result<Self, Failure> {
        let dropped = move |count| {
            let message = format!("{count} reports were dropped, because standard error was not read");
            options.line("dropped", &message, SystemTime::now())
        };
        let lines = LineWriter::start(io::stderr(), dropped)
            .map_err(|error| Failure::system("cannot start a thread", &error))?;
        Ok(Self { options, lines: Arc::new(lines) })
    }

    /// Waits briefly until all reports are written.
    pub(crate) fn finish(&self) {
        self.lines.finish(LAST_REPORTS);
    }

    /// Reports an event.
    pub(crate) fn report(&self, event: &str, message: impl Display) {
        self.lines.add(self.options.line(event, &message.to_string(), SystemTime::now()));
    }

    fn detail(&self, event: &str, message: impl Display) {
        if self.options.verbose {
            self.report(event, message);
        }
    }

    /// Reports the session timeout that the servers granted if it differs from the requested one.
    pub(crate) fn session_timeout(&self, asked: Duration, granted: Duration) {
        if let Some(message) = changed_timeout(asked, granted) {
            self.report("session_timeout", message);
        }
    }

    /// Reports the loss of the lock and the effect on the command.
    pub(crate) fn lost(&self, lease: &Lease, then: &str) {
        let (path, token) = (lease.path(), lease.fencing_token());
        let reason = lease.loss_reason().map_or("unknown", |reason| reason.as_str());
        self.report("lost", format_args!("the lock {path:?} is lost ({reason}, token {token}); {then}"));
    }

    /// Reports that another program requests the lock.
    pub(crate) fn revoked(&self, lease: &Lease, then: OnRevoke) {
        let path = lease.path();
        let then = match then {
            OnRevoke::Ignore => "the command continues to run (--on-revoke term would end it)",
            OnRevoke::Term => "the command receives SIGTERM",
        };
        self.report("revoked", format_args!("another client requests the lock {path:?}; {then}"));
    }

    /// Reports a new state of the connection. `suspended` is `true` if the connection was lost
    /// before.
    pub(crate) fn state(&self, client: &Client, lease: &Lease, state: ClientState, suspended: bool) {
        match state {
            ClientState::Suspended => {
                let left = lease.remaining().as_secs_f64();
                self.detail(
                    "suspended",
                    format_args!(
                        "the connection is lost; the lock stays held for at least another {left:.3} s"
                    ),
                );
            }
            ClientState::Connected if suspended => {
                let server = client.health().server.unwrap_or_else(|| "a server".to_owned());
                self.detail("connected", format_args!("reconnected to {server}"));
            }
            _ => {}
        }
    }

    /// Reports a signal that the command receives because of the lock.
    pub(crate) fn signal(&self, signal: Signal, left: Duration) {
        let (event, what) = match signal {
            Signal::SIGSTOP => ("stopped", "is stopped"),
            Signal::SIGCONT => ("continued", "is continued"),
            Signal::SIGTERM => ("terminated", "receives SIGTERM"),
            Signal::SIGKILL => ("killed", "receives SIGKILL"),
            _ => return,
        };
        let left = left.as_secs_f64();
        self.detail(event, format_args!("the command {what}; {left:.3} s of the lock's term are left"));
    }
}

fn changed_timeout(asked: Duration, granted: Duration) -> Option<String> {
    let (granted_text, asked_text) =
        (humantime::format_duration(granted).to_string(), humantime::format_duration(asked).to_string());
    let consequence = match granted.cmp(&asked) {
        std::cmp::Ordering::Equal => return None,
        std::cmp::Ordering::Less => "the lock can be lost sooner, and is freed sooner if this machine fails",
        std::cmp::Ordering::Greater => {
            "if this machine fails, the lock stays taken for longer than requested"
        }
    };
    Some(format!(
        "the servers granted a session timeout of {granted_text}, not {asked_text}: {consequence}; run `zklock \
         doctor` for advice"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_time_out_that_was_changed_is_reported_with_the_consequence() {
        let (second, hour) = (Duration::from_secs(1), Duration::from_secs(3600));
        assert_eq!(changed_timeout(second, second), None);
        let raised = changed_timeout(second, 4 * second).expect("a report");
        assert!(raised.contains("timeout of 4s, not 1s") && raised.contains("stays taken"), "{raised}");
        let lowered = changed_timeout(hour, 40 * second).expect("a report");
        assert!(lowered.contains("timeout of 40s, not 1h") && lowered.contains("sooner"), "{lowered}");
    }

    #[test]
    fn reports_are_text_or_json() {
        let options = |format| ReportOptions { format, verbose: false };
        let moment = SystemTime::UNIX_EPOCH + Duration::from_millis(1_500);
        let line = |format| options(format).line("lost", "\"/l\" is lost", moment);
        assert_eq!(line(Format::Text), "zklock: \"/l\" is lost");
        let wanted =
            json!({ "time": "1970-01-01T00:00:01.500Z", "event": "lost", "message": "\"/l\" is lost" });
        assert_eq!(serde_json::from_str::<serde_json::Value>(&line(Format::Json)).unwrap(), wanted);
    }
}
